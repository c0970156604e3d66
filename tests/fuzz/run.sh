#!/bin/bash
# run.sh FOLDER SECONDS TARGET... - run fuzz targets built in FOLDER, one after the other, and sum up each in a line.
# New inputs go to FOLDER/corpus, findings to FOLDER; the seeds in tests/fuzz/corpus are only read.
set -u
folder=$1 seconds=$2
shift 2
bad=0
for name in "$@"; do
    corpus=$folder/corpus/$name log=$folder/$name.log dict=tests/fuzz/$name.dict
    mkdir -p "$corpus"
    # Inputs are small: what breaks parsers is their shape. Memory and time per input are bounded.
    "$folder/fuzz_$name" -max_total_time="$seconds" -max_len=4096 -timeout=30 -rss_limit_mb=2048 \
        -print_final_stats=1 -verbosity=1 ${FUZZ_ARGS:-} $([ -f "$dict" ] && echo "-dict=$dict") \
        -artifact_prefix="$folder/$name-" "$corpus" "tests/fuzz/corpus/$name" >"$log" 2>&1
    status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    last=$(grep -E '^#[0-9]+.*cov: ' "$log" | tail -n 1)
    printf 'fuzz %-9s %3ss %10s runs, %s, %s\n' "$name" "$seconds" "${runs:-no}" \
        "$(sed -E 's/.*cov: ([0-9]+) ft: ([0-9]+) corp: ([0-9]+).*/\1 edges, \2 features, \3 inputs kept/' <<<"$last")" \
        "$([ $status = 0 ] && echo 'no finding' || echo "FINDING: see $log")"
    [ $status = 0 ] || bad=1
done
exit $bad
