#!/bin/sh
# Writes the manual pages from what the commands say of themselves, so that the two cannot differ:
#   make.sh TUTTI SOURCES OUT VERSION PROGRAM...
# TUTTI is the command, and its commands are those that `tutti --help` lists; each PROGRAM lies beside it. Those
# that end with _perf have nccl-tests' names, and share a page. docs/man/PAGE.man, where there is one, is roff: what stands
# before its first .SH ends the description, and its sections come after the options. The page of
# section 7 is docs/reference/environment.md.
set -eu
tutti=$1 sources=$2 out=$3 version=$4
shift 4
here=$sources/cmake/man

mkdir -p "$out/man1" "$out/man7"
rm -f "$out"/man1/* "$out"/man7/*
listed=$("$tutti" --help)
commands=$(printf '%s\n' "$listed" | awk '/^  [a-z]/ { print $1 }')

perfs= others=
for program; do
  case $program in
    *_perf) perfs="$perfs $program" ;;
    *) others="$others $program" ;;
  esac
done
set -- $perfs
see=
for command in $commands; do see="$see tutti-$command(1)"; done
for program in $others; do see="$see $program(1)"; done
see="tutti(1)$see $1(1) tutti-environment(7)"

# page NAME HEADING NAMES SUMMARY HELP: the page of one program or command.
page() {
  prose=$sources/docs/man/$1.man
  [ -f "$prose" ] || prose=/dev/null
  pages=$(echo "$see" | sed "s/\\(^\\| \\)$1([17])//")
  printf '%s\n' "$5" |
    awk -v heading="$2" -v names="$3" -v summary="$4" -v version="$version" -v prose="$prose" \
      -v see="$pages" -f "$here/roff.awk" -f "$here/page.awk" >"$out/man1/$1.1"
}

for command in $commands; do
  summary=$(printf '%s\n' "$listed" | awk -v command="$command" '$1 == command && /^  / {
    sub(/^ *[^ ]+ +/, ""); print; exit }')
  help=$("$tutti" "$command" --help)
  page "tutti-$command" "tutti $command" "tutti-$command" "$summary" "$help"
done
page tutti tutti tutti 'collective communication: launch, measure, explain' "$listed"

help=$("$(dirname "$tutti")/$1" --help)
page "$1" "$1" "$*" \
  'measure and check a collective, with the flags and the table of nccl-tests' "$help"
first=$1
shift
for program in $others; do
  help=$("$(dirname "$tutti")/$program" --help)
  page "$program" "$program" "$program" "$(printf '%s\n' "$help" | sed 's/\..*//;1q')" "$help"
done
for program; do echo ".so man1/$first.1" >"$out/man1/$program.1"; done

awk -v version="$version" -v see="${see% *}" -f "$here/roff.awk" \
  -f "$here/environment.awk" "$sources/docs/reference/environment.md" >"$out/man7/tutti-environment.7"
