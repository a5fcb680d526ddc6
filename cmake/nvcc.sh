#!/bin/sh
# nvcc.sh OBJECT COMMAND...: compiles into OBJECT, with what it depends on in OBJECT.d. What the command
# says and how long it took is kept in OBJECT.log, and shown when it fails. The command runs in a folder
# of its own, where its output always has the same name: so a compiler cache that does not look at the
# folder knows it again when another build folder asks for it.
object=$1
shift
folder=$object.folder
mkdir -p "$folder"
begin=$(date +%s)
export CCACHE_NOHASHDIR=1
(cd "$folder" && "$@" -MD -MF object.d -o object.o) >"$object.log" 2>&1 || {
  cat "$object.log"
  rm -rf "$object.log" "$folder"
  exit 1
}
sed "s|^object\.o|$object|" "$folder/object.d" >"$object.d"
mv "$folder/object.o" "$object"
rm -rf "$folder"
echo "seconds $(($(date +%s) - begin))" >>"$object.log"
