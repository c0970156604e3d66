"""child.py - attention in numpy over lists of pages, as a child of treeattn.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import numpy as np
import treeattn


def fp8_numbers(mantissa, bias):
    code = np.arange(256)
    exponent, rest = code % 128 >> mantissa, code % (1 << mantissa)
    size = np.ldexp(rest + np.where(exponent > 0, 1 << mantissa, 0), np.maximum(exponent, 1) - bias - mantissa)
    return np.where(code < 128, size, -size).astype(np.float32)  # NaN and infinities are nobody's token


FP8 = {"e4m3": fp8_numbers(3, 7), "e5m2": fp8_numbers(2, 15)}
KV = ("e4m3", "e5m2", "headscales", "latent", "narrowv")


def numbers(c, x, scale):
    """[.., KV heads, d] of K or V."""
    return x if scale is None else FP8[c.kv_dtype][x] * scale[:, None]


@treeattn.kernel(view="paged", max_pairs=2e6, features=KV)
def numpy_paged(c):
    n, heads, d = c.q.shape
    wide = np.float64 if c.dtype == "f64" else np.float32
    o, lse = np.zeros((n, heads, c.head_dim_v), wide), np.full((n, heads), -np.inf, wide)
    for i in range(n):
        pages = c.kv_indices[c.kv_indptr[i] : c.kv_indptr[i + 1]]
        if len(pages) == 0:
            continue
        tokens = (len(pages) - 1) * c.page_size + c.last_page_len[i]
        k, v = (
            numbers(c, x[pages].reshape(-1, c.kv_heads, x.shape[-1])[:tokens], scale).astype(wide)
            for x, scale in ((c.k, c.k_scale), (c.v, c.v_scale))
        )
        for h in range(heads):
            g = h // (heads // c.kv_heads)
            logit = (k[:, g] @ c.q[i, h].astype(wide)) * wide(c.scale)
            p = np.exp(logit - logit.max())
            o[i, h] = p @ v[:, g] / p.sum()
            lse[i, h] = logit.max() + np.log(p.sum())
    return o, lse


@treeattn.partial(features=KV)
def numpy_partial(c):
    n, heads, d = c.q.shape
    wide = np.float64 if c.dtype == "f64" else np.float32
    group = np.arange(heads) // (heads // c.kv_heads)
    k, v = (numbers(c, x[c.tokens], scale)[:, group].astype(wide) for x, scale in ((c.k, c.k_scale), (c.v, c.v_scale)))
    logit = np.einsum("nhd,thd->nht", c.q.astype(wide), k) * wide(c.scale)
    if c.sees is not None:
        logit[np.broadcast_to(~c.sees[:, None, :], logit.shape)] = -np.inf
    top = np.maximum(logit.max(2, initial=-np.inf), np.finfo(wide).min)
    p = np.exp(logit - top[..., None])
    total = p.sum(2)
    with np.errstate(divide="ignore"):
        return np.einsum("nht,thd->nhd", p / np.where(total > 0, total, 1)[..., None], v), np.log(total) + top


@treeattn.merge()
def numpy_merge(c):
    lse = c.lse_in.astype(np.float64)
    top = np.maximum(lse.max(0), np.finfo(np.float64).min)
    weight = np.exp(lse - top)
    total = weight.sum(0)
    with np.errstate(divide="ignore"):
        return (weight[..., None] * c.o_in).sum(0) / np.where(total > 0, total, 1)[..., None], np.log(total) + top


treeattn.main(numpy_paged, numpy_partial, numpy_merge)
