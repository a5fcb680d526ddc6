#!/bin/bash
# kernel.sh FOLDER: fetches Debian's kernel, without installing it, and leaves in FOLDER what a guest
# boots: `vmlinux`, and `modules/`, numbered in the order in which they are to be loaded. Does nothing
# when it did so before. Ends with 77, and the reason, where the kernel cannot be had.
set -euo pipefail

# The guest's disk, its network, and RDMA.
wanted='virtio_pci 9pnet_virtio 9p overlay
        virtio_net dummy veth bridge sch_netem
        crc32_generic crc32c_generic crc32_pclmul ib_uverbs rdma_rxe'

skip() {
  echo "SKIPPED: $*"
  exit 77
}

folder=$1
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
stamp=$folder/kernel.done
[ "$stamp" -nt "$0" ] && exit 0
rm -rf "$stamp" "$folder/modules" "$folder/vmlinux" "$folder/unpacked"

[ "$(uname -m)" = x86_64 ] || skip "the guest's kernel is one for x86_64, and this is $(uname -m)"
for command in apt-get dpkg-deb depmod modprobe xz; do
  command -v $command >/dev/null || skip "there is no $command"
done
package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends:/ { print $2; exit }')
[ -n "$package" ] || skip "apt knows no package linux-image-amd64 (apt-get update may help)"

work=$folder/unpacked
mkdir "$work"
trap 'rm -rf "$work"' EXIT
(cd "$work" && timeout 120 apt-get download "$package") || skip "$package cannot be downloaded"
dpkg-deb -x "$work/$package"_*.deb "$work"
version=$(ls "$work/lib/modules")
depmod -b "$work" "$version"

# qemu starts the kernel proper at once; unpacking itself would cost the emulated processor seconds.
image=$work/boot/vmlinuz-$version
start=$(LC_ALL=C grep -abom1 -P '\xfd7zXZ\x00' "$image" | head -n 1 | cut -d : -f 1)
# What follows the compressed kernel in the file is none of it, and xz says so.
tail -c "+$((start + 1))" "$image" | xz -dc --single-stream >"$folder/vmlinux" 2>/dev/null || true
[ "$(head -c 4 "$folder/vmlinux")" = $'\x7fELF' ] || {
  echo "no kernel was found in $image" >&2
  exit 1
}

mkdir "$folder/modules"
number=100
for module in $wanted; do
  modprobe -d "$work" -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
  number=$((number + 1))
  cp "$file" "$folder/modules/$number-${file##*/}"
done
touch "$stamp"
