#!/bin/sh
# nvcc.sh OBJECT COMMAND...: compiles into OBJECT, with what it depends on in OBJECT.d. What the command
# says, and the seconds of a core that it took, are kept in OBJECT.log, which is shown when it fails. The
# command runs in a folder of its own, where its output always has the same name: so a compiler cache that
# does not look at the folder knows it again when another build folder asks for it.
object=$1
shift
folder=$object.folder
mkdir -p "$folder"
export CCACHE_NOHASHDIR=1
(cd "$folder" && "$@" -MD -MF object.d -o object.o) >"$object.log" 2>&1 || {
  cat "$object.log"
  rm -rf "$object.log" "$folder"
  exit 1
}
sed "s|^object\.o|$object|" "$folder/object.d" >"$object.d"
mv "$folder/object.o" "$object"
times >"$folder/times"
# User and system time of what the shell has waited for: 1m2.345s 0m1.234s.
sed -n 2p "$folder/times" | tr ms '  ' | awk '{ printf "seconds %.0f\n", 60 * ($1 + $3) + $2 + $4 }' >>"$object.log"
rm -rf "$folder"
