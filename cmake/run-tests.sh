#!/usr/bin/env bash
# What `make test` does when the packages are there: build and run the release tests, then a subset
# of them under AddressSanitizer with UBSan and under ThreadSanitizer, without the CUDA parts: kernels run
# under sanitizers among the release tests, most of them by `make thorough`. All three run even when one fails; the closing lines of
# each are repeated at the end. TUTTI_CUDA and TUTTI_CUDA_ARCHITECTURES are passed on to the release build.
cd "$(dirname "$0")/.." && source cmake/test-runs.sh || exit

build release "${TUTTI_CUDA:-AUTO}" all && tests release test -LE '^(long|thorough)$'
for preset in asan tsan; do
  build $preset OFF sanitizer_subset && tests $preset test -L sanitizer-subset
done
summary "make test"
