#!/bin/bash
# packages.sh [--install] BUILD|TEST|DRAW|FUZZ|MPI|COMMAND.. - are the packages there that these steps need? Each is tried, not looked up.
# One line names what is missing and how to get it, and the exit code is 3. With --install the missing ones are installed by
# apt-get, as root or with sudo. The compiler is $CC.
set -u
install=
[ "${1:-}" = --install ] && install=1 && shift
CC=${CC:-gcc}
missing=

# try_header PACKAGE HEADER [LIBRARY FUNCTION]
try_header() {
    local program="#include <$2>"$'\n'"int main(void) { return 0; }" libs=()
    if [ -n "${3:-}" ]; then
        program="#include <$2>"$'\n'"int main(void) { return !(void *)$4; }"
        read -ra libs <<<"$(pkg-config --cflags --libs "$3" 2>/dev/null || echo "-l$3")"
    fi
    $CC -x c - -o /dev/null "${libs[@]}" <<<"$program" >/dev/null 2>&1 || missing+=" $1"
}
try_command() { command -v "$2" >/dev/null || missing+=" $1"; }

for step; do
    case $step in
    BUILD)
        if ! command -v ${CC##* } >/dev/null; then
            missing+=" $(case ${CC##* } in clang*) echo clang libomp-dev ;; *) echo gcc ;; esac)"
        fi
        try_command pkg-config pkg-config
        try_header libc6-dev stdio.h
        case ${CC##* } in clang*) try_header libomp-dev omp.h ;; esac
        try_header libopenblas-openmp-dev cblas.h openblas cblas_dgemm
        try_header libjansson-dev jansson.h jansson json_loads
        try_header libgsl-dev gsl/gsl_errno.h gsl gsl_set_error_handler_off
        ;;
    TEST)
        try_header check check.h
        try_header libmpfr-dev mpfr.h
        ;;
    MPI) # nothing else needs it: verify/sweep/README.md
        try_header libopenmpi-dev mpi.h ompi-c MPI_Init
        try_command openmpi-bin mpirun
        ;;
    DRAW) try_command gnuplot-nox gnuplot ;;
    FUZZ)
        try_command clang clang
        clang -fsanitize=fuzzer,address -x c - -o /dev/null >/dev/null 2>&1 <<<'int LLVMFuzzerTestOneInput(const char *p, long n) { return !p && n; }' ||
            missing+=' libclang-rt-dev'
        ;;
    *) try_command $step $step ;; # a package with a command of its name
    esac
done
missing=$(tr ' ' '\n' <<<"$missing" | awk 'NF && !seen[$0]++' | paste -sd ' ')
[ -n "$missing" ] || exit 0

command="apt-get install --no-install-recommends $missing"
if ! command -v apt-get >/dev/null; then
    echo "missing, by the names of Debian's packages: $missing; install what this system calls them, then make again" >&2
    exit 3
elif [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "missing: $missing; neither root nor sudo is here: an administrator installs them with: $command" >&2
    exit 3
elif [ -z "$install" ]; then
    echo "missing: $missing; get them with: make deps (as root or with sudo), or: $command" >&2
    exit 3
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing: $missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 \
    --no-install-recommends $missing; } >"$log" 2>&1; then
    echo "missing: $missing; apt-get could not install them ($(grep -m 1 '^E:' "$log" || tail -n 1 "$log")): is there a network? By hand: $command" >&2
    exit 3
fi
