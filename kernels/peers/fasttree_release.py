"""fasttree_release.py - FastTree's released Triton kernels, or its port of DeFT-Flatten, before the judge.

    FASTTREE=FastTree-Artifact/kernel_bench TREEATTN=build/treeattn python3 kernels/peers/fasttree_release.py --trees 100 --dtype f16

The variable names a folder with fasttree.py and DeFT.py; FASTTREE_DEFT=1 takes the latter. Tiles, thresholds and splits are those of its
benchmark. Both number tokens node by node. What they made of that is translated to slots of the pool, which belongs to planning.
"""
import contextlib
import io
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import treeattn

deft = os.environ.get("FASTTREE_DEFT") == "1"


def tree_of(c, node_class):
    """Its nodes, parents first, of all that some query sees, under one root; and the slots of their tokens, node by node."""
    torch, parent, length = treeattn.need("torch"), c.parent.tolist(), c.len.tolist()
    below = [[] for _ in parent]
    for query, (node, upto) in enumerate(zip(c.query_node.tolist(), c.query_upto.tolist())):
        if upto != length[node]:
            raise treeattn.Unsupported("a query sees a part of its node")
        seen = 0
        while node >= 0:
            seen += length[node]
            below[node].append(query)
            node = parent[node]
        if not seen:
            raise treeattn.Unsupported("a query sees nothing")
    live = [i for i in range(len(parent)) if below[i]]
    roots = [i for i in live if parent[i] < 0]
    order = ([] if len(roots) == 1 else [-1]) + live
    at = {node: i for i, node in enumerate(order)}
    nodes = []
    for i, node in enumerate(order):
        x = node_class()
        x.id, x.seqlen, x.requests = i, 0 if node < 0 else length[node], list(range(c.queries)) if node < 0 else below[node]
        x.parent = -1 if i == 0 else at[parent[node]]
        nodes.append(x)
        if i:
            if x.parent >= i:
                raise treeattn.Unsupported("a node stands before its parent")
            nodes[x.parent].num_children += 1
    inner = [0] * len(nodes)
    for x in nodes[1:]:
        inner[x.parent] += len(x.requests)
    if any(x.num_children and inner[x.id] < len(x.requests) for x in nodes):
        raise treeattn.Unsupported("a query ends at an inner node")
    tokens = c.len[live]
    of, end = torch.repeat_interleave(torch.tensor(live, device=tokens.device), tokens), tokens.cumsum(0)
    at = torch.arange(len(of), device=of.device) - torch.repeat_interleave(end - tokens, tokens)
    return nodes, (c.node_page[c.node_page_ptr[of] + at // c.page_size].long() * c.page_size + at % c.page_size).to(torch.int32)


@treeattn.kernel(
    name="fasttree_deft" if deft else "fasttree", package="torch", view="tree", array="torch", device="cuda", dtypes=("f16", "bf16"),
    head_dims=(64, 128), ratios=(1, 2, 4, 8, 16), lse="none", probability="input", merge_chain=4096, max_pairs=2e9, max_queries=4096,
)
def fasttree(c):
    torch, ratio = treeattn.need("torch"), c.heads // c.kv_heads
    nodes, slots = tree_of(c, treeattn.need("kv_tree_simple", "FASTTREE").KVTreeNode)
    k, v = (x.reshape(-1, c.kv_heads, c.head_dim) for x in (c.k, c.v))
    q_tiles, kv_tiles, o = [64 // ratio, 16 // ratio], [32, 32], torch.empty_like(c.q)
    if deft:
        release, block = treeattn.need("DeFT"), 64
        start = [0] * len(nodes)
        for x in nodes[1:]:
            start[x.id] = start[x.parent] + nodes[x.parent].seqlen
        longest = max(start[x.id] + x.seqlen for x in nodes)
        sys.setrecursionlimit(100000)
        release.cur_length = 0  # what it counts by; the release prepares once in a process
        plan = list(release.DeFT_preparation(nodes, torch.empty(c.queries, longest, device="meta"), 128, block, c.heads, c.head_dim))
        # it means token t of the request r by r * longest + t
        path, first = torch.full((c.queries, longest), -1, dtype=torch.int32, device=c.q.device), 0
        for x in nodes:
            path[x.requests, start[x.id] : start[x.id] + x.seqlen] = slots[first : first + x.seqlen]
            first += x.seqlen
        entry = plan[0].long()
        plan[0] = torch.where(entry < 0, plan[0], path.reshape(-1)[entry.clamp(min=0)])

        def launch():
            release.DeFT_decode(c.q, k, v, o, *plan, q_tiles[0], kv_tiles[0], c.scale, block)
            return o

        return launch
    release = treeattn.need("fasttree")
    params, first = release.FastTreeParams(), [0]
    params.set_values(0.66, 0.33, 0.1)
    params.set_q_tile_sizes(q_tiles)
    params.set_kv_tile_sizes(kv_tiles)
    params.set_kv_group_num(ratio)
    for x in nodes:
        first.append(first[-1] + x.seqlen)
    with contextlib.redirect_stdout(io.StringIO()):
        plan, _ = release.fasttree_preparation(
            nodes, first, c.queries, c.heads, c.kv_heads, c.head_dim, [1024, 128], [132, 528], [132, 132], params
        )
    entry = plan[0].long()
    plan = (torch.where(entry < 0, plan[0], slots[entry.clamp(min=0)]), *plan[1:])

    def launch():
        release.fasttree_decode(c.q, k, v, o, *plan, params.TSQs, params.TSKs, c.scale)
        return o

    return launch


treeattn.main(fasttree)
