# Builds and their tests, for scripts that go on after a failure and end with a summary. To be sourced
# with the repository's root as the current directory. JOBS says how many things are done at once.
set -uo pipefail

jobs=${JOBS:-$(nproc)}
status=0
logs=()

folder_of() {
  [ "$1" = release ] && echo build || echo "build-$1"
}

# build PRESET CUDA TARGETS...
build() {
  local preset=$1 cuda=$2 folder
  shift 2
  folder=$(folder_of "$preset")
  echo "== $preset: build"
  cmake --preset "$preset" -D TUTTI_CUDA="$cuda" \
    ${TUTTI_CUDA_ARCHITECTURES:+-D TUTTI_CUDA_ARCHITECTURES="$TUTTI_CUDA_ARCHITECTURES"} >"$folder.configure.log" 2>&1 || {
    cat "$folder.configure.log"
    echo "== $preset: the configuration failed"
    rm -f "$folder.configure.log"
    status=1
    return 1
  }
  grep -E '^-- CUDA' "$folder.configure.log"
  mv "$folder.configure.log" "$folder/configure.log"
  cmake --build "$folder" --target "$@" -- --quiet -j "$jobs" || {
    echo "== $preset: the build failed"
    status=1
    return 1
  }
}

# tests PRESET NAME CTEST-ARGUMENTS...: their log is NAME.log in the build's folder, and what ctest says
# of each test NAME.details.
tests() {
  local preset=$1 name=$2 folder
  shift 2
  folder=$(folder_of "$preset")
  echo "== $preset: $name"
  logs+=("$folder/$name.log")
  ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error "$@" 2>&1 |
    tee "$folder/$name.log" || status=1
  cp "$folder/Testing/Temporary/LastTest.log" "$folder/$name.details"
}

# failures DETAILS: of each test that failed how long it took, and the first lines of its first three
# assertions that did, of GoogleTest or CMake, with the names of the cases; of one that has none the last
# line it said.
failures() {
  awk '
    { line = "  " substr($0, 1, 300) "\n" }
    /^[0-9]+\/[0-9]+ Test: / { test = $3; what = last = ""; seconds = "?"; found = lines = 0 }
    /: Failure$|^CMake Error/ && ++found <= 3 { lines = 10 }
    lines-- > 0 || /^\[  FAILED  \].*ms\)$/ { what = what line }
    /^<end of output>/ { said = last }
    /^Test time = / { seconds = $4 }
    !/^$|^-----/ { last = line }
    /^Test (Failed\.|Fail Reason:)$/ { printf "Failed: %s after %s s\n%s", test, seconds, what ? what : said }
  ' "$1"
}

# summary WHAT: how each of the runs ended, and exits.
summary() {
  local log
  echo
  for log in "${logs[@]}"; do
    echo "== ${log%.log}"
    sed -n '/tests passed/,$p' "$log"
    failures "${log%.log}.details"
    # The line after "FILE:LINE: Skipped" is why; scripts say it behind SKIPPED, as a message of CMake's or not.
    sed -nE '/: Skipped$/{n;s/^/Skipped: /p;}; s/^(-- )?SKIPPED: /Skipped: /p' "${log%.log}.details" | sort | uniq -c
  done
  [ $status = 0 ] && echo "$1: all passed" || echo "$1: FAILED"
  exit $status
}
