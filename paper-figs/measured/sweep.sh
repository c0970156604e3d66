#!/bin/bash
# sweep.sh FOLDER [NAME..] - on a GPU: time the plans that treeattn chooses from; FOLDER gets sweep_NAME.csv, for `treeattn fit --time-model
# treeattn`: the papers' trees (sets), steps of traces (traces), trees and traces unlike these (more, ragged, random) and heads of
# 64 (narrow); without NAMEs all. $TREEATTN: the program (build/treeattn).
set -eu
out=$1 program=${TREEATTN:-build/treeattn}
shift
trap 'rm -f "$out"/sweep_*.part "$out/sweep_one.csv"' EXIT # of a run that failed nothing stays
pieces=128/192/256/384/512/768/1024/1536/2048/4096/1073741824
cuts="low=0,high=16/32/64/128 low=16,high=32/64/128 low=32,high=64/128 low=64,high=128"
bundles="low=16,high=64/128 low=32,high=64/128 low=64,high=128" # where their pieces may differ from blocks'
plans=
plan() { # PIECES,OPTION.. LOW,HIGH..
    local cut rest=$1
    shift
    for cut; do
        plans+=${plans:+,}treeattn:$cut,piece=$rest
    done
}
plan $pieces $cuts
plan 256/512/1024/1536/2048/4096/1073741824,trunk=256 $cuts
plan 512/1024/2048/1073741824,bundle=128/256/512 $bundles
plan 1024/2048/1073741824,bundle=128/256/512,trunk=256 $bundles
plan 64/96 low=0,high=16/32/64/128 low=16,high=64/128
plan 128/256/512/1024/2048/1073741824,tall=1 $cuts
plan 1024/2048/1073741824,trunk=256,tall=1 $cuts
one() {
    "$program" bench-gpu "$@" --reps 11 --distinct --strategy "$plans" --csv --columns strategy,verdict,time_us,mad_us,heads,d,dtype,page,tree,kernel,device
}
sweep() { # NAME OPTION..; lines of heads and more options, a run each
    local name=$1 part=$out/sweep_$1.csv.part heads line options
    shift
    while read -r heads line; do
        eval "options=($line)"
        if ! one --heads "$heads" "${options[@]}" "$@" > "$out/sweep_one.csv"; then
            echo "sweep: left out: $line"
            continue
        fi
        if [ -e "$part" ]; then
            sed -i '/^strategy,/d' "$out/sweep_one.csv"
        fi
        cat "$out/sweep_one.csv" >> "$part"
    done
    mv "$part" "$out/sweep_$name.csv"
}
is_wanted() {
    [ -z "$wanted" ] || [[ " $wanted " == *" $1 "* ]]
}
wanted=$*
if is_wanted sets; then
    one --sets fasttree-fig9,pat-fig9,speculative > "$out/sweep_sets.csv.part"
    mv "$out/sweep_sets.csv.part" "$out/sweep_sets.csv"
fi
if is_wanted traces; then
    sweep traces <<'END'
