"""record.py FILE CSR WRONG - a step of an engine of numpy, as treeattn.record writes it: 24 requests that share 8 pages, and 3 by sixes.

CSR 1: lists of pages instead of a block table. WRONG 1: query heads read the wrong KV head.
"""
import sys

import numpy as np
import treeattn

path, csr, wrong = sys.argv[1], sys.argv[2] == "1", sys.argv[3] == "1"
rng = np.random.default_rng(5)
requests, page, heads, kv_heads, d, pool = 24, 16, 8, 2, 32, 1000
free = list(rng.permutation(pool))
take = lambda n: [free.pop() for _ in range(n)]
prefix, groups = take(8), [take(3) for _ in range(4)]
rows = [prefix + groups[r % 4] + take(rng.integers(1, 6)) for r in range(requests)]
tails = rng.integers(1, page + 1, requests)
lens = [(len(row) - 1) * page + tail for row, tail in zip(rows, tails)]
q, k, v = (rng.standard_normal(s).astype(np.float16) for s in ((requests, heads, d), (pool, page, kv_heads, d), (pool, page, kv_heads, d)))
o, lse = np.zeros_like(q), np.zeros((requests, heads), np.float32)
for r in range(requests):
    for h in range(heads):
        g = h % kv_heads if wrong else h // (heads // kv_heads)
        keys, values = (x[rows[r]].reshape(-1, kv_heads, d)[: lens[r], g].astype(np.float64) for x in (k, v))
        logits = keys @ q[r, h].astype(np.float64) * d**-0.5
        p = np.exp(logits - logits.max())
        o[r, h], lse[r, h] = p @ values / p.sum(), (logits.max() + np.log(p.sum())) / np.log(2)
if csr:
    lists = {"kv_indptr": np.cumsum([0] + [len(row) for row in rows]).astype(np.int32), "kv_indices": np.concatenate(rows).astype(np.int32)}
    lists["kv_last_page_len"] = tails.astype(np.int32)
else:
    table = np.full((requests, max(map(len, rows))), -1, np.int32)
    for r, row in enumerate(rows):
        table[r, : len(row)] = row
    lists = {"block_table": table, "seq_lens": np.array(lens, np.int32)}
treeattn.record(path, q, k, v, o, lse, lse_base="2", scale=d**-0.5, declares={"probability": "f16", "sum_block": 128}, **lists)
