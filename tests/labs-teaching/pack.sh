#!/bin/bash
# pack.sh BUILT NAME OUT - the labs for students: OUT/NAME.tar.gz, with a folder NAME in it. BUILT has the judge's programs.
#
# What students get: programs without names in them, tests/labs, a Makefile, and no source, solution or wrong solution. Two runs
# on the same files make the same bytes: $SOURCE_DATE_EPOCH, or 0, is the date of all. Run from the top of the source tree.
set -eu
built=$1 name=$2 out=$3
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
top=$stage/$name
mkdir -p "$top/build" "$out"
cp "$built/treeattn" "$built/treeattn-lab-host" "$top/build"
strip --strip-all "$top"/build/*
given=tests/labs
# git names what is the project's; where git is missing or this is no checkout, all files there are given
files=$(git ls-files $given 2>/dev/null) || files=
[ -n "$files" ] || files=$(find $given -type f)
# shellcheck disable=SC2086 # one word a file
cp --parents $files "$top"
cp LICENSE "$top"
cp tests/labs-teaching/dist/START.md "$top/README.md"
# `make lab` is that of the project
{
    cat tests/labs-teaching/dist/Makefile
    sed -n '/^N ?=/,/^lab:/p' Makefile | sed '/^lab:/s/:.*/:/'
    sed -n '/^lab:/ { n; s/$(Q)$(PROGRAM)/@build\/treeattn/p; }' Makefile
} >"$top/Makefile"
# an example that a student does not have
sed -i 's,tests/labs-wrong/[^ ]*\.c,my/lab.c,' "$top/tests/labs/README.md"
find "$top" -type f -exec chmod 644 {} + -o -type d -exec chmod 755 {} +
chmod 755 "$top"/build/*
tar -C "$stage" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf - "$name" |
    gzip -n9 >"$out/$name.tar.gz.tmp"
mv "$out/$name.tar.gz.tmp" "$out/$name.tar.gz"
