"""pat_release.py - PAT's released kernels and scheduler (package prefix_attn) before the judge.

    PAT=PAT TREEATTN=build/treeattn python3 kernels/peers/pat_release.py --trees 100 --dtype f16 --page 32

The variable names a checkout in which `python3 setup.py build_ext --inplace` ran. The release starts its kernels on streams that it makes
for each call, which no CUDA graph can record. To be timed, csrc/pat_fwd_launch_template.h must take them from a pool, behind an event of
torch's current stream, and merge on that stream behind an event of each.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn


@treeattn.kernel(
    view="block_table", array="torch", device="cuda", dtypes=("f16", "bf16"), head_dims=(64, 128), ratios=(1, 2, 4, 8),
    page_sizes=(16, 32, 64, 128), lse="none", probability="input", merge_chain=32, max_pairs=2e9,
)
def pat(c):
    torch, release = treeattn.need("torch"), treeattn.need("prefix_attn._prefix_attn", "PAT")
    lens = c.seq_lens.tolist()
    if not all(lens):
        raise treeattn.Unsupported("a query sees nothing")
    tree, o = release.PrefixTreeCPP(c.page_size), torch.empty_like(c.q)[:, None]
    table = treeattn.block_table(c).cpu()  # the tree points into it until packs are made
    tree.build_radix_tree(lens, table)
    tree.pack_schedule(None, c.heads // c.kv_heads, c.kv_heads)
    tree.kernel_info.to_gpu(c.q.device)

    def launch():
        try:
            release.prefix_attn_with_kvcache(q=c.q[:, None], k_cache_paged=c.k, v_cache_paged=c.v, tree=tree, softmax_scale=c.scale, out=o)
        except RuntimeError as e:
            if "splits per seq" in str(e) or "block_size >=32" in str(e):
                raise treeattn.Unsupported(str(e).splitlines()[0])
            raise
        return o[:, 0]

    return launch


treeattn.main(pat)
