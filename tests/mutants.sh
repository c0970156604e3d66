#!/bin/bash
# mutants.sh [--learn] [N [PATTERN]] - break the code on purpose (mutants.def), one mutant at a time, in copies, and see the
# checks turn red. N: only every N-th mutant; PATTERN: only those whose name has it. Run from the top of the source tree.
#
# A mutant must compile and fail a check. Those that mutants.suites expects to fail run first; all others only if it survives
# them. --learn writes what killed each mutant into mutants.suites. $TREEATTN_JOBS: copies at work, half as many as cores by
# default. One takes the time to compile a file, to link, and to run a suite: half a minute.
set -u
learn=
[ "${1:-}" = --learn ] && learn=1 && shift
every=${1:-1} only=${2:-}
limit=900 # seconds: what the checks take several times over; a mutant that hangs them is dead, too
jobs=${TREEATTN_JOBS:-$((($(nproc) + 1) / 2))}
top=build/mutants
mkdir -p "$top"
top=$(cd "$top" && pwd)
rm -rf "${top:?}"/*
shared=${TREEATTN_SHARED:-../shared}
[ -d "$shared" ] && TREEATTN_SHARED=$(cd "$shared" && pwd) && export TREEATTN_SHARED
export TREEATTN_STOP=1 # a mutant is dead when one suite fails
unset TREEATTN_JOBS MAKEFLAGS
cores=$(nproc) # of one copy: all, until there are more
ccache=$(command -v ccache) && export CCACHE_BASEDIR=$top CCACHE_NOHASHDIR=1 # what is restored need not be compiled again

# build, in the folder of a copy
build() {
    make -s -j$cores NVCC= ${ccache:+CC="ccache ${CC:-gcc}"} all build/paper-figs/figures build/tests/run build/tests/treeattn-faulty
}

# suites_alone SUITE..: these
suites_alone() {
    env TREEATTN_JOBS=$cores OMP_WAIT_POLICY=passive TREEATTN_BIN=build/treeattn FIGURES_BIN=build/paper-figs/figures \
        timeout $limit build/tests/run "$@"
}

# expected NAME FILE: the suites, and check-* of the Makefile, that shall kill it, from mutants.suites; a name wins over a file
expected() {
    awk -F ' *[|] *' -v name="$1" -v file="$2" '
        /^#/ || NF < 2 { next }
        $1 == name { named = $2 }
        file ~ "^" $1 && length($1) > length(longest) { longest = $1; suites = $2 }
        END { print named ? named : suites }' tests/mutants.suites
}

# killer LOG: the first suite that failed in it, else the check-* that did, else what was last said
killer() {
    sed -nE 's/^([a-z0-9_]+): .* FAILED$/\1/p; s/^make: .*\[.*: (check-[a-z]+)\].*/\1/p; s/^(figures|papers): .*/&/;' "$1" | head -1
}

# one NUMBER COPY: the verdict in $top/NUMBER.said, what killed it in $top/NUMBER.killer
one() {
    local name file edit suites checks began=$SECONDS by= said
    IFS="|" read -r name file edit < <(sed -n "$1p" "$top/list")
    name=${name%% } file=$(xargs <<<"$file") edit=${edit# }
    cd "$2" || exit 1
    cp "$file" saved
    sed -i "$edit" "$file"
    suites=$(expected "$name" "$file")
    checks=$(tr ' ' '\n' <<<"$suites" | grep ^check-) suites=$(tr ' ' '\n' <<<"$suites" | grep -v ^check-)
    if cmp -s saved "$file"; then
        said="SURVIVED  $name: the edit no longer matches $file"
    elif ! build >log 2>&1; then
        said="SURVIVED  $name: does not compile, so it tests nothing"
    elif { [ -n "$suites" ] && ! suites_alone $suites >log 2>&1; } ||
        { [ -n "$checks" ] && ! timeout $limit make -s NVCC= $checks >log 2>&1; } ||
        ! timeout $limit make -s NVCC= check-built >log 2>&1; then
        by=$(killer log)
        said="killed    $name (${by:-?}"
    else
        said="SURVIVED  $name ("
    fi
    case $said in *\(*) said="$said, $((SECONDS - began)) s)" ;; esac
    cp saved "$file"
    echo "${said/\(, /(}" | tee "$top/$1.said"
    [ -z "$by" ] || echo "$name | $by" >"$top/$1.killer"
}

# worker COPY: mutants until there is none left
worker() {
    local n
    while n=$(flock "$top/next" sh -c 'n=$(cat "$1"); echo $((n + 1)) >"$1"; echo $n' - "$top/next") && [ "$n" -le "$total" ]; do
        (one "$n" "$1")
    done
}

grep -v '^#' tests/mutants.def | grep . | awk -F ' *[|]' -v only="$only" -v every="$every" \
    'index($1, only) && ++n % every == 0' >"$top/list"
total=$(wc -l <"$top/list")
mkdir "$top/1"
cp -r Makefile README.md LICENSE ref traces sim kernels verify tests paper-figs "$top/1"
(cd "$top/1" && build >log 2>&1) || { cat "$top/1/log"; exit 1; }
wanted=$(while IFS="|" read -r name file edit; do
    expected "${name%% }" "$(xargs <<<"$file")"
done <"$top/list" | tr ' ' '\n' | grep -v ^check- | sort -u)
(cd "$top/1" && { [ -z "$wanted" ] || suites_alone $wanted; } && make -s NVCC= check-rest) >"$top/green" 2>&1 ||
    { grep -E 'FAILED$|\*\*\*' "$top/green"; echo "mutants: the checks fail before anything is broken: $top/green"; exit 1; }
echo 1 >"$top/next"
cores=$((($(nproc) + jobs - 1) / jobs))
for k in $(seq "$jobs"); do
    [ "$k" = 1 ] || cp -a "$top/1" "$top/$k"
    worker "$top/$k" &
done
wait
killed=$(cat "$top"/*.said 2>/dev/null | grep -c ^killed)
if [ -n "$learn" ]; then
    awk -F ' *[|] *' 'FNR == NR { new[$1] = 1; next } !($1 in new)' <(cat "$top"/*.killer) tests/mutants.suites >"$top/suites"
    cat "$top"/*.killer | sort >>"$top/suites"
    mv "$top/suites" tests/mutants.suites
fi
echo "mutants: $total planted, $killed killed, $SECONDS s"
[ "$killed" = "$total" ]
