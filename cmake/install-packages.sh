#!/bin/sh
# install-packages.sh [docs|fuzz]: installs the Debian packages that building, testing and the demo need,
# or those of `make docs` or `make fuzz`; the one list of them. The last lines of the first are launchers, for the
# tests of label launchers, and what the guests of label rdma and a newer UCX for tests are made with. Does nothing at all
# when they are there. As root or through sudo.
set -eu

packages='
  g++ cmake ninja-build ccache pkg-config
  libgtest-dev libbenchmark-dev
  libsodium-dev libssl-dev libxxhash-dev nlohmann-json3-dev libcli11-dev libtomlplusplus-dev libopenblas-dev libucx-dev
  libhwloc-dev libibverbs-dev libpcre2-dev
  clang-format-14 jargon-text iproute2 groff-base gnuplot-nox
  openmpi-bin mpich slurm-wlm munge libpmix-dev libgloo-dev
  qemu-system-x86 cpio busybox-static kmod xz-utils ibverbs-providers python3-venv python3-dev
  lintian dpkg-dev file abigail-tools debootstrap
'
[ "${1:-}" != docs ] || packages='doxygen python3-venv'
[ "${1:-}" != fuzz ] || packages='clang-14 clang libclang-rt-14-dev'

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
