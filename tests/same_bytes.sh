#!/bin/bash
# same_bytes.sh TREE OUT - what the program built in source tree TREE prints, into files below OUT, without clocks and dates.
# Run it on the commit before and on the one after a change that may alter no number, and compare: diff -r OUT1 OUT2.
set -eu
tree=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
program=$tree/build/treeattn
cd "$tree"

# without FIRST FILE..: FILEs as CSV without the columns named in $drop, and without comments (command, commit, date)
without() {
    awk -F, -v drop="$drop" 'BEGIN { n = split(drop, d, " "); for (i = 1; i <= n; i++) out[d[i]] = 1 }
        /^#/ { next }
        !seen { seen = 1; for (i = 1; i <= NF; i++) skip[i] = ($i in out) }
        { line = $0; n = 0; field = ""; quoted = 0; text = ""; k = 1
          for (i = 1; i <= length(line) + 1; i++) {
              c = substr(line, i, 1)
              if (c == "\"") quoted = !quoted
              if ((c == "," && !quoted) || i > length(line)) { if (!(k in skip) || !skip[k]) text = text field ","; k++; field = "" }
              else field = field c
          }
          print text }'
}

drop=
for trace in "embedded:reasoning --prompt 1000 --max-seq 1400" "embedded:speculative --prompt 1000 --max-seq 1200" \
    "embedded:medusa --prompt 500 --max-seq 560" "embedded:requests --batch 8"; do
    name=${trace#embedded:}
    for machine in "" "--machine h200" "--machine a100-80"; do
        "$program" sim --csv --trace $trace --strategy all $machine 2>&1 | without >"$out/sim-${name%% *}${machine##* }.csv" || true
    done
done

drop="host_step_s host_cache_s host_extend_s host_plan_s exposed_s whole_s tpot_ms"
for group in deft fasttree pat hydragen; do
    "$program" replay --machine h200 --csv --workload $group --every 8 2>/dev/null | without >"$out/replay-$group.csv" || true
done
"$program" replay --machine h200 --csv 2>/dev/null | without >"$out/replay-whole.csv"

drop="plan_ms run_ms"
"$program" verify --csv --trees 200 --seed 11 2>/dev/null | without >"$out/verify.csv"

strategies=$("$program" list strategies --csv 2>/dev/null | tail -n +2 | cut -d, -f1)
for seed in $(seq 1 8); do
    for family in bushy deep wide caterpillar forest token; do
        for strategy in $strategies; do
            echo "== $family:$seed $strategy"
            "$program" plan --gen $family:$seed --strategy "$strategy" --format json 2>&1 || true
        done
    done
done >"$out/plans.json"
for levels in "1,4,16 1024,256,32" "1,20 4000,300"; do
    for strategy in $strategies; do
        echo "== $levels $strategy"
        "$program" plan --levels "$levels" --strategy "$strategy" --format json 2>&1 || true
    done
done >>"$out/plans.json"

if [ -x build/paper-figs/figures ]; then
    make -s figures >/dev/null 2>&1 || true
    mkdir -p "$out/figures"
    cp -r paper-figs/drawn paper-figs/FIGURES.md paper-figs/index.html "$out/figures/"
fi
