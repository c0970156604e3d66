#!/bin/bash
# stand_in.sh PROGRAM SWEEP: what drives a GPU, on one of host memory (tests/stand_in/stand_in.h). Every strategy on tests/cases.pairs,
# the cases dealt out to four cards; the reduced set on each of them, and on the path of Ampere; failures, call by call; planted
# faults, which must be seen; and a kernel that breaks the device, which is one failure, not as many as cases follow. With $TREEATTN_QUICK only every fourth case of a card. Run from the top of the source tree.
set -euo pipefail
program=$1 sweep=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

verify() { # CARD OPTION...
    local said
    said=$(STAND_IN_CARD=$1 "$program" verify -q "${@:2}") || { echo "$said"; echo "stand-in for $1: failed"; return 1; }
    echo "stand-in for $1, ${*:2:2}${said##*verify:}"
}

turn=0
started=
for card in h200 a100 ada mig; do # side by side: runs of one program take turns
    grep -v '^#' tests/cases.pairs | awk -v turn=$turn -v n="${TREEATTN_QUICK:+16}" '(NR - 1) % (n ? n : 4) == turn' >"$folder/$card"
    grep -v '^#' tests/cases.sanitize >>"$folder/$card"
    verify $card --kernel cuda --cases "$folder/$card" &
    started="$started $!"
    turn=$((turn + 1))
done
for pid in $started; do
    wait "$pid"
done
verify h200 --arch 80 --kernel cuda --cases tests/cases.sanitize
verify h200 --kernel cuda-wide --cases "$folder/h200"
verify h200 --kernel cuda --features softcap,sinks,window --cases tests/cases.sanitize
if [ -z "${TREEATTN_QUICK:-}" ]; then
    verify ada --kernel cuda --head-dim 256 --cases tests/cases.sanitize
    verify h200 --kernel cuda-smem --cases tests/cases.sanitize
    verify h200 --kernel cuda-scalar --cases tests/cases.sanitize
fi
verify h200 --kernel cuda --case 'tree=levels:1,4_0,0;heads=4/2;d=64;page=16;dtype=f16' # nothing to read
"$sweep"

small='tree=levels:1,2,4,8_9,0,31,1;heads=16/1;d=128;page=16'
for fault in item mask merge wait beside sink cap scale; do
    # the Ampere path alone has streams that wait, the other one kernels that run beside each other
    arch=auto
    [ $fault != wait ] || arch=80
    features=
    [ $fault != sink ] || features=';sinks=1'
    [ $fault != cap ] || features=';softcap=5'
    [ $fault != scale ] || features=';kv=e4m3;headscales=1'
    of=$small
    [ $fault != scale ] || of=${small/16\/1/16\/2} # a scale of another head
    status=0
    STAND_IN_FAULT=$fault "$program" verify -q --kernel cuda --arch $arch --no-shrink --case "$of$features" >/dev/null || status=$?
    if [ $status != 1 ]; then
        echo "stand-in with the fault '$fault': verify ended with $status (expected 1: it fails)"
        exit 1
    fi
done
echo 'stand-in: all eight planted faults seen'

for n in 40 400 50 60; do
    echo "tree=levels:1,4_$n,9;heads=4/1;d=64;page=16;dtype=f16;strategy=flash-attention"
done >"$folder/lost"
status=0
said=$(STAND_IN_FAULT=lost "$program" verify -q --kernel cuda --cases "$folder/lost" 2>&1) || status=$?
if [ $status != 1 ] || ! grep -q ' 1 failed' <<<"$said" || ! grep -q '^smallest: .* --case ' <<<"$said"; then
    echo "$said"
    echo "stand-in that a kernel breaks: verify ended with $status (expected 1: one case fails, and a smaller one in a process of its own)"
    exit 1
fi
echo 'stand-in: a kernel that breaks the device is one failure'
