#!/bin/sh
# compile.sh LOG COMMAND...: runs the command, keeps what it says and how long it took in LOG, and
# shows it when it fails.
log=$1
shift
begin=$(date +%s)
"$@" >"$log" 2>&1 || {
  cat "$log"
  rm -f "$log"
  exit 1
}
echo "seconds $(($(date +%s) - begin))" >>"$log"
