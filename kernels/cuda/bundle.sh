#!/bin/bash
# bundle.sh BUILD FOLDER: the program with the libraries it needs besides the C library, to be carried to a
# machine with a GPU and none of our packages. Linked with CARRY=1 it finds them in lib/ beside itself. engine-gpu, too:
# a program that drives a GPU by the libraries for engines.
set -euo pipefail
program=$1/treeattn engine=$1/tests/engine/gpu folder=$2
rm -rf "$folder"
mkdir -p "$folder/lib"
cp "$program" "$folder/treeattn"
cp "$engine" "$folder/engine-gpu"
cp -L "$1"/libtreeattn.so.1 "$1"/libtreeattn-cuda.so.1 "$folder/lib"
# what the program loads when it needs it
openblas=$(ldconfig -p | awk '$1 == "libopenblas.so.0" { print $NF; exit }')
cp -L "$openblas" "$folder/lib/libopenblas.so.0"
ldd "$program" "$openblas" "$1/libtreeattn-cuda.so.1" | awk '/=> \// { print $1, $3 }' | while read -r name path; do
    case $name in
    libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | ld-linux*) ;;
    *) cp -L "$path" "$folder/lib/$name" ;;
    esac
done
du -sh "$folder"
