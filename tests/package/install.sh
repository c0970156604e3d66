#!/bin/bash
# install.sh ROOT PREFIX - what `make install DESTDIR=ROOT PREFIX=PREFIX` put there is enough for those who have nothing else: the plug-in that
# the man page shows is built and judged as the page says, an engine is built by the package file, and the shell completes options.
set -eu -o pipefail
root=$1 prefix=$2 here=$(pwd)
at=$root$prefix
fail() { echo "install.sh: $1"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A page as it is read: no commands, no escapes.
plain() { sed -e '/^\.\(RS\|RE\|nf\|fi\|PP\|TP\)/d' -e 's/\\&//; s/\\-/-/g; s/\\e/\\/g; s/\\f[BIR]//g' "$1"; }
for page in man1/treeattn.1 man3/treeattn.3 man3/treeattn_plugin.3 man7/treeattn-child.7; do
    [ -s "$at/share/man/$page" ] || fail "no $page"
    if command -v groff >/dev/null; then
        said=$(groff -man -ww -Tutf8 "$at/share/man/$page" 2>&1 >/dev/null)
        [ -z "$said" ] || fail "$page: $said"
    fi
done
page=$at/share/man/man1/treeattn.1
for command in $("$at/bin/treeattn" --help=words); do
    grep -q "^\.SS \"treeattn $command " "$page" || fail "treeattn.1 does not have $command"
done
plain "$page" | sed -n '/^#include "treeattn_plugin.h"/,/^Build it/p' | sed '$d' >"$work/mine.c"
plain "$page" | grep -E '^(cc -O2 -shared|treeattn verify --plugin)' >"$work/commands"
sed -i 's/^treeattn.*/& --shard 1\/20/' "$work/commands" # of all that the page asks for, which takes a minute
[ "$(wc -l <"$work/commands")" = 2 ] || fail "the page does not say how to build and judge a plug-in"
(cd "$work" && PATH=$at/bin:$PATH C_INCLUDE_PATH=$at/include sh -e ./commands >out 2>&1) ||
    fail "the plug-in of the page: $(tail -3 "$work/out")"
grep -qE '^verify: .* 0 failed' "$work/out" || fail "no verdict on the plug-in of the page"
sed -i 's/keep \* sum + add/sum + add/' "$work/mine.c" # a sum that is not rescaled
! (cd "$work" && PATH=$at/bin:$PATH C_INCLUDE_PATH=$at/include sh -e ./commands >out 2>&1) || fail "a wrong plug-in is not caught"
grep -q 'FAIL' "$work/out" || fail "a wrong plug-in has no verdict"

complete_to() { # WORDS..: what stands before the cursor, last word incomplete
    PATH=$at/bin:$PATH bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _treeattn; echo "${COMPREPLY[*]}"' - \
        "$at/share/bash-completion/completions/treeattn" "$@"
}
[ "$(complete_to treeattn veri)" = verify ] || fail "completion of a command: $(complete_to treeattn veri)"
[ "$(complete_to treeattn plan --form)" = --format ] || fail "completion of an option: $(complete_to treeattn plan --form)"
[ "$(complete_to treeattn plan --format ex)" = explain ] || fail "completion of a word: $(complete_to treeattn plan --format ex)"
[ "$(complete_to treeattn plan --strategy deft-f)" = deft-flatten ] || fail "completion of a strategy: $(complete_to treeattn plan --strategy deft-f)"

export PKG_CONFIG_LIBDIR=$at/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
${CC:-cc} -O2 -Wall -Werror "$here/tests/engine/replay.c" $(pkg-config --cflags --libs treeattn) -o "$work/replay"
printf 'step 1 16\n0 40 5 6 7\n1 37 5 6 9\n\n' | LD_LIBRARY_PATH=$at/lib "$work/replay" cascade 1 2>/dev/null | grep -q 'n0\[0,32)' || fail "an engine gets no plan"
echo "install: pages, completion, a plug-in and an engine by what is installed alone"
