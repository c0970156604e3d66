#!/bin/bash
# labs_dist.sh TARBALL - what students get: can it be used as its texts say, and is no answer in it? In an empty folder, with
# nothing of this project on the way. Run from the top of the source tree.
set -u
tarball=$1
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
fail() {
    echo "labs_dist.sh: $*" >&2
    bad=1
}

tar -C "$work" -xzf "$tarball" || exit 1
name=$(basename "$tarball" .tar.gz)
top=$work/$name
[ "$(ls "$work")" = "$name" ] || fail "more than the folder $name: $(ls "$work")"
tar -tvzf "$tarball" | awk '$2 != "0/0"' | grep . && fail 'files of somebody'

# ---- nothing that is not meant to be there
(cd "$top" && find . -type f) | grep -vE '^\./(README\.md|LICENSE|Makefile|build/treeattn(-lab-host)?|tests/labs/(README\.md|AGENTS\.md|include/lab\.h|L[0-9]/[^/]*|L[0-9]/hints/[0-9]\.md))$' &&
    fail 'files that students should not have'
for file in tests/labs-solved/* $(find tests/labs-wrong -type f); do
    case $(basename "$file") in README.md | lab.c) continue ;; esac
    find "$top" -name "$(basename "$file")" | grep . && fail 'a solution'
done
# lines of solutions that are no part of the task; a student may see them nowhere, in programs neither
sed -E 's/^[[:space:]]+//' $(find tests/labs-solved tests/labs-wrong -type f) | awk 'length >= 25' | sort -u >"$work/answers"
awk 'NR == FNR { task = task $0 "\n"; next } !index(task, $0)' <(cat $(find tests/labs -type f)) "$work/answers" >"$work/secret"
[ "$(wc -l <"$work/secret")" -gt 300 ] || fail 'hardly a line of solutions found: wrong folder?'
grep -raFl -f "$work/secret" "$top" | grep . && fail "solutions are in there: $(grep -rahoF -f "$work/secret" "$top" | head -3)"
# no names of functions, and nothing needed but libc
for program in treeattn treeattn-lab-host; do
    nm "$top/build/$program" 2>/dev/null | grep . && fail "$program has names in it"
    nm -D --defined-only "$top/build/$program" | grep -i 'lab' && fail "$program gives names away"
    ldd "$top/build/$program" | grep -vE 'linux-vdso|ld-linux|lib(c|m|dl|pthread)\.so' && fail "$program needs more than libc"
done

# ---- what the texts say is true there
run() { (cd "$top" && env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$work" LANG=C timeout 300 bash -c "$1" 2>&1); }
bash tests/prose.sh $(find "$top" -name '*.md') >"$work/prose" || fail "$(grep -v ' words a sentence, *[0-9]* at most$' "$work/prose")"
run 'make -s deps all' | grep -q 'runs here' || fail 'make deps all'
n=0
while read -r command; do
    said=$(run "$command")
    code=$?
    [ $code -le 1 ] || [[ $code = 2 && $command = make* && $said =~ points, ]] || fail "$command: exit code $code: ${said:0:200}"
    n=$((n + 1))
done < <(sed -nE '/^    \$? ?(build\/treeattn|make lab)/ { s/^    (\$ )?//; p }' "$top"/README.md "$top"/tests/labs/README.md "$top"/tests/labs/L?/README.md |
    grep -v 'my/lab.c')
[ $n -ge 8 ] || fail "only $n commands in the texts"
for folder in "$top"/tests/labs/L?; do
    lab=${folder##*/L}
    said=$(run "make -s lab N=$lab")
    code=$?
    grep -q "^lab $lab: [0-9.]* of [0-9]* points" <<<"$said" && [ $code = 0 ] || fail "make lab N=$lab: exit code $code: ${said:0:200}"
    [ -e "$root/tests/labs-solved/L$lab.c" ] || continue
    cp "$root/tests/labs-solved/L$lab.c" "$top/mine.c"
    said=$(run "make -s lab N=$lab LAB=mine.c")
    grep -qE "^lab $lab: ([0-9.]+) of \1 points" <<<"$said" || fail "the solution of lab $lab: $(grep -A 3 '  0 of' <<<"$said" | head -5)"
done

# ---- and what a teacher makes of it for Gradescope: a solution has all points there, no file has none
grader=$work/autograder
mkdir -p "$grader/submission" "$grader/results"
tests/labs-teaching/gradescope.sh "$tarball" 1 90210 "$grader/source" || fail 'gradescope.sh'
cp "$root/tests/labs-solved/L1.c" "$grader/submission/lab.c"
for want in 15 0; do
    AUTOGRADER=$grader "$grader/source/run_autograder" >/dev/null 2>&1 || fail "run_autograder, $want points: exit code $?"
    grep -q "^{\"score\": $want, " "$grader/results/results.json" || fail "run_autograder: not $want points: $(head -c 200 "$grader/results/results.json")"
    grep -q 90210 "$grader/results/results.json" && fail 'results.json has the secret'
    rm -f "$grader"/submission/* "$grader"/results/*
done
if [ "$(id -u)" = 0 ]; then # as there: who hands in code is another user, and may not read the seed
    chmod 755 "$work" "$grader" "$grader/source" "$grader/source/labs"
    cat >"$grader/submission/lab.c" <<END
#include "lab.h"
#include <stdio.h>
void lab_attend(const float *q, const float *k, const float *v, int n, int d, float scale, float *o, float *lse)
{
    char text[99] = "nothing";
    FILE *f = fopen("$grader/source/secret/settings", "r");
    if (f)
        fread(text, 1, sizeof text - 1, f);
    fprintf(stderr, "read: %s", text);
    abort();
}
void lab_merge(float *o, float *lse, const float *o2, float lse2, int d) {}
END
    AUTOGRADER=$grader "$grader/source/run_autograder" >/dev/null 2>&1
    grep -q 'read: nothing' "$grader/results/results.json" || fail "a submission reads the secret: $(head -c 600 "$grader/results/results.json")"
fi
tests/labs-teaching/gradescope.sh "$tarball" 1 '$(x)' "$work/none" 2>/dev/null && fail 'any seed is one'

[ $bad = 0 ] && echo "labs-dist: $(stat -c %s "$tarball") bytes, $n commands of the texts run, $(wc -l <"$work/secret") lines of solutions are not in it"
exit $bad
