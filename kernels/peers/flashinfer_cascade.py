"""flashinfer_cascade.py - FlashInfer's cascade (MultiLevelCascadeAttentionWrapper) before the judge.

    TREEATTN=build/treeattn python3 kernels/peers/flashinfer_cascade.py --trees 100 --dtype f16

One launch a level of the tree, then merges. It gives no LSE.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn

space = None


@treeattn.kernel(
    view="levels", array="torch", device="cuda", dtypes=("f16", "bf16"), head_dims=(64, 128, 256),
    lse="none", probability="input", probability_sum="rounded", partial_o="input", merge_chain=1024, max_pairs=2e8,
)
def flashinfer_cascade(c):
    import flashinfer
    import torch

    global space
    if space is None:
        space = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    level = c.level_ptr.tolist()
    qo, kv, pages, last = [], [], [], []
    base = 0
    for i in range(len(level) - 1):
        begin, end = level[i], level[i + 1]
        qo.append(c.qo_indptr[begin + i : end + i + 1])
        kv.append(c.kv_indptr[begin + i : end + i + 1])
        count = int(kv[-1][-1])
        pages.append(c.kv_indices[base : base + count])
        last.append(c.last_page_len[begin:end])
        base += count
    wrapper = flashinfer.MultiLevelCascadeAttentionWrapper(len(level) - 1, space, "NHD")
    wrapper.plan(
        qo, kv, pages, last, c.heads, c.kv_heads, c.head_dim, c.page_size, sm_scale=c.scale,
        q_data_type=c.q.dtype, kv_data_type=c.k.dtype,
    )
    return wrapper.run(c.q, (c.k, c.v))


treeattn.main(flashinfer_cascade)
