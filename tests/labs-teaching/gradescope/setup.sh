#!/bin/bash
# setup.sh - Gradescope runs this as root, once, when it builds the machine (Ubuntu or Debian). The judge needs a C compiler, no more.
set -eu
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends gcc libc6-dev
source=${AUTOGRADER:-/autograder}/source
chmod 755 "$source"/labs/build/*
chmod 700 "$source/secret" # who hands in code may not read the seed
