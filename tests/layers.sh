#!/bin/bash
# layers.sh [ROOT] - fail when an #include "..." points against the flow of data (tests/layers.txt).
set -u
root=${1:-.}
bad=0 seen=0
while IFS=: read -r folder allowed; do
    case $folder in ''|\#*) continue ;; esac
    while IFS=: read -r file line include; do
        seen=$((seen + 1))
        header=$(sed -E 's/.*"(.*)".*/\1/' <<<"$include")
        ok=
        for prefix in $allowed; do
            case $header in "$prefix"*) ok=1 ;; esac
        done
        if [ -z "$ok" ]; then
            echo "$file:$line: $folder/ may not include \"$header\" (allowed: $allowed)"
            bad=1
        fi
    done < <(cd "$root" && grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' "$folder" --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.inc')
done < "$root/tests/layers.txt"
if [ "$seen" -lt 20 ]; then
    echo "layers.sh: only $seen includes seen under $root (expected at least 20): wrong folder?"
    exit 1
fi
[ $bad = 0 ] && echo "layers: $seen includes, all along the flow of data"
exit $bad
