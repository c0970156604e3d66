"""flashinfer_persistent.py - FlashInfer's persistent batch attention (BatchAttention) before the judge.

    TREEATTN=build/treeattn python3 kernels/peers/flashinfer_persistent.py --trees 100 --dtype f16

One launch. Every query is a request of its own, and nothing is shared. With FLASHINFER_NODES=1 every node of the tree is a request of
all queries below it, and FlashInfer's merge_states joins the levels: trees whose queries all stand on the same levels.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn

nodes = os.environ.get("FLASHINFER_NODES") == "1"
wrapper = None


@treeattn.kernel(
    name="flashinfer_persistent_nodes" if nodes else "flashinfer_persistent", package="flashinfer-python",
    view="levels" if nodes else "paged", array="torch", device="cuda", dtypes=("f16", "bf16"), head_dims=(64, 128, 256),
    lse="2", probability="input", probability_sum="rounded", partial_o="input", merge_chain=64, max_pairs=2e9,
)
def flashinfer_persistent(c):
    flashinfer, torch = treeattn.need("flashinfer"), treeattn.need("torch")
    global wrapper
    if wrapper is None:
        wrapper = flashinfer.BatchAttention("NHD", "cuda")
    if nodes:
        level = [x for x in treeattn.levels(c) if len(x.kv_indices)]
        if any(bool((x.kv_indptr.diff() == 0).any()) for x in level):
            raise treeattn.Unsupported("some queries have tokens on a level, others none")
        n, depth = c.queries, len(level)
        qo = torch.cat([x.qo_indptr[:-1] + i * n for i, x in enumerate(level)] + [x.new_full((1,), depth * n) for x in [c.qo_indptr]])
        lens = torch.cat([(x.kv_indptr.diff() - 1) * c.page_size + x.last_page_len for x in level])
        counts = torch.cat([x.kv_indptr.diff() for x in level])
        kv = torch.cat((counts.new_zeros(1), counts.cumsum(0).to(counts.dtype)))
        pages = torch.cat([x.kv_indices for x in level])
    else:
        n, depth, kv, pages = c.queries, 1, c.kv_indptr, c.kv_indices
        qo = torch.arange(n + 1, dtype=kv.dtype, device=kv.device)
        lens = (kv.diff() - 1).clamp(min=0) * c.page_size + c.last_page_len
    wrapper.plan(
        qo, kv, pages, lens.to(kv.dtype), c.heads, c.kv_heads, c.head_dim, c.head_dim, c.page_size, causal=False, sm_scale=c.scale,
        q_data_type=c.q.dtype, kv_data_type=c.k.dtype,
    )

    def launch():
        if depth == 1:
            return wrapper.run(c.q, (c.k, c.v))
        o, lse = wrapper.run(c.q.repeat(depth, 1, 1), (c.k, c.v))
        o, lse = (x.view(depth, n, *x.shape[1:]).transpose(0, 1).contiguous() for x in (o, lse))
        return flashinfer.merge_states(o, lse)

    return launch


treeattn.main(flashinfer_persistent)
