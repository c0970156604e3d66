#!/bin/bash
# sweep.sh FOLDER - on a GPU: time the plans that treeattn chooses from, on the papers' trees and on steps of traces; FOLDER gets
# sweep_sets.csv and sweep_traces.csv, for `treeattn fit --model treeattn`. $TREEATTN: the program (build/treeattn).
set -eu
out=$1 program=${TREEATTN:-build/treeattn}
trap 'rm -f "$out"/sweep_*.part "$out/sweep_one.csv"' EXIT # of a run that failed nothing stays
pieces=128/192/256/384/512/768/1024/1536/2048/4096/1073741824
plans=
for cut in low=0,high=16/32/64/128 low=16,high=32/64/128 low=32,high=64/128 low=64,high=128; do
    plans+=${plans:+,}treeattn:$cut,piece=$pieces
done
sweep() {
    "$program" bench gpu "$@" --reps 11 --strategy "$plans" --csv --columns strategy,verdict,time_us,mad_us,heads,d,dtype,page,tree,kernel,device
}
sweep --sets fasttree-fig9,pat-fig9,speculative > "$out/sweep_sets.csv.part"
mv "$out/sweep_sets.csv.part" "$out/sweep_sets.csv"
while read -r heads steps options; do
    # shellcheck disable=SC2086
    if ! sweep --heads "$heads" --steps "$steps" $options > "$out/sweep_one.csv"; then
        echo "sweep: left out: $options"
        continue
    fi
    if [ -e "$out/sweep_traces.csv.part" ]; then
        sed -i '/^strategy,/d' "$out/sweep_one.csv"
    fi
    cat "$out/sweep_one.csv" >> "$out/sweep_traces.csv.part"
done <<'END'
32/8 3 --trace deft:sorting128ToT.json --tree 3 --prompt 4000 --max-seq 6000
32/32 2 --trace deft:sorting128ToT.json --prompt 4000 --max-seq 6000
16/1 2 --trace deft:sorting128ToT.json --tree 5 --prompt 1000 --max-seq 6000
32/8 3 --trace deft:docmergeToT.json --prompt 4000 --max-seq 9000
28/4 2 --trace deft:docmergeToT.json --tree 2 --prompt 2000 --max-seq 9000
64/8 2 --trace deft:docmergeToT.json --tree 1 --prompt 4000 --max-seq 9000
32/8 3 --trace deft:set128ToT.json --prompt 2000 --max-seq 6000
32/32 2 --trace deft:set128ToT.json --tree 4 --prompt 2000 --max-seq 6000
32/8 3 --trace deft:keywordToT.json --prompt 1000 --max-seq 6000
64/8 2 --trace deft:keywordToT.json --tree 2 --prompt 1000 --max-seq 6000
32/8 3 --trace fewshot:20 --prompt 4000 --max-seq 4400
32/32 2 --trace fewshot:20 --prompt 4000 --max-seq 4400
32/8 2 --trace fewshot:50 --prompt 4000 --max-seq 4400
32/32 2 --trace fewshot:50 --prompt 4000 --max-seq 4400
64/8 2 --trace fewshot:35 --prompt 8000 --max-seq 8600
32/8 2 --trace fewshot:10 --prompt 16000 --max-seq 16400
32/8 3 --trace deft:APPS_tree_size64.json --prompt 1016 --max-seq 6000
32/32 2 --trace deft:APPS_tree_size64.json --prompt 1016 --max-seq 6000
32/8 2 --trace deft:APPS_tree_size32.json --prompt 1016 --max-seq 6000
32/8 3 --trace deft:APPS_tree_size256.json --prompt 1016 --max-seq 6000 --topology
32/32 2 --trace deft:APPS_tree_size256.json --prompt 1016 --max-seq 6000 --topology
16/8 3 --trace deft:APPS_tree_size128.json --prompt 1016 --max-seq 6000 --topology
64/8 3 --trace deft:APPS_tree_size64.json --prompt 1016 --max-seq 6000 --topology
32/8 3 --trace deft:tree_size32.json --prompt 1016 --max-seq 6000 --topology
32/8 3 --trace fasttree:prompt,1 --batch 128
28/4 2 --trace fasttree:prompt,2 --batch 64
32/8 2 --trace fasttree:shots,1 --batch 128
64/8 2 --trace fasttree:shots,2 --batch 32
32/8 3 --trace fasttree:chains,1 --batch 128
32/32 2 --trace fasttree:chains,1 --batch 128
64/8 2 --trace fasttree:chains,2 --batch 48
32/8 3 --trace fasttree:documents,1 --batch 128
32/8 2 --trace fasttree:documents,2 --batch 40
32/8 3 --trace conversation:200,1 --batch 64
64/8 3 --trace conversation:200,2 --batch 16
32/8 3 --trace requests:200,1 --batch 64
28/4 2 --trace requests:200,2 --batch 24
END
mv "$out/sweep_traces.csv.part" "$out/sweep_traces.csv"
