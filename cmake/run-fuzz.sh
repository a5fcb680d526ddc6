#!/usr/bin/env bash
# What `make fuzz` does when the packages are there: build the fuzzers with the preset `fuzz`, and run those
# that are named, or all, for FUZZ_SECONDS (60) each; with 0 it only builds. What a fuzzer learns stays in
# build/fuzz/corpus, what it finds in build/fuzz/found. All run even when one fails; a table ends the output.
cd "$(dirname "$0")/.." || exit
set -uo pipefail

seconds=${FUZZ_SECONDS:-60}
folder=build/fuzz
mkdir -p $folder/found
log=$folder/build.log
cmake --preset fuzz >$log 2>&1 && cmake --build $folder --target fuzzers -- -j "${JOBS:-$(nproc)}" >>$log 2>&1 || {
  cat $log
  echo "the fuzzers were not built"
  exit 1
}
[ "$seconds" = 0 ] && exit 0

# fuzz TARGET SECONDS: an input may take a second, an allocation 256 MiB, and all of it 2 GiB.
fuzz() {
  UBSAN_OPTIONS=print_stacktrace=1 $folder/fuzzers/fuzz_$1 \
    -max_total_time="$2" -timeout=1 -malloc_limit_mb=256 -rss_limit_mb=2048 -max_len=16384 \
    -print_final_stats=1 -artifact_prefix=$folder/found/$1- \
    $folder/corpus/$1 tests/fuzz/corpus/$1 >>$folder/$1.log 2>&1
}

# was_waiting TARGET: the input that took a second takes less of a processor: the machine was busy.
was_waiting() {
  local input
  input=$(ls -t $folder/found/$1-timeout-* | head -1)
  (ulimit -t 1 && exec $folder/fuzzers/fuzz_$1 "$input") >/dev/null 2>&1 && rm "$input"
}

# fuzz_for TARGET SECONDS: libFuzzer ends with 70 at an input that takes too long.
fuzz_for() {
  local end=$((SECONDS + $2)) left=$2 status
  while [ $left -gt 0 ]; do
    fuzz $1 $left
    status=$?
    [ $status != 70 ] || ! was_waiting $1 && return $status
    left=$((end - SECONDS))
  done
}

# figure TARGET NAME: the last number behind a name in what a fuzzer has printed.
figure() {
  grep -oE "$2:? *[0-9]+" $folder/$1.log | tail -1 | grep -oE '[0-9]+$'
}

executions() {
  awk '/stat::number_of_executed_units/ { sum += $2 } END { print sum + 0 }' $folder/$1.log
}

status=0
rows=
for target in ${@:-$(ls tests/fuzz/corpus)}; do
  mkdir -p $folder/corpus/$target
  : >$folder/$target.log
  echo "== $target, $seconds s"
  fuzz_for $target "$seconds"
  found=$?
  if [ $found != 0 ]; then
    status=1
    tail -50 $folder/$target.log
  fi
  rows+=$(printf '| %s | %s | %s | %s | %s | %s |' $target "$(executions $target)" \
    "$(figure $target cov)" "$(figure $target ft)" "$(figure $target stat::peak_rss_mb)" \
    "$([ $found = 0 ] && echo none || echo "status $found")")$'\n'
done
echo
echo '| target | executions | edges | features | peak, MB | found |'
echo '|---|---|---|---|---|---|'
printf '%s' "$rows"
exit $status
