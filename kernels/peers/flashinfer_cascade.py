"""flashinfer_cascade.py - FlashInfer's cascade (MultiLevelCascadeAttentionWrapper) before the judge.

    TREEATTN=build/treeattn python3 kernels/peers/flashinfer_cascade.py --trees 100 --dtype f16

One launch a level of the tree, then merges. It gives no LSE. FLASHINFER_BACKEND=fa2 takes the template of that name on Hopper, too.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn

backend = os.environ.get("FLASHINFER_BACKEND")
space = None


@treeattn.kernel(
    package="flashinfer-python", view="levels", array="torch", device="cuda", dtypes=("f16", "bf16"), head_dims=(64, 128, 256),
    lse="none", probability="input", probability_sum="rounded", partial_o="input", merge_chain=1024, max_pairs=2e9,
)
def flashinfer_cascade(c):
    flashinfer, torch = treeattn.need("flashinfer"), treeattn.need("torch")
    global space
    if space is None:
        space = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    qo, kv, pages, last = [], [], [], []
    for x in treeattn.levels(c):
        qo.append(x.qo_indptr)
        kv.append(x.kv_indptr)
        pages.append(x.kv_indices)
        last.append(x.last_page_len)
    wrapper = flashinfer.MultiLevelCascadeAttentionWrapper(len(qo), space, "NHD")
    for x in wrapper._batch_prefill_wrappers if backend else ():
        x._backend = backend
    wrapper.plan(
        qo, kv, pages, last, c.heads, c.kv_heads, c.head_dim, c.page_size, sm_scale=c.scale,
        q_data_type=c.q.dtype, kv_data_type=c.k.dtype,
    )
    return lambda: wrapper.run(c.q, (c.k, c.v))


treeattn.main(flashinfer_cascade)
