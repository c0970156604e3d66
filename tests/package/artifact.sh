#!/bin/bash
# artifact.sh PROGRAM FIGURES OUT - the project as an artifact: does it work, and do its figures come out again? Three stages, each with the
# time that it takes on two cores; the third where there is a GPU ($STAGES names others, "1 2 3"). At the end a table: of each figure, cells that are
# the same as committed, within 5 %, or differ. Exits with 1 if something fails, or figures that need no GPU differ.
set -u -o pipefail
program=$1 figures=$2 out=$3
mkdir -p "$out"
began=$SECONDS
failed=0
step() { # WHAT COMMAND..
    local what=$1 log=$out/log
    shift
    if "$@" >"$log" 2>&1; then
        printf '  %-58s ok, %s\n' "$what" "$(tail -1 "$log" | cut -c1-100)"
    else
        printf '  %-58s FAILED\n' "$what"
        tail -5 "$log"
        failed=1
    fi
}
compared() { # FOLDER WHICH: figures whose CSV says so in its second line
    local file name
    for file in paper-figs/drawn/*.csv; do
        name=$(basename "$file" .csv)
        sed -n 2p "$file" | grep -qE "$2" || continue
        awk -v name="$name" -f tests/package/compare.awk "$file" "$1/drawn/$name.csv" 2>/dev/null || echo "$name 0 0 1"
    done
}
table() { # TITLE LINES..
    echo
    echo "$1"
    awk '{ printf "  %-32s %8d %8d %8d\n", $1, $2, $3, $4; for (i = 2; i <= 4; i++) sum[i] += $i }
        BEGIN { printf "  %-32s %8s %8s %8s\n", "figure", "same", "in 5 %", "differ" }
        END { printf "  %-32s %8d %8d %8d\n", "all " NR, sum[2], sum[3], sum[4]; exit sum[4] > 0 }' "$2"
}
"$program" env --json -o "$out/env.json"
stages=${STAGES:-1 2 3}
for stage in $stages; do
    case $stage in
    1)
        echo "stage 1: does it work? two minutes"
        step "every strategy on one tree and on 40" "$program" compare --trace embedded:reasoning --prompt 4000 --max-seq 6000 --step 900 --trees 40
        step "cases that failed once" "$program" verify -q --cases tests/cases.regress
        ;;
    2)
        echo "stage 2: what needs no GPU, twenty minutes"
        step "planted faults are caught" "$program" selftest
        step "random trees against exact attention" "$program" verify -q --trees 60 --seed 1 --kernel cpu
        step "every figure, from computed and committed data" "$figures" --program "$program" --scratch "$out/scratch" --out "$out/figures" --no-drawing
        compared "$out/figures" . >"$out/stage2"
        ;;
    3)
        if ! "$program" bench-gpu --levels "1,2 64,8" --strategy pat -q >/dev/null 2>&1; then
            echo "stage 3: left out, there is no GPU"
            continue
        fi
        echo "stage 3: measured on this card, forty minutes"
        step "every strategy on this card against exact attention" "$program" verify -q --kernel cuda --seed 1
        step "the figures that are measured" env TREEATTN="$program" FIGURES="$figures" paper-figs/measured/measure.sh "$out/gpu"
        compared "$out/gpu" 'measured' >"$out/stage3"
        ;;
    esac
done
if [ -s "$out/stage2" ]; then table "compared with what is committed:" "$out/stage2" || failed=1; fi
[ -s "$out/stage3" ] && table "measured here, compared with what is committed (another card, another day: no failure):" "$out/stage3"
echo
[ $failed = 0 ] && echo "artifact: all is well, $((SECONDS - began)) s; the machine is in $out/env.json" || echo "artifact: something is wrong, $((SECONDS - began)) s"
exit $failed
