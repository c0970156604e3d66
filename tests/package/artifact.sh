#!/bin/bash
# artifact.sh PROGRAM FIGURES OUT - the project as an artifact: does it work, and do its figures come out again? Three stages, the third on a
# GPU ($STAGES names others, "1 2 3"). At the end stand tables: of each figure, cells that are the same as committed, within 5 %, or differ.
# Exits with 1 if something fails or a figure that needs no GPU differs, with 3 if nothing could be run.
# $COMMITTED: the figures that are committed (paper-figs/drawn). Run from the top of the source tree.
set -u -o pipefail
program=$1 figures=$2 out=$3
committed=${COMMITTED:-paper-figs/drawn}
stages=${STAGES:-1 2 3}
failed=0 ran=0 computed='' measured=''
for stage in $stages; do
    case $stage in
    1 | 2 | 3) ;;
    *)
        echo "artifact: no stage '$stage' (expected some of \"1 2 3\")" >&2
        exit 2
        ;;
    esac
done
rm -rf "$out"
mkdir -p "$out"

wrong() { echo "  $1"; failed=1; }
# Lines of figures-gpu, which takes long, as they come.
shown() {
    local line first=1
    while IFS= read -r line; do
        case $line in
        figures-gpu:*)
            [ -z "$first" ] || echo
            first=
            echo "    ${line#figures-gpu: }"
            ;;
        esac
    done
}
# WHAT COMMAND..: a line that says what runs, then how long it took and the last thing it said, or the last five.
step() {
    local what=$1 began=$SECONDS log status
    shift
    ran=$((ran + 1))
    log=$out/step$ran.log
    printf '  %-56s ' "$what"
    "$@" 2>&1 | tee "$log" | shown
    status=$?
    ! grep -q '^figures-gpu: ' "$log" || printf '  %-56s ' "$what"
    if [ $status = 0 ]; then
        echo "ok, $((SECONDS - began)) s: $(tail -1 "$log" | cut -c1-100)"
    else
        echo "FAILED with $status, $((SECONDS - began)) s; $log ends so:"
        tail -5 "$log" | sed 's/^/    /'
        failed=1
    fi
}
figures_drawn() {
    "$figures" --program "$program" --scratch "$out/scratch" --out "$out/figures" --no-drawing &&
        echo "$(find "$out/figures/drawn" -name '*.csv' | wc -l) figures"
}
# What is measured on this card: figures whose numbers come from a file that is no link to a committed one.
measured_here() {
    local file id from said
    for file in "$committed"/*.csv; do
        id=$(basename "$file" .csv)
        sed -n 2p "$file" | grep -q '^# ours: measured' || continue
        if ! said=$("$figures" --no-data --program "$program" --root "$out/gpu" --scratch "$out/gpu/scratch" --why "$id" 1 2>&1); then
            echo "$id" # it has no numbers, which the table tells
            continue
        fi
        while IFS= read -r from; do
            if [ -f "$from" ] && [ ! -L "$from" ]; then echo "$id"; break; fi
        done < <(sed -n "s|^  \(.*/measured/[^/]*\.csv\)$|\1|p" <<<"$said")
    done
}

"$program" env --json -o "$out/env.json" || exit 1
echo "artifact: stages $stages; this machine is in $out/env.json"
for stage in $stages; do
    case $stage in
    1)
        echo "stage 1, does it work? Within two minutes on two cores"
        step "every strategy on one tree, and on 40 random ones" "$program" compare --trace embedded:reasoning --prompt 4000 --max-seq 6000 --step 900 --trees 40
        step "cases that failed once" "$program" verify -q --cases tests/cases.regress
        ;;
    2)
        echo "stage 2, what needs no GPU: within twenty minutes on two cores, one if they are idle"
        step "planted faults are caught" "$program" selftest
        step "random trees against exact attention" "$program" verify -q --trees 60 --seed 1 --kernel cpu
        step "every figure, from computed and committed data" figures_drawn
        computed=1
        ;;
    3)
        why=$("$program" bench-gpu --levels "1,2 64,8" --strategy pat -q 2>&1)
        case $? in
        0) ;;
        3)
            echo "stage 3, what is measured on a GPU, is left out: ${why##*treeattn: }"
            continue
            ;;
        *)
            echo "stage 3, what is measured on a GPU"
            wrong "nothing is measured: ${why##*treeattn: }"
            continue
            ;;
        esac
        echo "stage 3, what is measured on a GPU: within forty minutes"
        step "every strategy on this card against exact attention" "$program" verify -q --kernel cuda --seed 1
        step "figures that are measured" env TREEATTN="$program" FIGURES="$figures" paper-figs/measured/measure.sh "$out/gpu"
        measured=1
        ;;
    esac
done
if [ -n "$computed" ]; then
    echo "figures of stage 2, compared with what is committed:"
    tests/package/compare.sh "$committed" "$out/figures/drawn" || wrong "a figure differs"
fi
if [ -n "$measured" ]; then
    mapfile -t ids < <(measured_here)
    echo "figures measured here, compared with what is committed; another card or day differs, which is no failure:"
    if [ ${#ids[@]} = 0 ]; then
        wrong "no figure rests on what was measured here"
    else
        tests/package/compare.sh "$committed" "$out/gpu/drawn" "${ids[@]}" || true
    fi
fi
if [ $failed = 1 ]; then
    echo "artifact: something is wrong, $SECONDS s"
elif [ $ran = 0 ]; then
    echo "artifact: nothing was run"
    exit 3
else
    echo "artifact: all is well, $SECONDS s"
fi
exit $failed
