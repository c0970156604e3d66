"""cudnn_paged.py - cuDNN's paged attention, through its frontend, before the judge.

    TREEATTN=build/treeattn python3 kernels/peers/cudnn_paged.py --trees 100 --dtype f16 --head-dim 128

Every query is a request of its own, and nothing is shared. It gives no LSE here.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn


@treeattn.kernel(
    package="nvidia-cudnn-frontend", view="block_table", array="torch", device="cuda", dtypes=("f16", "bf16"), head_dims=(64, 128),
    lse="none", probability="input", partial_o="input", max_pairs=2e9,
)
def cudnn_paged(c):
    cudnn, torch = treeattn.need("cudnn"), treeattn.need("torch")
    if bool((c.seq_lens == 0).any()):
        raise treeattn.Unsupported("a query that sees nothing")
    (n, most), h, g, d, page = c.block_table.shape, c.heads, c.kv_heads, c.head_dim, c.page_size
    kind = cudnn.data_type.HALF if c.dtype == "f16" else cudnn.data_type.BFLOAT16
    handle = cudnn.create_handle()
    graph = cudnn.pygraph(
        io_data_type=kind, intermediate_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT, handle=handle
    )
    table = treeattn.block_table(c).view(n, 1, most, 1)
    lens, ones = c.seq_lens.to(torch.int32).view(n, 1, 1, 1), torch.ones(n, 1, 1, 1, dtype=torch.int32, device="cuda")
    q, o = c.q.view(n, h, 1, d), torch.empty(n, h, 1, d, dtype=c.q.dtype, device="cuda")
    k, v = (x.transpose(1, 2) for x in (c.k, c.v))  # [pages, KV heads, page, d], as they lie
    given = {name: graph.tensor_like(x) for name, x in dict(q=q, k=k, v=v, k_table=table, v_table=table, lens=lens, ones=ones).items()}
    out, _ = graph.sdpa(
        name="sdpa", q=given["q"], k=given["k"], v=given["v"], attn_scale=c.scale, generate_stats=False, use_padding_mask=True,
        seq_len_q=given["ones"], seq_len_kv=given["lens"], paged_attention_k_table=given["k_table"],
        paged_attention_v_table=given["v_table"], paged_attention_max_seq_len_kv=most * page,
    )
    out.set_output(True).set_dim(list(o.shape)).set_stride(list(o.stride()))
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    space = torch.empty(max(1, graph.get_workspace_size()), dtype=torch.uint8, device="cuda")
    at = {given["q"]: q, given["k"]: k, given["v"]: v, given["k_table"]: table, given["v_table"]: table,
          given["lens"]: lens, given["ones"]: ones, out: o}

    def launch():
        cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
        graph.execute(at, space, handle=handle)
        return o.view(n, h, d)

    return launch


treeattn.main(cudnn_paged)
