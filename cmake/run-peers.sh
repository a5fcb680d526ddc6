#!/usr/bin/env bash
# run-peers.sh [FLAGS...]: what `make bench-peers` does when the build is configured. Builds the program and its workers,
# installs Open MPI and MPICH from PyPI, compiles the workers of these and of Debian's into build/peers/NAME/bin, and runs
# build/bin/peers with the flags. A peer that cannot be had is named, and left out.
cd "$(dirname "$0")/.." && set -euo pipefail

cmake --build build --target bench/collectives/all -- -j "${JOBS:-$(nproc)}"

sources='bench/collectives/mpi_worker.c bench/collectives/worker.c bench/jobs/commands.c'
headers='bench/collectives/worker.h bench/jobs/commands.h'

absent() {
  echo "make bench-peers: $1 is left out: $2" >&2
}

# compile_worker NAME COMPILER, where it is older than its sources.
compile_worker() {
  local worker=build/peers/$1/bin/mpi_worker file is_new=1
  for file in $sources $headers; do
    if [ "$file" -nt "$worker" ]; then is_new=; fi
  done
  if [ "$is_new" ]; then return; fi
  mkdir -p "build/peers/$1/bin"
  rm -f "$worker"
  if ! "$2" -O3 -std=c11 -Wall -Werror -I bench/jobs -o "$worker" $sources 2>"build/peers/$1.log"; then
    absent "$1" "$(grep -m 1 error "build/peers/$1.log" || tail -n 1 "build/peers/$1.log")"
  fi
}

mkdir -p build/peers
for mpi in openmpi mpich; do
  venv=build/peers/$mpi
  if cmake/fetch-packages.sh "$venv" "tests/requirements-peers-$mpi.txt" 2>"$venv.log"; then
    compile_worker "$mpi" "$venv/bin/mpicc"
  else
    absent "$mpi" "$(grep -m 1 ERROR "$venv.log" || tail -n 1 "$venv.log")"
  fi
  compile_worker "debian-$mpi" "mpicc.$mpi"
done

commit=$(git describe --always --dirty --exclude '*' 2>/dev/null || true)
exec build/bin/peers --commit "$commit" "$@"
