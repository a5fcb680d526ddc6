#!/bin/sh
# install-packages.sh [demo|build|tests|peers|docs|fuzz]: installs the Debian packages that `make demo`, `make build`, the
# tests (without a word: these), `make bench-peers`, `make docs` or `make fuzz` need; the one list of them. Does nothing
# at all when they are there. As root or through sudo.
set -eu

libraries='
  g++ cmake ninja-build pkg-config
  libsodium-dev libssl-dev libxxhash-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libopenblas-dev libucx-dev
  libhwloc-dev libibverbs-dev libpcre2-dev
'
# With libraries of tests and benchmarks, which the configuration wants, and what makes manual pages and packages.
build="$libraries ccache libgtest-dev libbenchmark-dev groff-base dpkg-dev file"
# Launchers and Gloo; virtual machines for RDMA; Python; Debian packages; names for the suppressions of sanitizers.
tests="$build
  clang-format-14 jargon-text iproute2 gnuplot-nox
  openmpi-bin mpich slurm-wlm munge libpmix-dev libgloo-dev
  qemu-system-x86 cpio busybox-static kmod xz-utils ibverbs-providers
  python3-venv python3-dev python3-yaml
  lintian abigail-tools debootstrap libc6-dbg valgrind
"
case ${1:-tests} in
  demo) packages="$libraries jargon-text" ;;
  build) packages=$build ;;
  tests) packages=$tests ;;
  peers) packages="$build openmpi-bin libopenmpi-dev mpich libmpich-dev libgloo-dev python3-venv" ;;
  docs) packages='doxygen python3-venv' ;;
  fuzz) packages='clang-14 clang libclang-rt-14-dev' ;;
  *)
    echo "usage: install-packages.sh [demo|build|tests|peers|docs|fuzz]" >&2
    exit 2
    ;;
esac

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

command -v dpkg-query >/dev/null 2>&1 || {
  echo "This is not a Debian system. Please install what these Debian packages have:" >&2
  echo $packages >&2
  # Somebody who has done so goes on; the configuration names what is missing.
  exit 0
}

missing=
for package in $packages; do
  installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "Packages to install:$missing"
become=
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null 2>&1 || {
    echo "Installing them needs root, and there is no sudo. As root, run:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  }
  become='sudo'
fi
fail() {
  echo "The packages could not be installed:$missing" >&2
  echo "The lines of apt-get above say why. Nothing was built." >&2
  exit 1
}
export DEBIAN_FRONTEND=noninteractive
$become apt-get update || echo "(the lists of packages could not be renewed; trying with the old ones)" >&2
$become env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing || fail
for package in $missing; do
  installed "$package" || fail
done
