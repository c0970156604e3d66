#!/bin/bash
# mutants.sh [N [PATTERN]] - break the code on purpose (mutants.def), one mutant at a time, in a copy, and see the checks turn red.
# N: only every N-th mutant; PATTERN: only those whose name has it. Run from the top of the source tree.
set -u
export TREEATTN_STOP=1 # a mutant is dead when one suite fails
every=${1:-1}
limit=900 # seconds: what the checks take several times over; a mutant that hangs them is dead, too
copy=build/mutants
rm -rf "$copy" && mkdir -p "$copy"
cp -r Makefile ref traces sim kernels verify tests paper-figs "$copy"
shared=${TREEATTN_SHARED:-../shared}
[ -d "$shared" ] && TREEATTN_SHARED=$(cd "$shared" && pwd) && export TREEATTN_SHARED
make -C "$copy" -s -j"$(nproc)" NVCC= all build/tests/run || exit 1
killed=0 survived=0 number=0
only=${2:-}
while IFS="|" read -r name file edit; do
    case $name in ''|\#*) continue ;; esac
    [[ $name == *"$only"* ]] || continue
    number=$((number + 1))
    [ $((number % every)) = 0 ] || continue
    name=${name%% } file=$(xargs <<<"$file") edit=${edit# }
    cp "$copy/$file" "$copy/saved"
    sed -i "$edit" "$copy/$file"
    if cmp -s "$copy/saved" "$copy/$file"; then
        echo "SURVIVED  $name: the edit no longer matches $file"
        survived=$((survived + 1))
        continue
    fi
    if ! make -C "$copy" -s -j"$(nproc)" NVCC= all build/tests/run >/dev/null 2>&1; then
        echo "SURVIVED  $name: does not compile, so it tests nothing"
        survived=$((survived + 1))
    elif timeout "$limit" make -C "$copy" -s NVCC= check-built >"$copy/log" 2>&1; then
        echo "SURVIVED  $name"
        survived=$((survived + 1))
    else
        echo "killed    $name"
        killed=$((killed + 1))
    fi
    cp "$copy/saved" "$copy/$file"
done < tests/mutants.def
echo "mutants: $((killed + survived)) planted, $killed killed"
[ "$survived" = 0 ]
