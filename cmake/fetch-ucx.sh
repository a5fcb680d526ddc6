#!/bin/sh
# fetch-ucx.sh FOLDER REQUIREMENTS: the UCX that REQUIREMENTS names, by fetch-packages.sh, which says when it fails.
# Prints the folder of its libraries.
set -eu
"$(dirname "$0")/fetch-packages.sh" "$1" "$2"
library=$(echo "$1"/lib/python3*/site-packages/libucx/lib/libucp.so.0)
test -f "$library"
dirname "$library"
