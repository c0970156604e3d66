"""flex_attention.py - torch's FlexAttention with the tree as a block mask, before the judge.

    TREEATTN=build/treeattn python3 kernels/peers/flex_attention.py --trees 100 --dtype bf16

The tokens that anybody sees are gathered once, in the order of their slots; the mask says who sees which. Queries and tokens are
padded to powers of two from 128 on: torch 2.11 compiles anew for each shape, and its kernel for fewer queries does not compile for
all heads. FLEX_EAGER=1 computes without torch.compile, as a check of the mask on a machine without a GPU.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")  # a child may have 64 processes
eager = os.environ.get("FLEX_EAGER") == "1"
compiled = None


@treeattn.kernel(
    package="torch", view="slots", array="torch", device="cpu" if eager else "cuda", dtypes=("f32",) if eager else ("f16", "bf16"),
    head_dims=(64, 128), probability="input", max_pairs=2e9,
)
def flex_attention(c):
    import torch
    from torch.nn.attention import flex_attention as flex

    global compiled
    if compiled is None:
        compiled = flex.flex_attention if eager else torch.compile(flex.flex_attention, dynamic=False)
    tokens, sees = treeattn.dense(c, 128)
    n, m = sees.shape
    mask = flex.create_block_mask(lambda b, h, i, j: sees[i, j], None, None, n, m, device=sees.device, _compile=False)

    def padded(x, rows):
        return torch.cat((x, x.new_zeros(rows - len(x), *x.shape[1:]))).transpose(0, 1)[None]

    q, k, v = padded(c.q, n), padded(c.k[tokens], m), padded(c.v[tokens], m)

    def launch():
        o, lse = compiled(q, k, v, block_mask=mask, scale=c.scale, enable_gqa=True, return_lse=True)
        return o[0].transpose(0, 1)[: c.queries], lse[0].transpose(0, 1)[: c.queries]

    return launch


treeattn.main(flex_attention)
