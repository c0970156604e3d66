#!/bin/bash
# measure.sh FOLDER - on a GPU: measure on this card what paper-figs draws from single runs, and draw it beside what is committed. FOLDER
# gets measured/*.csv under the names that the figures ask for, whatever the card is, and drawn/, FIGURES.md and index.html from them; the
# figures name the card that their files do. What only a longer run has (h200_replay.csv and the like) stays as it is committed.
# $TREEATTN: the program (build/treeattn); $FIGURES: the drawer (build/paper-figs/figures). Exits with 3 where there is no GPU.
set -eu
out=$1 program=${TREEATTN:-build/treeattn} figures=${FIGURES:-build/paper-figs/figures} here=$(cd "$(dirname "$0")/.." && pwd)
if ! why=$("$program" bench-gpu --levels "1,2 64,8" --strategy pat -q 2>&1); then
    echo "figures-gpu: nothing is measured here: ${why##*treeattn: }" | head -1
    exit 3
fi
rm -rf "$out"
mkdir -p "$out/measured" "$out/part"
for name in paper recorded data style.gp; do ln -s "$here/$name" "$out/$name"; done
for file in "$here"/measured/*.csv; do ln -s "$file" "$out/measured/"; done
said() { echo "figures-gpu: $1, ${SECONDS} s"; }
# TARGET OPTION..: one run of bench-gpu
bench() {
    local target=$out/measured/$1.csv
    shift
    "$program" bench-gpu "$@" --csv -o "$out/part/one.csv" >"$out/part/log"
    rm -f "$target"
    mv "$out/part/one.csv" "$target"
}
# NAME OTHER: the same under another name, which figures of another card ask for
again() {
    rm -f "$out/measured/$2.csv"
    cp "$out/measured/$1.csv" "$out/measured/$2.csv"
}
# TARGET FILE..: files with one heading as one, with all comments first
join() {
    local target=$out/measured/$1.csv
    shift
    rm -f "$target"
    {
        grep -h '^#' "$@" | grep -v '^# rows:' | sort -u
        echo "# rows: $(($(cat "$@" | grep -vc '^#') - $#))"
        grep -hv '^#' "$1" | head -1
        for file; do grep -v '^#' "$file" | tail -n +2; done
    } >"$target"
}
said "the papers' trees, every plan"
bench h200_bench_gpu --sets fasttree-fig9,pat-fig9,speculative
said "the same as the released kernels were timed"
bench h200_bench_write --flush write --sets fasttree-fig9,pat-fig9,speculative
again h200_bench_write h100_bench_write
said "FastTree without splitting, PAT's ablations"
bench h100_splitting --sets fasttree-fig9 --strategy fasttree,fasttree:split=1e12,split_short=1e12
released=:rule=artifact
bench h200_ablations --sets pat-fig9 --heads 32/8 --strategy "pat$released,pat-compute$released,pat-naive$released,pat-fixed$released,pat-serial$released"
said "Hydragen's attention"
size() { # batch, prefix, suffix
    "$program" bench-gpu --heads 8/1 --levels "1,$1 $2,$3" --strategy hydragen,flash-decoding --csv -o "$out/part/h-$1-$2-$3-a.csv"
    "$program" bench-gpu --heads 8/1 --levels "$1 $(($2 + $3))" --strategy flash-attention,flash-decoding --csv -o "$out/part/h-$1-$2-$3-b.csv"
} >"$out/part/log"
for b in 64 256 1024 2048; do
    for p in 1024 2048 4096 8192 16384; do size $b $p 128; done
    for s in 512 2048; do size $b 16384 $s; done
done
join h200_hydragen "$out"/part/h-*.csv
again h200_hydragen h100_hydragen
said "decode steps of FastTree's and PAT's workloads"
steps() { # RUN MODEL OPTION..; a column `run` in front
    local run=$1 model=$2
    shift 2
    "$program" replay --page 64 --dtype f16 --llm "$model" "$@" --csv -o "$out/part/one.csv"
    awk -v run="$run" '/^#/ { print; next } { print (head++ ? run : "run") "," $0 }' "$out/part/one.csv" >"$out/part/s-$run-$model.csv"
}
for model in llama-2-7b mistral-7b; do
    for w in prompt shots chains documents; do
        steps fasttree-$w $model --every 16 --workload fasttree-$w --strategy flashinfer,flash-attention,fasttree
    done
done
for model in llama-3-8b qwen3-8b; do
    for run in 16:300 32:500 64:500 128:1000 256:2000; do # places, and enough requests to fill them
        b=${run%:*}
        steps batch-$b $model --every 32 --trace conversation:${run#*:},1,2,2 --batch $b --strategy flash-attention,flashinfer,relay++,fasttree,pat,pat$released
    done
done
join h100_serving "$out"/part/s-fasttree-*.csv
join h200_serving "$out"/part/s-batch-*.csv
if [ -n "${FASTTREE:-}${PAT:-}" ] || python3 -c "import flashinfer" 2>"$out/part/log"; then
    said "released kernels beside ours"
    "$here/measured/live.sh" "$out/part/live"
    mv -f "$out"/part/live/h200_live_*.csv "$out/measured/"
fi
rm -rf "$out/part"
said "drawing"
drawn=
command -v gnuplot >/dev/null || drawn=--no-drawing
"$figures" $drawn --program "$program" --root "$out" --scratch "$out/scratch" --out "$out"
echo "figures-gpu: $out/index.html, from files in $out/measured; the committed page is paper-figs/index.html"
