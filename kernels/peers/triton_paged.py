"""triton_paged.py - a small paged decode kernel in Triton, before the judge: an example of a kernel that one would write.

    TREEATTN=build/treeattn python3 kernels/peers/triton_paged.py --trees 100 --dtype bf16
    TRITON_INTERPRET=1 TREEATTN=build/treeattn python3 kernels/peers/triton_paged.py --trees 10     without a GPU, slowly

A program takes one query and one KV head, with all the query heads that share it, and walks its list of pages.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn
import triton
import triton.language as tl

interpret = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def paged_decode(q, k, v, indptr, indices, last, o, lse, scale, heads, kv_heads, page, D: tl.constexpr,
                 WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    i, h = tl.program_id(0), tl.program_id(1)
    ratio = heads // kv_heads
    begin, end = tl.load(indptr + i), tl.load(indptr + i + 1)
    tokens = tl.where(end > begin, (end - begin - 1) * page + tl.load(last + i), 0)
    r, x, t = tl.arange(0, ROWS), tl.arange(0, WIDE), tl.arange(0, BLOCK)
    mine = (i.to(tl.int64) * heads + h * ratio + r)[:, None] * D + x[None, :]
    inside = (r < ratio)[:, None] & (x < D)[None, :]
    a = tl.load(q + mine, mask=inside, other=0.0)
    most = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, WIDE], tl.float32)
    for first in range(0, tokens, BLOCK):
        j = first + t
        there = j < tokens
        at = tl.load(indices + begin + j // page, mask=there, other=0).to(tl.int64) * page + j % page
        where = (at * kv_heads + h)[:, None] * D + x[None, :]
        seen = there[:, None] & (x < D)[None, :]
        b = tl.load(k + where, mask=seen, other=0.0)
        s = tl.dot(a, tl.trans(b), input_precision="ieee") * scale
        s = tl.where(there[None, :], s, float("-inf"))
        now = tl.maximum(most, tl.max(s, 1))
        p = tl.exp(s - now[:, None])
        keep = tl.exp(most - now)
        c = tl.load(v + where, mask=seen, other=0.0)
        acc = acc * keep[:, None] + tl.dot(p.to(c.dtype), c, input_precision="ieee")
        total = total * keep + tl.sum(p, 1)
        most = now
    some = tokens > 0
    acc = acc / tl.where(some, total, 1.0)[:, None]
    tl.store(o + mine, acc.to(o.dtype.element_ty), mask=inside)
    row = i.to(tl.int64) * heads + h * ratio + r
    tl.store(lse + row, tl.where(some, most + tl.log(total), float("-inf")), mask=r < ratio)


@treeattn.kernel(
    view="paged", array="torch", device="cpu" if interpret else "cuda", dtypes=("f32", "f16", "bf16"), probability="input",
    max_pairs=1e5 if interpret else 2e8,
)
def triton_paged(c):
    import torch

    o = torch.empty_like(c.q)
    lse = torch.empty(c.queries, c.heads, dtype=torch.float32, device=c.q.device)
    if c.queries:
        paged_decode[(c.queries, c.kv_heads)](
            c.q, c.k, c.v, c.kv_indptr, c.kv_indices, c.last_page_len, o, lse, c.scale, c.heads, c.kv_heads, c.page_size,
            D=c.head_dim, WIDE=max(16, triton.next_power_of_2(c.head_dim)),
            ROWS=max(16, triton.next_power_of_2(c.heads // c.kv_heads)), BLOCK=64 if c.head_dim <= 128 else 32)
    return o, lse


treeattn.main(triton_paged)
