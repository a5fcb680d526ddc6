#!/usr/bin/env bash
# What `make test` does when the packages are there: build and run the release tests, then a subset
# of them under AddressSanitizer with UBSan and under ThreadSanitizer, without the CUDA parts: kernels run
# under sanitizers among the release tests, most of them by `make thorough`. All three run even when one fails; the closing lines of
# each are repeated at the end. TUTTI_CUDA and TUTTI_CUDA_ARCHITECTURES are passed on to the release build; without the
# latter kernels are compiled for sm_90a alone, as those for sm_80, which `make build` has too, take as long again.
#
# Release tests leave a fifth of the processors idle, as they wait for each other, for deadlines and for networks.
# Meanwhile, at the least priority, the sanitizers' builds are made ahead; what these say is said by the builds below.
cd "$(dirname "$0")/.." && source cmake/test-runs.sh || exit

export TUTTI_CUDA_ARCHITECTURES=${TUTTI_CUDA_ARCHITECTURES:-sm90}
sanitizers=(asan tsan)
if build release "${TUTTI_CUDA:-AUTO}" all tests/all; then
  (
    renice -n 19 $BASHPID
    for preset in "${sanitizers[@]}"; do build $preset OFF sanitizer_subset; done
  ) >/dev/null 2>&1 &
  tests release test -LE '^(long|thorough|torch)$'
  wait
fi
for preset in "${sanitizers[@]}"; do
  build $preset OFF sanitizer_subset && tests $preset test -L sanitizer-subset
done
summary "make test"
