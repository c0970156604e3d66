#!/bin/sh
# L6.sh - lab 6 for a name: writes found.csv to its output. It uses what a student has: the list of faults, kernels with each of
# them, and the suspects.
#
#   tests/labs-solved/L6.sh build/treeattn alice > found.csv
#
# A third word names a file in which the answers of kernels with each fault are kept for the next name.
#
# A suspect has the fault whose kernel gives its numbers on all cases of $telling. Of the cases of $small, fewest tokens first, the
# first on which the suspect fails is a smallest.
set -u
program=$1 id=$2
room=$(mktemp -d) || exit 3
answers=${3:-$room/answers}
trap 'rm -rf "$room"' EXIT

telling="tree=nodes:-1.3,0.2,0.4,1.1,1.5:3.1,4.5,2.4,0.2;heads=6/3;d=5;page=3;seed=3
tree=nodes:-1.3,0.2,0.4,1.1,1.5:3.1,4.5,2.4,0.2;heads=6/3;d=8;page=1;scale=1
tree=nodes:-1.3,0.2,0.4,1.1,1.5:3.1,4.5,2.4,0.2;heads=1/1;d=8;fill=huge
tree=nodes:-1.1,0.1:1.1;heads=1/1;d=4;fill=sunk
tree=nodes:-1.1,0.1:1.1;heads=1/1;d=4;fill=sunk;scale=0.012
tree=nodes:-1.7,0.3,1.2:2.2,0.4;heads=8/4;d=6;seed=4"

trees="nodes:-1.1:0.1
nodes:-1.1:0.0,0.1
nodes:-1.0,0.1:1.1
nodes:-1.0,0.1,0.0:1.1,2.0
nodes:-1.1,0.1:1.1
nodes:-1.2:0.2
nodes:-1.1,0.1:0.1,1.1
nodes:-1.1,0.0,1.1:2.1
nodes:-1.3:0.3
nodes:-1.4:0.4
nodes:-1.5:0.5"

with="heads=6/3;d=5;page=3
heads=6/3;d=5;page=3;seed=2
heads=6/3;d=5;page=3;seed=3
heads=6/3;d=1;page=2
heads=1/1;d=4;fill=sunk
heads=1/1;d=8;fill=huge
heads=1/1;d=4;fill=count"

# What a kernel answers to all cases of $telling.
answers_of()
{
    for case in $telling; do
        "$program" lab 6 --id "$id" --suspect "$1" --case "$case" | tail -n +2
    done | cksum
}

if [ ! -s "$answers" ]; then
    "$program" lab 6 | awk '$2 ~ /^[0-9]+$/ { print $1 }' > "$room/names"
    while read -r name; do
        echo "$(answers_of "$name") $name"
    done < "$room/names" > "$answers"
fi

echo "suspect,fault,case"
for suspect in 1 2 3 4 5 6; do
    name=$(grep -F "$(answers_of $suspect) " "$answers" | awk '{ print $3 }')
    found=-
    for tree in $trees; do
        for how in $with; do
            "$program" lab 6 --id "$id" --suspect $suspect --case "tree=$tree;$how" > /dev/null
            if [ $? -eq 1 ]; then
                found="tree=$tree;$how"
                break 2
            fi
        done
    done
    echo "$suspect,$name,$found"
done
