#!/usr/bin/env bash
# What `make torch` does when the build is configured: install PyTorch in build/torch-venv, build the libraries and run
# the tests of label torch. Where PyTorch cannot be had, prints why, and succeeds. Without a CUDA toolkit a test that
# stands for those on emulated GPUs says so. TORCH_TESTS is a regular expression of the names of a part of them.
cd "$(dirname "$0")/.." && set -euo pipefail

requirements=tests/requirements-torch.txt
venv=build/torch-venv
needed=8  # GiB: the package while it is loaded, and what it becomes

skip() {
  echo "SKIPPED: make torch: $1"
  exit 0
}

if ! cmp -s "$requirements" "$venv/installed.txt"; then
  free=$(($(df -Pk build | awk 'END { print $4 }') / 1024 / 1024))
  [ "$free" -ge "$needed" ] || skip "PyTorch needs $needed GiB in build/, where $free GiB are free"
  echo "== make torch: PyTorch for $venv: 3 GB from PyPI, $needed GiB of disk, some minutes"
  rm -rf "$venv"
  python3 -m venv "$venv" || skip "python3 makes no virtual environment"
  if ! "$venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --retries 1 --timeout 20 \
    --only-binary :all: -r "$requirements" 2>build/torch-venv.log; then
    skip "PyTorch could not be had: $(grep -m 1 ERROR build/torch-venv.log || tail -n 1 build/torch-venv.log)"
  fi
  cp "$requirements" "$venv/installed.txt"
fi

cmake --build build --target torch_tests -- --quiet -j "${JOBS:-$(nproc)}"
# One after the other: each has two or four ranks.
status=0
ctest --test-dir build -L '^torch$' -R "${TORCH_TESTS:-.}" --output-on-failure --no-tests=error || status=$?
echo "== make torch: what has run"
grep -E '^[0-9]+ (cases|tests of PyTorch) with ' build/Testing/Temporary/LastTest.log || true
exit $status
