#!/bin/bash
# cuda_static.sh REPORT...: what ptxas said of every kernel. A spill or a stack frame (an array in local memory)
# fails; so does a report without kernels.
set -euo pipefail
awk '
    /Compiling entry function/ { name = $0; sub(/.*function ./, "", name); sub(/. for .*/, "", name); arch = $NF; n[arch]++ }
    /Function properties for/ { functions++ } # those that kernels call, too
    /bytes stack frame/ {
        if ($1 + $5 + $9 > 0) { print "cuda-static: " name " " arch ": " $0; bad++ }
        seen++
    }
    /Used [0-9]+ registers/ { for (i = 1; i < NF; i++) if ($i == "Used" && $(i + 1) > most) most = $(i + 1) }
    END {
        gsub(/[^a-z0-9_]/, "", arch)
        for (a in n) { total += n[a]; list = list " " a " " n[a] }
        printf "cuda-static: %d kernels (%s ), at most %d registers, %d with spills or stack frames\n", total, list, most, bad
        exit bad > 0 || total == 0 || seen != functions || functions < total
    }' "$@"
