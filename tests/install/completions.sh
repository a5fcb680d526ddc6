#!/bin/bash
# Completions of shells, as their files are made in a build folder:
#   completions.sh FOLDER BIN
# bash offers every command, and every flag that `--help` of each command and program names; bash, zsh and fish, where
# they are installed, complete commands, flags and words to choose from.
set -u
folder=$1 bin=$2
failed=0
fail() {
  echo "$*"
  failed=1
}

source "$folder/bash-completion/completions/tutti" || exit 1

# offered WORD...: what bash offers for the last word, one a line.
offered() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _tutti
  printf '%s\n' "${COMPREPLY[@]}" | sort -u
}

# expect WHAT GOT WANTED: words one a line, all the same.
expect() {
  [ "$2" = "$3" ] || fail "$1 should be offered:" $3 "-- and not:" $2
}

# helpFlags COMMAND...: the flags that its help names where an entry begins, and --version.
helpFlags() {
  "$bin/$1" "${@:2}" --help | sed -n 's/^ \{1,8\}\(-.*\)/\1/p' | sed 's/  .*//' |
    grep -oE '(^|[ ,])--?[A-Za-z][-A-Za-z_]*' | tr -d ' ,' | cat - <(echo --version) | sort -u
}

commands=$("$bin/tutti" --help | awk '/^  [a-z]/ { print $1 }')
expect "tutti" "$(offered tutti '')" "$(printf '%s\n' $commands --help --version | sort -u)"
total=0
for command in $commands; do
  flags=$(helpFlags tutti "$command")
  total=$((total + $(echo "$flags" | wc -l)))
  expect "tutti $command -" "$(offered tutti "$command" -)" "$flags"
done
for program in all_reduce_perf alltoallv_perf train_gpt generate tokenize; do
  [ -e "$folder/bash-completion/completions/$program" ] || fail "bash has no completion of $program"
  expect "$program -" "$(offered "$program" -)" "$(helpFlags "$program")"
done
[ "$total" -ge 60 ] || fail "only $total flags of commands were found"
algorithms=$(printf '%s\n' recursive ring)
expect "tutti perf --algo r" "$(offered tutti perf --algo r)" "$algorithms"
expect "tutti perf --algo=r" "$(offered tutti perf --algo = r)" "$algorithms"
expect "a file behind --json" "$(offered tutti perf --json x)" ""
expect "tutti perf all_r" "$(offered tutti perf all_r)" all_reduce
expect "/some/where/train_gpt --reshard n" "$(offered /some/where/train_gpt --reshard n)" never

if command -v fish >/dev/null; then
  completed() { fish --no-config -c "source '$folder/fish/vendor_completions.d/$1.fish'; complete -C '$2'" | cut -f1; }
  expect "by fish, tutti do" "$(completed tutti 'tutti do')" doctor
  expect "by fish, --algo r" "$(completed tutti 'tutti perf --algo r' | sort)" "$algorithms"
  expect "by fish, --resh" "$(completed train_gpt 'train_gpt --resh')" --reshard
else
  echo "fish is not installed"
fi

# zsh completes in a terminal only: one of its own. The line that was completed is then an argument of print.
if command -v zsh >/dev/null; then
  becomes() {
    FOLDER=$folder TYPED=$1 WANTED=$2 timeout 60 zsh -f -c '
      zmodload zsh/zpty
      zpty shell zsh -f -i
      zpty -w shell "PS1=; fpath=($FOLDER/zsh/site-functions \$fpath); autoload -Uz compinit; compinit -u -D; bindkey -e; echo REA\"\"DY"
      zpty -r -m shell seen "*READY*"
      zpty -w shell "$TYPED$(printf "\t\001")print -r -- "
      zpty -r -m shell seen "*$WANTED*"' || fail "zsh does not complete $1 to $2"
  }
  becomes 'tutti perf --algo one' 'one_shot'
  becomes 'tutti doc' 'doctor'
  becomes 'train_gpt --resh' '--reshard'
else
  echo "zsh is not installed"
fi
exit $failed
