"""flash_attention_3.py - FlashAttention-3's decode over a page table (flash_attn_with_kvcache) before the judge.

    FLASH_ATTENTION_3=flash-attention/hopper TREEATTN=build/treeattn python3 kernels/peers/flash_attention_3.py --trees 100 --dtype f16

The variable names a folder with flash_attn_interface.py, and with what was built of it. Every query is a request; nothing is shared.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn


@treeattn.kernel(
    view="block_table", array="torch", device="cuda", dtypes=("f16", "bf16"), head_dims=(64, 128, 256),
    empty_lse="+inf", probability="input", max_pairs=2e9,
)
def flash_attention_3(c):
    fa3, table = treeattn.need("flash_attn_interface", "FLASH_ATTENTION_3"), treeattn.block_table(c)

    def launch():
        o, lse = fa3.flash_attn_with_kvcache(
            c.q[:, None], c.k, c.v, cache_seqlens=c.seq_lens, page_table=table, softmax_scale=c.scale, return_softmax_lse=True
        )[:2]
        return o[:, 0], lse[..., 0]

    return launch


treeattn.main(flash_attention_3)