32/8 --steps 3 --trace deft:sorting128ToT.json --tree 3 --prompt 4000 --max-seq 6000
32/32 --steps 2 --trace deft:sorting128ToT.json --prompt 4000 --max-seq 6000
16/1 --steps 2 --trace deft:sorting128ToT.json --tree 5 --prompt 1000 --max-seq 6000
32/8 --steps 3 --trace deft:docmergeToT.json --prompt 4000 --max-seq 9000
28/4 --steps 2 --trace deft:docmergeToT.json --tree 2 --prompt 2000 --max-seq 9000
64/8 --steps 2 --trace deft:docmergeToT.json --tree 1 --prompt 4000 --max-seq 9000
32/8 --steps 3 --trace deft:set128ToT.json --prompt 2000 --max-seq 6000
32/32 --steps 2 --trace deft:set128ToT.json --tree 4 --prompt 2000 --max-seq 6000
32/8 --steps 3 --trace deft:keywordToT.json --prompt 1000 --max-seq 6000
64/8 --steps 2 --trace deft:keywordToT.json --tree 2 --prompt 1000 --max-seq 6000
32/8 --steps 3 --trace fewshot:20 --prompt 4000 --max-seq 4400
32/32 --steps 2 --trace fewshot:20 --prompt 4000 --max-seq 4400
32/8 --steps 2 --trace fewshot:50 --prompt 4000 --max-seq 4400
32/32 --steps 2 --trace fewshot:50 --prompt 4000 --max-seq 4400
64/8 --steps 2 --trace fewshot:35 --prompt 8000 --max-seq 8600
32/8 --steps 2 --trace fewshot:10 --prompt 16000 --max-seq 16400
32/8 --steps 3 --trace deft:APPS_tree_size64.json --prompt 1016 --max-seq 6000
32/32 --steps 2 --trace deft:APPS_tree_size64.json --prompt 1016 --max-seq 6000
32/8 --steps 2 --trace deft:APPS_tree_size32.json --prompt 1016 --max-seq 6000
32/8 --steps 3 --trace deft:APPS_tree_size256.json --prompt 1016 --max-seq 6000 --topology
32/32 --steps 2 --trace deft:APPS_tree_size256.json --prompt 1016 --max-seq 6000 --topology
16/8 --steps 3 --trace deft:APPS_tree_size128.json --prompt 1016 --max-seq 6000 --topology
64/8 --steps 3 --trace deft:APPS_tree_size64.json --prompt 1016 --max-seq 6000 --topology
32/8 --steps 3 --trace deft:tree_size32.json --prompt 1016 --max-seq 6000 --topology
32/8 --steps 3 --trace fasttree:prompt,1 --batch 128
28/4 --steps 2 --trace fasttree:prompt,2 --batch 64
32/8 --steps 2 --trace fasttree:shots,1 --batch 128
64/8 --steps 2 --trace fasttree:shots,2 --batch 32
32/8 --steps 3 --trace fasttree:chains,1 --batch 128
32/32 --steps 2 --trace fasttree:chains,1 --batch 128
64/8 --steps 2 --trace fasttree:chains,2 --batch 48
32/8 --steps 3 --trace fasttree:documents,1 --batch 128
32/8 --steps 2 --trace fasttree:documents,2 --batch 40
32/8 --steps 3 --trace conversation:200,1 --batch 64
64/8 --steps 3 --trace conversation:200,2 --batch 16
32/8 --steps 3 --trace requests:200,1 --batch 64
28/4 --steps 2 --trace requests:200,2 --batch 24
END
fi
if is_wanted more; then
    sweep more <<'END'
32/8 --levels "1,16 4096,512"
32/32 --levels "1,16 2000,100"
64/8 --levels "1,32 1024,64"
28/4 --levels "1,48 3000,200"
16/1 --levels "1,64 512,1024"
40/8 --levels "1,100 1000,300"
32/4 --levels "1,8 16000,1000"
8/1 --levels "1,20 6000,700"
64/4 --levels "1,128 500,128"
96/8 --levels "1,6 30000,400"
32/8 --levels "1,4,32 512,512,256"
32/32 --levels "1,4,16 2048,128,64"
64/8 --levels "1,8,64 300,800,100"
28/4 --levels "1,3,27 1500,700,90"
16/8 --levels "1,5,50 100,3000,200"
40/8 --levels "1,2,4,8,16 256,256,256,256,256"
32/4 --levels "1,2,8,64 4000,50,300,20"
8/1 --levels "1,10,200 600,60,16"
64/4 --levels "4,32 2000,150"
32/8 --levels "8,64 1000,250"
32/32 --levels "2,40 700,70"
16/1 --levels "16,128 300,600"
64/8 --levels "3,12,48 900,400,200"
32/8 --levels "6,6,60 50,2500,30"
32/8 --levels "40 3000"
32/32 --levels "12 7000"
28/4 --levels "150 500"
64/8 --levels "500 300"
16/8 --levels "7 20000"
32/8 --levels "2,7,21,63 333,222,111,55"
32/8 --levels "1,512 900,30"
32/32 --levels "1,200 1500,17"
16/1 --levels "1,1000 800,40"
64/8 --levels "1,300 2500,5"
96/8 --levels "1,24 100,4000"
32/8 --levels "1,64,64 64,256,8"
32/8 --steps 2 --trace conversation:200,3 --batch 32
32/32 --steps 2 --trace conversation:100,4 --batch 8
16/8 --steps 2 --trace conversation:300,5 --batch 128
32/8 --steps 2 --trace requests:200,3 --batch 12
64/8 --steps 2 --trace requests:200,4 --batch 100
32/32 --steps 2 --trace requests:100,5 --batch 40
32/8 --steps 2 --trace fasttree:prompt,3 --batch 20
40/8 --steps 2 --trace fasttree:shots,3 --batch 64
32/32 --steps 2 --trace fasttree:shots,4 --batch 16
28/4 --steps 2 --trace fasttree:chains,3 --batch 24
64/8 --steps 2 --trace fasttree:documents,3 --batch 80
32/32 --steps 2 --trace fasttree:documents,4 --batch 12
40/8 --steps 2 --trace deft:sorting128ToT.json --tree 7 --prompt 500 --max-seq 4000
16/8 --steps 2 --trace deft:docmergeToT.json --tree 3 --prompt 8000 --max-seq 12000
96/8 --steps 2 --trace deft:set128ToT.json --tree 6 --prompt 4000 --max-seq 6000
28/4 --steps 2 --trace deft:keywordToT.json --tree 1 --prompt 3000 --max-seq 6000
32/4 --steps 2 --trace fewshot:8 --prompt 2000 --max-seq 2300
40/8 --steps 2 --trace fewshot:90 --prompt 1500 --max-seq 1900
28/4 --steps 2 --trace deft:APPS_tree_size64.json --tree 2 --prompt 3000 --max-seq 6000 --topology
40/8 --steps 2 --trace deft:APPS_tree_size128.json --tree 1 --prompt 500 --max-seq 6000
END
fi
if is_wanted ragged; then
    sweep ragged <<'END'
