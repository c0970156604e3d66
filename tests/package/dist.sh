#!/bin/bash
# dist.sh VERSION FOLDER - the sources of the last commit as FOLDER/treeattn-VERSION.tar.gz, and FOLDER/SHA256SUMS. Any checkout of the same
# commit makes the same bytes: files are sorted and dated by the commit. Run from the top of the source tree.
set -eu -o pipefail
name=treeattn-$1 out=$2
if ! [ -e .git ]; then
    echo "dist.sh: a distribution is made of a commit (expected a git checkout)" >&2
    exit 2
fi
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$out"
git archive --prefix="$name/" HEAD | tar -C "$stage" -xf -
git describe --always >"$stage/$name/tests/package/commit"
cp "$stage/$name/tests/package/CITATION.cff" "$stage/$name/tests/package/Dockerfile" "$stage/$name"
find "$stage" -type d -exec chmod 755 {} + -o -type f -perm -100 -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
tar -C "$stage" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -cf - "$name" |
    gzip -n9 >"$stage/$name.tar.gz"
mv "$stage/$name.tar.gz" "$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >SHA256SUMS)
[ -z "$(git status --porcelain)" ] || echo "dist.sh: files differ from the commit; what is packed is the commit" >&2
echo "$out/$name.tar.gz"
