"""flashinfer_decode.py - FlashInfer's paged decode (BatchDecodeWithPagedKVCacheWrapper) before the judge.

    TREEATTN=build/treeattn python3 kernels/peers/flashinfer_decode.py --trees 100 --dtype f16

Every query reads its whole path: nothing is shared. FLASHINFER_TENSOR_CORES=1 takes the kernel that uses tensor cores.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn

tensor_cores = os.environ.get("FLASHINFER_TENSOR_CORES") == "1"
wrapper = None


@treeattn.kernel(
    name="flashinfer_decode_tc" if tensor_cores else "flashinfer_decode", package="flashinfer-python",
    view="paged", array="torch", device="cuda", dtypes=("f16", "bf16"), head_dims=(64, 128, 256), ratios=(1, 2, 4, 8),
    lse="2", probability="input", probability_sum="rounded" if tensor_cores else "exact", partial_o="input", max_pairs=2e9,
)
def flashinfer_decode(c):
    flashinfer, torch = treeattn.need("flashinfer"), treeattn.need("torch")
    global wrapper
    if wrapper is None:
        space = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(space, "NHD", use_tensor_cores=tensor_cores)
    wrapper.plan(
        c.kv_indptr, c.kv_indices, c.last_page_len, c.heads, c.kv_heads, c.head_dim, c.page_size,
        q_data_type=c.q.dtype, kv_data_type=c.k.dtype, sm_scale=c.scale,
    )
    return lambda: wrapper.run(c.q, (c.k, c.v), return_lse=True)


treeattn.main(flashinfer_decode)
