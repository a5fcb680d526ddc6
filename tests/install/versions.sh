#!/bin/bash
# Every program says its name and the version, and nothing else: versions.sh BIN VERSION PROGRAM...
set -u
bin=$1 version=$2
shift 2
failed=0

# expect NAME COMMAND...
expect() {
  said=$("${@:2}" --version 2>&1)
  [ $? = 0 ] && [ "$said" = "$1 $version" ] && return
  echo "${*:2} --version should say \"$1 $version\", and says: $said"
  failed=1
}

expect tutti "$bin/tutti"
commands=$("$bin/tutti" --help | awk '/^  [a-z]/ { print $1 }')
[ "$(echo "$commands" | wc -l)" -ge 10 ] || failed=1
for command in $commands; do expect "tutti $command" "$bin/tutti" "$command"; done
for program; do expect "$program (Tutti)" "$bin/$program"; done
exit $failed
