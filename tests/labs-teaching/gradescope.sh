#!/bin/bash
# gradescope.sh TARBALL N SECRET FOLDER - what Gradescope's autograder for lab N is made of, in FOLDER: setup.sh, run_autograder, the
# judge from the students' TARBALL, and the secret seed. Zip what is in FOLDER, not FOLDER itself: make labs-gradescope does.
set -eu
tarball=$1 lab=$2 secret=$3 folder=$4
[[ $secret =~ ^[0-9]+$ && $lab =~ ^[0-9]+$ ]] || { echo "gradescope.sh: lab '$lab', seed '$secret' (expected numbers: make labs-gradescope N=1 SECRET=90210)" >&2; exit 2; }
rm -rf "$folder"
mkdir -p "$folder/labs" "$folder/secret"
tar -xzf "$tarball" -C "$folder/labs" --strip-components=1
[ -d "$folder/labs/tests/labs/L$lab" ] || { echo "gradescope.sh: there is no lab $lab" >&2; exit 2; }
cp tests/labs-teaching/gradescope/setup.sh tests/labs-teaching/gradescope/run_autograder "$folder"
file=$(cd "$folder/labs/tests/labs/L$lab" && ls | grep -vxE 'README\.md|hints')
printf 'LAB=%s\nFILE=%s\nSECRET=%s\n' "$lab" "$file" "$secret" >"$folder/secret/settings"
chmod 755 "$folder/setup.sh" "$folder/run_autograder"
