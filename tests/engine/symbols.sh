#!/bin/bash
# symbols.sh LIBRARY - fail when the library for engines exports more than ta_*, wants a function that prints, allocates or ends the
# process, wants another library than libc and libm, or has variables.
set -u -o pipefail
library=$1
bad=0
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub("@.*", "", $3); print $3 }')
wanted=$(nm -D --undefined-only "$library" | awk '$1 == "U" { sub("@.*", "", $2); print $2 }')
declared=$(grep -oE '\bta_[a-z_]+\(' sim/engine/treeattn.h | tr -d '(' | sort -u)
if [ "$(grep -c '^ta_' <<<"$exported")" -lt 8 ] || ! grep -qx malloc <<<"$wanted"; then
    echo "symbols.sh: $library has hardly a symbol: wrong file?"
    exit 1
fi
if grep -v '^ta_' <<<"$exported"; then
    echo "$library: exports these (expected ta_* alone)"
    bad=1
fi
if ! diff <(sort <<<"$exported") <(echo "$declared"); then
    echo "$library: what it exports (<) is not what treeattn.h declares (>)"
    bad=1
fi
# malloc and free: of ta_open and ta_close. snprintf writes to memory.
if grep -vxE 'malloc|free|_?setjmp|_?longjmp|(__)?v?snprintf(_chk)?|(__)?mem(cpy|set|move|cmp)(_chk)?|(__)?st[pr][a-z]+(_chk)?|__longjmp_chk|__isoc23_strto[dl]+|f(max|min)|pow|ldexp|floor|ceil|log2?|exp2?|sqrt|__stack_chk_fail' \
    <<<"$wanted" | grep -vx 'strdup'; then
    echo "$library: wants these (expected nothing that prints, allocates or exits)"
    bad=1
fi
if readelf -d "$library" | grep NEEDED | grep -vE '\[lib(c|m)\.so\.6\]'; then
    echo "$library: wants these libraries (expected libc and libm)"
    bad=1
fi
# completed.0 is the start-up code's, `current` the arena of the call that runs.
if objdump -t "$library" | awk 'NF > 4 && $(NF - 2) ~ /^\.(t?bss|t?data)$/ { print $NF }' | grep -vxE 'completed\.0|__dso_handle|__TMC_END__|current|\.t?(bss|data)'; then
    echo "$library: has these variables (expected none)"
    bad=1
fi
exit $bad
