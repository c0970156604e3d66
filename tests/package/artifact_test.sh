#!/bin/bash
# artifact_test.sh - what `make artifact` says rests on what was run and compared: programs that stand in for treeattn and figures, and copies
# of committed figures of which a number is changed. Run from the top of the source tree.
set -eu -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "artifact_test.sh: $1"; [ ! -e "$work/said" ] || cat "$work/said"; exit 1; }

# ---- the table ----
mkdir "$work/committed"
cp paper-figs/drawn/deft_table7.csv paper-figs/drawn/gap.csv paper-figs/drawn/fasttree_fig9_ours.csv "$work/committed"
# EXIT WORDS EDIT: the row of gap says these words when sed's EDIT is done to one of its copies
table() {
    local status=0
    rm -rf "$work/new"
    cp -r "$work/committed" "$work/new"
    sed -i "$3" "$work/new/gap.csv"
    tests/package/compare.sh "$work/committed" "$work/new" >"$work/said" || status=$?
    [ $status = "$1" ] || fail "the table ends with $status (expected $1) after $3"
    [ "$(sed -n 's/^  gap  *//p' "$work/said" | tr -s ' ')" = "$2" ] || fail "the row of gap (expected $2) after $3"
}
cells=$(awk -F, '/^#/ { next } { gsub(/"[^"]*"/, "x"); for (i = 1; i <= NF; i++) n += $i != "" } END { print n }' "$work/committed/gap.csv")
grep -q '^point,bytes moved,pat,fasttree.s,,20.1762,' "$work/committed/gap.csv" || fail "gap.csv is not what this test knows"
table 0 "$cells 0 0 same" ''
table 0 "$cells 0 0 same" '1s/.*/# another note/'
table 0 "$((cells - 1)) 1 0 within 5 %" 's/,20.1762,/,20.9,/'
table 1 "$((cells - 1)) 0 1 differs" 's/,20.1762,/,21.9,/'
grep -q 'gap: row 1, column 6: committed "20.1762", here "21.9"' "$work/said" || fail "where gap differs"
table 1 "$((cells - 1)) 0 1 differs" 's/,20.1762,/,-20.1762,/'
table 1 "$((cells - 1)) 0 1 differs" 's/,20.1762,/,nan,/'
table 1 "$((cells - 1)) 0 1 differs" 's/,20.1762,/,,/'
table 1 "$((cells - 1)) 0 1 differs" 's/^kind,panel/kind,pane/'
table 1 "0 0 $(grep -vc '^#' "$work/committed/gap.csv") differs" d
status=0
sed -i '$d' "$work/new/deft_table7.csv" # a row less
cp "$work/committed/gap.csv" "$work/new/a_new_one.csv"
tests/package/compare.sh "$work/committed" "$work/new" >"$work/said" || status=$?
[ $status = 1 ] && grep -q '^  deft_table7 .* differs$' "$work/said" && grep -q '^  a_new_one .* differs$' "$work/said" || fail "a row less, a figure more"
! tests/package/compare.sh "$work/committed" "$work/new" no_such_figure >"$work/said" || fail "a figure that neither has"
mkdir "$work/none"
! tests/package/compare.sh "$work/none" "$work/none" >"$work/said" || fail "nothing was compared"

# ---- the stages ----
cat >"$work/program" <<'STUB'
#!/bin/sh
case "$1 ${GPU:-no}" in
'bench-gpu no') echo 'treeattn: no CUDA device' >&2; exit 3 ;;
'bench-gpu broken') echo 'treeattn: the driver is older than the runtime' >&2; exit 2 ;;
esac
for file; do :; done
case $1 in
env | bench-gpu | replay) case "$*" in *\ -o\ *) printf '# of a card\nheading\n1\n' >"$file" ;; esac ;;
"${BREAKS:-}") echo "verify: 5 cases, 4 passed, 0 marginal, 1 failed, 0 skipped"; exit 1 ;;
esac
echo "$1: done"
STUB
cat >"$work/figures" <<STUB
#!/bin/bash
while [ \$# -gt 0 ]; do
    case \$1 in --out) out=\$2 ;; --why) id=\$2 ;; --root) root=\$2 ;; esac
    shift
done
if [ -n "\${id:-}" ]; then
    find "\$root/measured" -type f -name '*.csv' | sed -n '1s/^/  /p' # what is measured anew
    exit
fi
mkdir -p "\$out/drawn"
cp $work/committed/*.csv "\$out/drawn"
sed -i "\${EDIT:-}" "\$out/drawn/deft_table7.csv"
echo 'drawn'
STUB
chmod +x "$work/program" "$work/figures"
# EXIT TEXT VARIABLE=..: what artifact.sh says and how it ends
artifact() {
    local status=0
    env COMMITTED="$work/committed" "${@:3}" tests/package/artifact.sh "$work/program" "$work/figures" "$work/out" >"$work/said" 2>&1 || status=$?
    [ $status = "$1" ] || fail "artifact.sh ends with $status (expected $1), ${*:3}"
    grep -qE -- "$2" "$work/said" || fail "artifact.sh does not say '$2', ${*:3}"
}
artifact 0 '^stage 3, .* is left out: no CUDA device$' A=1
grep -q '^  all 3 ' "$work/said" && grep -q '^artifact: all is well' "$work/said" || fail "three figures are the same"
artifact 1 '^  deft_table7 .* differs$' EDIT='s/1.39/2.39/'
artifact 1 '^  every strategy on one tree.* FAILED with 1' BREAKS=compare
artifact 1 '^  planted faults are caught .* FAILED with 1' BREAKS=selftest
artifact 3 '^artifact: nothing was run' STAGES=3
artifact 1 'nothing is measured: the driver is older' GPU=broken STAGES=3
artifact 2 "no stage '4'" STAGES=4
artifact 0 '^  fasttree_fig9_ours .* same$' GPU=yes STAGES=3
! grep -q '^  gap ' "$work/said" || fail "what is counted is not measured here"
artifact 1 '^  every strategy on this card.* FAILED' GPU=yes BREAKS=verify STAGES=3
echo "artifact: the table says what differs, and stages what fails or is left out"
