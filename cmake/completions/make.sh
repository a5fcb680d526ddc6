#!/bin/sh
# Writes completions for bash, zsh and fish from what the commands say of themselves, as manual pages are made:
#   make.sh TUTTI OUT PROGRAM...
# TUTTI is the command, whose commands `tutti --help` lists; each PROGRAM lies beside it. Below OUT files lie as they
# are installed below a prefix's share/.
set -eu
tutti=$1 out=$2
shift 2
here=$(dirname "$0")

rm -rf "$out/bash-completion" "$out/zsh" "$out/fish" "$out/table"
mkdir -p "$out/bash-completion/completions" "$out/zsh/site-functions" "$out/fish/vendor_completions.d"

# A row for each command, flag and argument: the line that it belongs to, kind, names, value, choices, text.
listed=$("$tutti" --help)
commands=$(printf '%s\n' "$listed" | awk '/^  [a-z]/ { print $1 }')
for command in $commands; do
  summary=$(printf '%s\n' "$listed" | awk -v command="$command" '$1 == command && /^  / {
    sub(/^ *[^ ]+ +/, ""); print; exit }')
  printf 'tutti\tcommand\t%s\t\t\t%s\n' "$command" "$summary"
  help=$("$tutti" "$command" --help)
  printf '%s\n' "$help" | awk -v line="tutti $command" -f "$here/table.awk"
done >"$out/table"
for program; do
  help=$("$(dirname "$tutti")/$program" --help)
  printf '%s\n' "$help" | awk -v line="$program" -f "$here/table.awk"
done >>"$out/table"

awk -F '\t' -v programs="$*" -f "$here/bash.awk" "$out/table" >"$out/bash-completion/completions/tutti"
awk -F '\t' -v programs="$*" -f "$here/zsh.awk" "$out/table" >"$out/zsh/site-functions/_tutti"
for program in tutti "$@"; do
  [ "$program" = tutti ] || ln -s tutti "$out/bash-completion/completions/$program"
  awk -F '\t' -v program="$program" -f "$here/fish.awk" "$out/table" \
    >"$out/fish/vendor_completions.d/$program.fish"
done