32/8 --steps 3 --trace mooncake:mooncake_conversation_trace.jsonl --batch 32
28/4 --steps 2 --trace mooncake:mooncake_conversation_trace.jsonl --batch 8
64/8 --steps 2 --trace mooncake:mooncake_synthetic_trace.jsonl --batch 64
32/32 --steps 2 --trace mooncake:mooncake_synthetic_trace.jsonl --batch 6
16/8 --steps 2 --trace mooncake:mooncake_conversation_trace.jsonl --batch 100
40/8 --steps 2 --trace reasoning:1 --prompt 3000 --max-seq 5000
32/8 --steps 2 --trace reasoning:2 --prompt 500 --max-seq 5000
64/4 --steps 2 --trace reasoning:3 --prompt 10000 --max-seq 12000
32/32 --steps 2 --trace reasoning:4 --prompt 1500 --max-seq 5000
32/8 --steps 2 --trace spec:48,1 --prompt 2000 --max-seq 4000
16/8 --steps 2 --trace spec:100,2 --prompt 800 --max-seq 3000 --topology
64/8 --steps 2 --trace spec:24,3 --prompt 6000 --max-seq 8000 --topology
32/32 --steps 2 --trace spec:200,4 --prompt 1500 --max-seq 3000 --topology
40/8 --steps 2 --trace conversation:400,6 --batch 48
64/8 --steps 2 --trace conversation:400,7 --batch 96
28/4 --steps 2 --trace conversation:100,8 --batch 20
32/32 --steps 2 --trace conversation:200,9 --batch 24
32/8 --steps 2 --trace requests:300,6 --batch 32
40/8 --steps 2 --trace requests:300,7 --batch 128
16/1 --steps 2 --trace requests:300,8 --batch 64
32/4 --steps 2 --trace requests:100,9 --batch 6
64/8 --steps 2 --trace fasttree:prompt,5 --batch 100
32/32 --steps 2 --trace fasttree:prompt,6 --batch 40
16/8 --steps 2 --trace fasttree:shots,5 --batch 90
28/4 --steps 2 --trace fasttree:shots,6 --batch 30
40/8 --steps 2 --trace fasttree:chains,5 --batch 60
32/8 --steps 2 --trace fasttree:chains,6 --batch 16
64/8 --steps 2 --trace fasttree:documents,5 --batch 24
28/4 --steps 2 --trace fasttree:documents,6 --batch 100
16/8 --steps 2 --trace fasttree:documents,7 --batch 56
64/8 --steps 2 --trace fewshot:64 --prompt 1000 --max-seq 2000
28/4 --steps 2 --trace fewshot:5 --prompt 20000 --max-seq 20300
32/32 --steps 2 --trace fewshot:12 --prompt 3000 --max-seq 4500
16/1 --steps 2 --trace fewshot:40 --prompt 6000 --max-seq 7000
28/4 --steps 2 --trace deft:sorting128ToT.json --tree 9 --prompt 6000 --max-seq 9000
64/8 --steps 2 --trace deft:set128ToT.json --tree 8 --prompt 1000 --max-seq 6000
32/32 --steps 2 --trace deft:docmergeToT.json --tree 6 --prompt 1000 --max-seq 9000
16/8 --steps 2 --trace deft:keywordToT.json --tree 7 --prompt 500 --max-seq 6000
28/4 --steps 2 --trace deft:APPS_tree_size256.json --tree 3 --prompt 2000 --max-seq 6000 --topology
64/8 --steps 2 --trace deft:APPS_tree_size32.json --tree 2 --prompt 4000 --max-seq 6000 --topology
END
fi
if is_wanted random; then
    sweep random <<'END'
