#!/bin/sh
# fetch-packages.sh FOLDER REQUIREMENTS: installs from PyPI what REQUIREMENTS names, each with its hash and nothing else,
# in a virtual environment of Python of its own, FOLDER. Does nothing where that is there. Fails, and says why on
# standard error, where it cannot be had.
set -eu
folder=$1 requirements=$2
if ! cmp -s "$requirements" "$folder/installed.txt"; then
  rm -rf "$folder"
  python3 -m venv "$folder" >&2
  "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --retries 1 --timeout 10 -r "$requirements" >&2
  cp "$requirements" "$folder/installed.txt"
fi
