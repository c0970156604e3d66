"""torch_sdpa.py - torch's scaled_dot_product_attention with the tree as a mask, before the judge.

    TREEATTN=build/treeattn python3 kernels/peers/torch_sdpa.py --trees 100 --dtype f16
    SDPA_CPU=1 TREEATTN=build/treeattn python3 kernels/peers/torch_sdpa.py --trees 10     without a GPU

The tokens that anybody sees are gathered once, in the order of their slots. Query heads that share a KV head are rows of one product.
torch chooses the kernel. It gives no LSE.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn

cpu = os.environ.get("SDPA_CPU") == "1"


@treeattn.kernel(
    package="torch", view="slots", array="torch", device="cpu" if cpu else "cuda", dtypes=("f32",) if cpu else ("f16", "bf16"),
    head_dims=(64, 128, 256), lse="none", probability="input", probability_sum="rounded", max_pairs=2e9,
)
def torch_sdpa(c):
    import torch

    tokens, sees = treeattn.dense(c, 8)
    if bool((sees.sum(1)[: c.queries] == 0).any()):
        raise treeattn.Unsupported("a query that sees nothing")
    (n, m), ratio = sees.shape, c.heads // c.kv_heads
    hidden = torch.zeros(n, m, dtype=c.q.dtype, device=c.q.device).masked_fill_(~sees, float("-inf"))[: c.queries]
    hidden = hidden.repeat_interleave(ratio, 0)[None, None]
    k, v = (torch.cat((x[tokens], x.new_zeros(m - len(tokens), *x.shape[1:]))).transpose(0, 1).contiguous()[None] for x in (c.k, c.v))

    def launch():  # row (query, head of the KV head)
        q = c.q.view(c.queries, c.kv_heads, ratio, -1).transpose(0, 1).reshape(1, c.kv_heads, c.queries * ratio, -1)
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden, scale=c.scale)
        return o.view(c.kv_heads, c.queries, ratio, -1).transpose(0, 1).reshape(c.queries, c.heads, -1)

    return launch


treeattn.main(torch_sdpa)
