"""collects.py - what a test in pytest does with treeattn.py: cases of a suite, kernels of this process."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../verify/child"))
import numpy as np
import treeattn


@treeattn.kernel(view="slots", dtypes=("f32",))
def right(c):
    n, heads, d = c.q.shape
    o, lse = np.zeros((n, heads, d), np.float32), np.full((n, heads), -np.inf, np.float32)
    for i in range(n):
        slots = c.kv_indices[c.kv_indptr[i] : c.kv_indptr[i + 1]]
        for h in range(heads if len(slots) else 0):
            g = h // (heads // c.kv_heads)
            logit = (c.k[slots, g] @ c.q[i, h]) * np.float32(c.scale)
            p = np.exp(logit - logit.max())
            o[i, h] = p @ c.v[slots, g] / p.sum()
            lse[i, h] = logit.max() + np.log(p.sum())
    return o, lse


@treeattn.kernel(view="slots", dtypes=("f32",))
def wrong(c):
    o, lse = right(c)
    return 2 * o, lse


cases = treeattn.cases("smoke-1")
tally = {"pass": 0, "skip": 0}
for case in cases[1:6] + [x for x in cases if "sinks" in x]:
    try:
        treeattn.check(case, right)
        tally["pass"] += 1
    except unittest.SkipTest:
        tally["skip"] += 1
print("%d cases: %d pass, %d skip" % (len(cases), tally["pass"], tally["skip"]))
try:
    treeattn.check(cases[5], wrong)
except AssertionError as e:
    print("wrong:", str(e).split()[1].rstrip(":"))
try:
    treeattn.cases("smoke-9")
except ValueError as e:
    print("none:", str(e).split(" (")[0])
