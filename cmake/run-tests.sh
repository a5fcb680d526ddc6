#!/usr/bin/env bash
# What `make test` does when the packages are there: build and run the release tests, then a subset
# of them under AddressSanitizer with UBSan and under ThreadSanitizer, without the CUDA parts: kernels are
# run under sanitizers among the release tests. All three run even when one fails; the closing lines of
# each are repeated at the end. TUTTI_CUDA and TUTTI_CUDA_ARCHITECTURES are passed on to the release build.
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
status=0
logs=()

# run PRESET CUDA TARGET CTEST-ARGUMENTS...
run() {
  local preset=$1 cuda=$2 target=$3
  shift 3
  local folder=build
  [ "$preset" = release ] || folder=build-$preset
  echo "== $preset: build"
  cmake --preset "$preset" -D TUTTI_CUDA="$cuda" \
    ${TUTTI_CUDA_ARCHITECTURES:+-D TUTTI_CUDA_ARCHITECTURES="$TUTTI_CUDA_ARCHITECTURES"} >"$folder.configure.log" 2>&1 || {
    cat "$folder.configure.log"
    echo "== $preset: the configuration failed"
    rm -f "$folder.configure.log"
    status=1
    return
  }
  grep -E '^-- CUDA' "$folder.configure.log"
  mv "$folder.configure.log" "$folder/configure.log"
  cmake --build "$folder" --target "$target" -- --quiet -j "$jobs" || {
    echo "== $preset: the build failed"
    status=1
    return
  }
  echo "== $preset: tests"
  logs+=("$folder/test.log")
  ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error "$@" 2>&1 |
    tee "$folder/test.log" || status=1
}

run release "${TUTTI_CUDA:-AUTO}" all -LE long
run asan OFF sanitizer_subset -L sanitizer-subset
run tsan OFF sanitizer_subset -L sanitizer-subset

echo
for log in "${logs[@]}"; do
  echo "== $(dirname "$log")"
  sed -n '/tests passed/,$p' "$log"
  # The line after "FILE:LINE: Skipped" is why.
  sed -n '/: Skipped$/{n;s/^/Skipped: /p;}' "$(dirname "$log")/Testing/Temporary/LastTest.log" | sort | uniq -c
done
[ $status = 0 ] && echo "make test: all passed" || echo "make test: FAILED"
exit $status
