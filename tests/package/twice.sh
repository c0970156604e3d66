#!/bin/bash
# twice.sh FOLDER VERSION - the archive of two checkouts of one commit, in two folders, is the same bytes; where there is git.
set -eu
out=$1 version=$2
[ -e .git ] && git rev-parse HEAD >/dev/null 2>&1 || { echo "dist: not tried, this is no git checkout"; exit 0; }
rm -rf "$out"
mkdir -p "$out"
git clone -q --no-checkout . "$out/other/checkout" 2>/dev/null
git -C "$out/other/checkout" checkout -q "$(git rev-parse HEAD)"
tests/package/dist.sh "$version" "$out/here" >/dev/null 2>&1
top=$(pwd)
(umask 027 && cd "$out/other/checkout" && "$top/tests/package/dist.sh" "$version" ../dist >/dev/null)
cmp "$out/here/SHA256SUMS" "$out/other/dist/SHA256SUMS"
cmp "$out/here/treeattn-$version.tar.gz" "$out/other/dist/treeattn-$version.tar.gz"
(cd "$out/here" && sha256sum --quiet -c SHA256SUMS)
echo "dist: two checkouts make the same archive, $(cut -c1-16 <"$out/here/SHA256SUMS")"
rm -rf "$out"