32/4 --levels "1,8,96 120,10,600"
24/8 --levels "1,2,10 1500,250,10"
64/8 --levels "1,12 333,600"
12/4 --levels "4,12 333,250"
56/8 --levels "1,5 333,90"
32/4 --levels "4,8,40 3500,600,250"
28/4 --levels "2,60 700,30"
48/8 --levels "2,6,72 700,10,600"
32/32 --levels "9,45 700,10"
24/8 --levels "4,48 8000,90"
48/8 --levels "9,27,216 1500,90,10"
56/8 --levels "1,2 333,10"
40/8 --levels "1,5,25,200 700,10,30,30"
56/8 --levels "2,16,480 1500,10,10"
56/8 --levels "4,48 3500,30"
40/8 --levels "9,72 333,600"
28/4 --levels "1,8 3500,600"
32/8 --levels "1,2 333,600"
16/1 --levels "4,8 50,600"
16/8 --levels "2,4,8,240 8000,10,90,30"
48/8 --levels "4,48,240 333,10,10"
24/8 --levels "1,8,240 120,30,600"
28/4 --steps 2 --trace conversation:200,838 --batch 80
40/8 --steps 2 --trace conversation:400,937 --batch 80
32/8 --steps 2 --trace conversation:400,531 --batch 80
40/8 --steps 2 --trace conversation:200,525 --batch 80
16/1 --steps 2 --trace conversation:200,688 --batch 6
32/8 --steps 2 --trace requests:300,911 --batch 128
32/32 --steps 2 --trace requests:300,225 --batch 40
64/4 --steps 2 --trace requests:300,902 --batch 6
48/8 --steps 2 --trace requests:300,127 --batch 40
64/8 --steps 2 --trace requests:300,683 --batch 6
24/8 --steps 2 --trace fasttree:prompt,503 --batch 128
16/8 --steps 2 --trace fasttree:shots,664 --batch 30
16/1 --steps 2 --trace fasttree:chains,531 --batch 30
48/8 --steps 2 --trace fasttree:documents,665 --batch 128
12/4 --steps 2 --trace fasttree:prompt,627 --batch 70
16/8 --steps 2 --trace fasttree:shots,458 --batch 30
32/32 --steps 2 --trace fasttree:chains,352 --batch 30
32/4 --steps 2 --trace fasttree:documents,604 --batch 70
64/4 --steps 2 --trace reasoning:426 --prompt 700 --max-seq 8000
32/8 --steps 2 --trace reasoning:856 --prompt 6000 --max-seq 8000
64/8 --steps 2 --trace reasoning:743 --prompt 2500 --max-seq 8000
32/8 --steps 2 --trace reasoning:695 --prompt 700 --max-seq 8000
24/8 --steps 2 --trace spec:60,945 --prompt 2500 --max-seq 9000 --topology
16/8 --steps 2 --trace spec:140,906 --prompt 2500 --max-seq 9000 --topology
16/1 --steps 2 --trace spec:60,548 --prompt 6000 --max-seq 9000 --topology
48/8 --steps 2 --trace spec:140,914 --prompt 6000 --max-seq 9000 --topology
40/8 --steps 2 --trace fewshot:15 --prompt 2500 --max-seq 2900
40/8 --steps 2 --trace fewshot:33 --prompt 700 --max-seq 1100
12/4 --steps 2 --trace fewshot:80 --prompt 5000 --max-seq 5400
END
fi
if is_wanted narrow; then
    sweep narrow --head-dim 64 <<'END'
64/8 --sets fasttree-fig9,pat-fig9,speculative
14/2 --sets fasttree-fig9,pat-fig9,speculative
64/8 --steps 2 --trace deft:sorting128ToT.json --prompt 4000 --max-seq 6000
32/8 --steps 2 --trace deft:docmergeToT.json --prompt 4000 --max-seq 9000
12/12 --steps 2 --trace deft:keywordToT.json --prompt 1000 --max-seq 6000
64/8 --steps 2 --trace fewshot:20 --prompt 4000 --max-seq 4400
32/8 --steps 2 --trace fewshot:50 --prompt 4000 --max-seq 4400
64/8 --steps 2 --trace deft:APPS_tree_size64.json --prompt 1016 --max-seq 6000
32/8 --steps 2 --trace deft:APPS_tree_size256.json --prompt 1016 --max-seq 6000 --topology
64/8 --steps 2 --trace fasttree:shots,1 --batch 128
32/8 --steps 2 --trace fasttree:chains,2 --batch 48
64/8 --steps 2 --trace conversation:200,1 --batch 64
14/2 --steps 2 --trace requests:200,1 --batch 64
64/8 --steps 2 --trace fasttree:documents,2 --batch 40
END
fi
