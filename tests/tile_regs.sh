#!/bin/bash
# tile_regs.sh 13.0.88 REPORT...: does sim/time/tile_regs.def say what ptxas of that nvcc reported of the group kernel (group_*.ptxas)?
# The table as it should be, on stdout, where it differs. Run from the top of the source tree.
set -euo pipefail
table=$(mktemp)
trap 'rm -f "$table"' EXIT
version=$1
shift
if ! grep -q "($version)" sim/time/tile_regs.def; then
    echo "tile-regs: sim/time/tile_regs.def is not of nvcc $version: not compared"
    exit
fi
awk -v source="\"nvcc ${version%.*}, group kernel\"" '
    FILENAME ~ /shapes\.def$/ && /^SHAPE/ {
        gsub(/[^0-9,]/, "")
        split($0, x, ",")
        mangled = "team_shapeILi" x[3] "ELi" x[4] "ELi" x[5] "ELi" x[6] "ELi" x[7] "E"
        shape[x[1] "," x[2]] = mangled
        threads[mangled] = 32 * x[3] * x[4]
    }
    /Compiling entry function/ {
        name = ""
        if ($0 ~ /group_kernel/ && match($0, /Li[0-9]+ENS_10team_shapeI(Li[0-9]+E)+/)) {
            name = substr($0, RSTART, RLENGTH)
            d = substr(name, 3, index(name, "E") - 3)
            sub(/.*team_shape/, "team_shape", name)
        }
    }
    /Used [0-9]+ registers/ && name != "" {
        for (i = 1; i < NF; i++)
            if ($i == "Used" && $(i + 1) > most[name, d])
                most[name, d] = $(i + 1)
    }
    END { # n = 128 runs in steps of 64 where there is no such shape
        for (d = 64; d <= 128; d *= 2)
            for (m = 16; m <= 128; m *= 2)
                for (n = 16; n <= 128; n *= 2) {
                    of = ((m "," n) in shape) ? shape[m "," n] : shape[m "," n / 2]
                    printf "TILE_REGS(%d, %d, %d, 2, %d, %d, %s)\n", m, n, d, threads[of], most[of, d], source
                }
    }' kernels/cuda/device/shapes.def "$@" >"$table"
if grep '^TILE_REGS' sim/time/tile_regs.def | cmp -s - "$table"; then
    echo "tile-regs: sim/time/tile_regs.def is what nvcc $version reported of $(wc -l <"$table") tiles"
else
    cat "$table"
    echo "tile-regs: sim/time/tile_regs.def is not what nvcc $version reported (above)"
    exit 1
fi
