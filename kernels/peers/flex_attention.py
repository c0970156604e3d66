"""flex_attention.py - torch's FlexAttention with the tree as a block mask, before the judge.

    TREEATTN=build/treeattn python3 kernels/peers/flex_attention.py --trees 100 --dtype bf16

The tokens that anybody sees are gathered once, in the order of their slots; the mask says who sees which. FLEX_EAGER=1 computes
without torch.compile, as a check of the mask on a machine without a GPU.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn

eager = os.environ.get("FLEX_EAGER") == "1"
compiled = None


@treeattn.kernel(
    view="slots", array="torch", device="cpu" if eager else "cuda", dtypes=("f32",) if eager else ("f16", "bf16"),
    head_dims=(64, 128), probability="input", max_pairs=2e8,
)
def flex_attention(c):
    import torch
    from torch.nn.attention import flex_attention as flex

    global compiled
    if compiled is None:
        compiled = flex.flex_attention if eager else torch.compile(flex.flex_attention, dynamic=True)
    tokens, at = torch.unique(c.kv_indices.long(), return_inverse=True)
    if len(tokens) == 0:
        raise treeattn.Unsupported("no query sees a token")
    if c.queries * len(tokens) > 1 << 28:
        raise treeattn.Unsupported("a mask of %d x %d" % (c.queries, len(tokens)))
    row = torch.repeat_interleave(torch.arange(c.queries, device=at.device), c.kv_indptr.long().diff())
    sees = torch.zeros(c.queries, len(tokens), dtype=torch.bool, device=at.device)
    sees[row, at] = True
    mask = flex.create_block_mask(
        lambda b, h, i, j: sees[i, j], None, None, c.queries, len(tokens), device=at.device, _compile=False)
    q, k, v = (x.transpose(0, 1)[None] for x in (c.q, c.k[tokens], c.v[tokens]))
    o, lse = compiled(q, k, v, block_mask=mask, scale=c.scale, enable_gqa=True, return_lse=True)
    return o[0].transpose(0, 1), lse[0].transpose(0, 1)


treeattn.main(flex_attention)
