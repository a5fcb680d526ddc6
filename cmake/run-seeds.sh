#!/usr/bin/env bash
# What `make seeds` does when the packages are there: run all that needs emulated GPUs, but for the long
# tests, with three seeds of the emulation's order, plain, under AddressSanitizer with UBSan and under
# ThreadSanitizer. All nine run even when one fails; the closing lines of each are repeated at the end.
# PRESETS and SEEDS say which of them to run.
cd "$(dirname "$0")/.." && source cmake/test-runs.sh || exit

for preset in ${PRESETS:-release asan tsan}; do
  build "$preset" ON emulated_tests || continue
  for seed in ${SEEDS:-0 1 2}; do
    TUTTI_EMULATION_SEED=$seed tests "$preset" "seed-$seed" -L '^(emulated|kernels|thorough)$' -LE '^(long|parallel|install|plan|communicator)$'
  done
done
summary "make seeds"
