#!/bin/bash
# layers.sh [ROOT] - fail when an #include "..." points against the flow of data (tests/layers.txt), or a folder of sources holds
# more than one can look through.
set -u
cd "${1:-.}" || exit 1
folders=$(sed -nE 's/^([^#:]+):.*/\1/p' tests/layers.txt | cut -d/ -f1 | sort -u)
# shellcheck disable=SC2086 # one word a folder
full=$(find $folders -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' \) -printf '%h\n' | sort | uniq -c |
    awk '$1 > 35 { print $2 ": " $1 " sources (expected at most 35)" }')
[ -z "$full" ] || { echo "$full"; exit 1; }
# shellcheck disable=SC2086
grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' $folders --include='*.[ch]' --include='*.cu' --include='*.cuh' \
    --include='*.inc' | awk -F: '
    NR == FNR { if ($0 !~ /^#/ && NF > 1) { allowed[$1] = $2; if (system("test -d " $1)) { print "no folder " $1; bad = 1 } } next }
    {
        for (folder = $1; !(folder in allowed) && sub("/[^/]*$", "", folder);) # up to the first that has a rule
            ;
        split($0, part, "\"")
        n = split(allowed[folder], prefix, " ")
        for (i = 1; i <= n && index(part[2], prefix[i]) != 1;)
            i++
        if (i > n) {
            print $1 ":" $2 ": " folder "/ may not include \"" part[2] "\" (allowed:" allowed[folder] ")"
            bad = 1
        }
        seen++
    }
    END {
        if (seen < 20) {
            print "layers.sh: only " seen + 0 " includes seen (expected at least 20): wrong folder?"
            exit 1
        }
        if (!bad)
            print "layers: " seen " includes, all along the flow of data"
        exit bad
    }' tests/layers.txt -
