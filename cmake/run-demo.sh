#!/usr/bin/env bash
# run-demo.sh RANKS [TEXT]: what `make demo` does: install the packages that it needs, build train_gpt for the CPU, in
# a folder of its own and compiled quickly, and train on TEXT, or on The Jargon File. Says at the end how long it took.
cd "$(dirname "$0")/.." && set -euo pipefail
ranks=$1 text=${2:-}
folder=build/demo

refuse() {
  echo "make demo: $1" >&2
  exit 2
}
case $ranks in
'' | *[!0-9]* | 0*) refuse "RANKS is '$ranks'; give a number from 1, as RANKS=4" ;;
esac
[ -z "$text" ] || { [ -f "$text" ] && [ -r "$text" ]; } || refuse "TEXT is '$text', which is no file that can be read"

# mark NAME: what has run since the last mark was NAME.
marks= last=$SECONDS
mark() {
  marks+="${marks:+, }$1 $((SECONDS - last)) s"
  last=$SECONDS
}

cmake/install-packages.sh demo
mark packages
# An older configuration than the presets is none.
[ $folder/build.ninja -nt CMakePresets.json ] || { rm -f $folder/build.ninja && cmake --preset demo; }
cmake --build $folder --target train_gpt -- -j "${JOBS:-$(nproc)}"
mark building
if [ -z "$text" ]; then
  text=build/jargon.txt
  cmake/unpack-jargon.sh $text
fi
$folder/bin/train_gpt --ranks "$ranks" --text "$text"
mark training
echo
echo "make demo took $SECONDS s: $marks. Next: make build, for all programs and the library at full speed."
