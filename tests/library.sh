#!/bin/bash
# library.sh LIBRARY LIBC: the library takes the place of no function of libc, holds no command and wants no GSL, which is
# under the GPL.
set -u -o pipefail
library=$1 libc=$2
bad=0
ours=$(nm --defined-only -g "$library" 2>/dev/null | awk 'NF == 3 && $2 ~ /[TWD]/ { print $3 }' | sort -u)
theirs=$(nm -D --defined-only "$libc" | awk '{ sub("@.*", "", $NF); print $NF }' | sort -u)
if [ "$(wc -l <<<"$ours")" -lt 100 ] || ! grep -qx _exit <<<"$theirs"; then
    echo "library.sh: $library or $libc has hardly a symbol: wrong file?"
    exit 1
fi
for symbol in $(comm -12 <(echo "$ours") <(echo "$theirs")); do
    echo "$library: takes the place of libc's $symbol"
    bad=1
done
if grep -E '^(main|cmd_.*)$' <<<"$ours"; then
    echo "$library: these belong into the program"
    bad=1
fi
if nm -A -u "$library" | grep ' gsl_'; then
    echo "$library: GSL belongs into sim/fit/least_squares.c alone"
    bad=1
fi
exit $bad
