#!/bin/bash
# live.sh FOLDER [SECONDS] - on a GPU: time treeattn's plan beside kernels that others released (kernels/peers), each judged, on 317 pairs of a
# tree and a head count: the 143 of the papers' sets, the 114 of h200_unseen.csv, and of the steps in h200_sweep_traces.csv the first and the
# third of each three. FOLDER gets h200_live_peers.csv with the rows of the papers' sets, and h200_live_unseen.csv with the others; a tree is in
# them when all of its kernels have run. After SECONDS the run is ended; the next one goes on with the trees that are left. $TREEATTN: the
# program (build/treeattn). What is not installed is a SKIP, row by row.
set -eu
out=$1 seconds=${2:-100000} program=${TREEATTN:-build/treeattn} here=$(cd "$(dirname "$0")" && pwd)
peers=(
    "FLASHINFER_BACKEND=fa2 python3 kernels/peers/flashinfer_cascade.py"
    "python3 kernels/peers/fasttree_release.py"
    "python3 kernels/peers/pat_release.py"
    "FASTTREE_DEFT=1 python3 kernels/peers/fasttree_release.py"
    "FLASHINFER_NODES=1 python3 kernels/peers/flashinfer_persistent.py"
    "FLASHINFER_TENSOR_CORES=1 python3 kernels/peers/flashinfer_decode.py"
    "python3 kernels/peers/cudnn_paged.py"
)
# Joins what runs wrote; then the trees that are left, into left.csv.
join() {
    python3 - "$here" "$out" "$((1 + ${#peers[@]}))" <<'END'
import csv, io, itertools, os, re, sys
here, out, rows_each, key = sys.argv[1], sys.argv[2], int(sys.argv[3]), ("set", "number", "heads", "tree")


def read(path):
    """Notes before the heading, the heading, rows."""
    with open(path, newline="") as f:
        text = re.sub(r"(?<![\w.])/([\w.+-]+/)+", "", f.read().replace(out + "/", ""))  # without folders of this machine
    lines = text.splitlines(keepends=True)
    rows = list(csv.reader(io.StringIO("".join(x for x in lines if x[0] != "#" and x.endswith("\n")))))
    notes = itertools.takewhile(lambda x: x[0] == "#", lines)
    return [x for x in notes if not x.startswith("# rows:")], rows[0] if rows else [], rows[1:]


def keys(path):
    _, head, rows = read(path)
    at = [head.index(x) if x in head else None for x in key]
    found = [tuple(row[i] if i is not None else "" for i in at) for row in rows]
    return list(dict.fromkeys(x for x in found if x[3] != "tree"))


wanted = keys(here + "/h200_bench_gpu.csv")
papers = {x[0] for x in wanted}
for name, take in (("unseen", lambda i: True), ("sweep_traces", lambda i: i % 3 != 1)):
    some = [x for i, x in enumerate(keys("%s/h200_%s.csv" % (here, name))) if take(i)]
    wanted += [(name.split("_")[-1], str(i + 1), heads, tree) for i, (_, _, heads, tree) in enumerate(some)]
files, part = [out + "/h200_live_peers.csv", out + "/h200_live_unseen.csv"], out + "/part.csv"
notes, head, kept = [], [], {}
for path in files + [part]:
    if not os.path.exists(path):
        continue
    more, columns, rows = read(path)
    head = head or columns
    notes += [x for x in more if x not in notes]
    trees = {}
    for row in rows:
        if len(row) == len(head):
            trees.setdefault(tuple(row[head.index(x)] for x in key), []).append(row)
    kept.update((k, v) for k, v in trees.items() if len(v) == rows_each)  # not the tree at which a run was ended
for path in files:
    rows = [row for k in wanted if k in kept and (k[0] in papers) == (path == files[0]) for row in kept[k]]
    if not rows:
        continue
    with open(out + "/joined", "w", newline="") as f:
        f.write("".join(notes) + "# rows: %d\n" % len(rows))
        csv.writer(f, lineterminator="\n").writerows([head] + rows)
    os.replace(out + "/joined", path)
if os.path.exists(part):
    os.remove(part)
left = [x for x in wanted if x not in kept]
with open(out + "/left.csv", "w", newline="") as f:
    csv.writer(f, lineterminator="\n").writerows([key] + left)
print("live: %d of %d trees and head counts are timed" % (len(wanted) - len(left), len(wanted)))
END
}
mkdir -p "$out"
join
if [ "$(wc -l <"$out/left.csv")" -gt 1 ]; then
    options=()
    for peer in "${peers[@]}"; do options+=(--peer "$peer"); done
    timeout "$seconds" "$program" bench-gpu --strategy treeattn --page 16 --seconds-a-case 60 --sets "$out/left.csv" "${options[@]}" --csv \
        >"$out/part.csv" || echo "live: the run ended with $?"
    join
fi
