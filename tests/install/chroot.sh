#!/bin/bash
# Debian packages in a bare Debian 12: installed as people do it, used, and removed without a trace.
#   chroot.sh PACKAGES FOLDER SOURCES
# PACKAGES has the .deb files. The system is made in FOLDER by debootstrap, from the mirror of this one; it needs root.
set -eu
packages=$1 folder=$2 sources=$3
fail() {
  echo "$*" >&2
  exit 1
}
skip() {
  echo "SKIPPED: Debian packages in a bare Debian: $*"
  exit 0
}
[ "$(id -u)" = 0 ] || skip "this needs root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
  sed -nE 's/^(deb (\[[^]]*\] )?|URIs: *)([a-z]+:[^ ]*debian)\/? ?.*/\3/p' | grep -v security | head -1)
system=$folder/system
leave() {
  for place in proc dev/shm; do
    if mountpoint -q "$system/$place"; then umount "$system/$place"; fi
  done
}
trap leave EXIT
leave
rm -rf "$folder"
mkdir -p "$system"
timeout 1500 debootstrap --variant=minbase bookworm "$system" "${mirror:-http://deb.debian.org/debian}" >"$folder/log" 2>&1 ||
  { grep -qiE 'release file|retrieve|connect|resolve' "$folder/log" && skip "$(tail -1 "$folder/log")"; fail "$(tail -20 "$folder/log")"; }
for file in /etc/resolv.conf $(grep -ls '^Acquire' /etc/apt/apt.conf.d/*); do cp "$file" "$system$file"; done
mount -t proc proc "$system/proc"
mkdir -p "$system/dev/shm" "$system/packages"
mount -t tmpfs tmpfs "$system/dev/shm"
cp "$packages"/*.deb "$packages"/*.ddeb "$system/packages"
cp -r "$sources/tests/install/outside" "$system/outside"

inside() {
  timeout 900 chroot "$system" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive bash -ec "$1" >"$folder/said" 2>&1 || fail "$1 failed:"$'\n'"$(tail -40 "$folder/said")"
}
expect() { grep -qE -- "$2" "$folder/said" || fail "$1 should say $2:"$'\n'"$(tail -40 "$folder/said")"; }

inside 'apt-get update'
# As the Containerfile does it: the tools alone.
inside 'apt-get install -y --no-install-recommends /packages/libtutti[0-9]*.deb /packages/tutti-tools_*.deb'
inside 'find /usr /etc -name "*libnccl*"'
[ ! -s "$folder/said" ] || fail "the tools bring $(cat "$folder/said")"
inside 'tutti --version && tutti perf all_reduce -n 2 -b 8 -e 1K -f 8 --iters 5'
expect 'tutti perf' '^ *512 '
inside 'tutti doctor -n 2 || [ $? = 1 ]'
inside 'all_reduce_perf -b 8 -e 64 -f 2 -n 1 -g 2'
expect all_reduce_perf '# Out of bounds values : 0 OK'
inside 'cd /tmp && train_gpt --ranks 2 --steps 20 --layers 1 --width 32 --context 32 --generate 20'
expect train_gpt 'loss'
inside 'source /usr/share/bash-completion/completions/tutti; COMP_WORDS=(tutti perf --tr); COMP_CWORD=2; _tutti; echo ${COMPREPLY[@]}'
expect completion '^--transport$'

# All of them, their symbols, and a compiler: three programs of somebody else.
inside 'apt-get install -y --no-install-recommends /packages/*.deb g++ cmake ninja-build pkg-config'
inside 'dpkg -i /packages/*.ddeb'
inside 'cmake -S /outside -B /built -G Ninja -D WAY=debian && cmake --build /built'
inside 'tutti run -n 3 -- /built/outside'
expect 'the C++ program' '^\[2\] sum 6 of 3 ranks, float32'
inside '/built/outside_training'
expect 'the training program' '^the loss fell$'
inside 'c++ -std=c++20 /outside/main.cc -o /built/by_pkg_config $(pkg-config --cflags --libs tutti) && tutti run -n 2 -- /built/by_pkg_config'
expect 'the program by pkg-config' '^\[1\] sum 3 of 2 ranks'
inside 'LD_LIBRARY_PATH=/usr/lib/tutti-nccl /built/outside_nccl'
expect 'the NCCL program' '^NCCL 23203: sum 6$'
inside 'tutti doctor --nccl /built/outside_nccl'

inside 'apt-get purge -y libtutti0.2 libtutti-parallel0.2 libnccl2-tutti tutti-tools libtutti-dev && ldconfig'
inside 'rm -rf /packages /outside /built; find / -xdev \( -iname "*tutti*" -o -name "libnccl*" -o -name train_gpt \) -not -path "/proc/*" -not -path "/var/log/*" -not -path "/var/cache/*"'
[ ! -s "$folder/said" ] || fail "these files stay behind: $(cat "$folder/said")"
inside 'grep -l tutti /etc/ld.so.cache /var/lib/dpkg/status || true'
[ ! -s "$folder/said" ] || fail "Tutti is named in $(cat "$folder/said")"
leave
rm -rf "$system"
