#!/bin/bash
# guest.sh [-g GUESTS] [-m MEGABYTES] FOLDER SECONDS COMMAND [ARGUMENT...]
#
# Runs COMMAND in a virtual machine that has an RDMA device (Soft-RoCE, rxe0): Debian's kernel, with
# this machine's own files, which it may change for itself. Nothing is installed, and nothing that
# it does is seen outside. FOLDER keeps the kernel between runs. With -g 2 there are two, each runs
# COMMAND, and an Ethernet cable joins them; $GUEST is 0 in the first and 1 in the second.
#
# Ends with COMMAND's status (of the first guest whose is not 0); 124 when SECONDS have passed; 125
# when a guest ended without one; 77, and the reason, where there cannot be a guest. The consoles
# are printed.
set -euo pipefail
here=$(dirname "$(realpath "$0")")

skip() {
  echo "SKIPPED: $*"
  exit 77
}

guests=1 megabytes=1536
while getopts g:m: option; do
  case $option in
    g) guests=$OPTARG ;;
    m) megabytes=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
folder=$1 seconds=$2
shift 2

for command in qemu-system-x86_64 cpio busybox setpriv; do
  command -v $command >/dev/null ||
    skip "there is no $command (packages qemu-system-x86, cpio, busybox-static, util-linux)"
done
"$here/kernel.sh" "$folder"
folder=$(realpath "$folder")

run=$(mktemp -d "${TMPDIR:-/tmp}/tutti_guest.XXXXXX")
finish() {
  endGuests
  rm -rf "$run"
}
running() {
  [ -n "$(jobs -pr)" ]
}
endGuests() {
  { running && kill -KILL $(jobs -pr) && wait; } 2>/dev/null || true
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# What the kernel starts from: busybox, the modules, and what to run.
makeInitramfs() {
  local root=$run/initramfs
  mkdir -p "$root"/{bin,proc,sys,dev,below,above,machine}
  cp "$(command -v busybox)" "$root/bin/busybox"
  ln -s busybox "$root/bin/sh"
  cp -r "$folder/modules" "$root/modules"
  cp "$here/init" "$root/init"
  chmod +x "$root/init"
  cp "$here/start.sh" "$root/start.sh"
  printf '%q ' "$@" >"$root/command"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$run/initramfs.gz"
}

# start GUEST
start() {
  local guest=$1 network=()
  if [ "$guests" = 2 ]; then
    local mine=$run/cable$guest theirs=$run/cable$((1 - guest))
    network=(-device "virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0$guest"
      -netdev "dgram,id=cable,local.type=unix,local.path=$mine,remote.type=unix,remote.path=$theirs")
  fi
  # It ends with this script, however that ends. The processor is emulated: in a machine that is
  # itself virtual /dev/kvm may be there and hang.
  setpriv --pdeathsig KILL qemu-system-x86_64 -accel tcg,thread=multi -cpu max -M q35 -smp 1 \
    -m "$megabytes" -nodefaults -no-user-config -display none -no-reboot \
    -serial "file:$run/console$guest" -serial "file:$run/status$guest" \
    -kernel "$folder/vmlinux" -initrd "$run/initramfs.gz" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off init_on_alloc=0 lsm= \
hardened_usercopy=off randomize_kstack_offset=off nokaslr tsc=nowatchdog random.trust_cpu=on \
GUEST=$guest" \
    -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
    "${network[@]}" </dev/null >"$run/qemu$guest" 2>&1 &
}

# The status that guest $1 has left, or why it left none.
statusOf() {
  local status
  status=$(cat "$run/status$1" 2>/dev/null | tr -dc 0-9) || true
  if [ "$status" = 77 ]; then
    echo 1  # there was a guest
  elif [ -n "$status" ]; then
    echo "$status"
  elif [ "$timedOut" = 1 ]; then
    echo 124
  else
    echo 125
  fi
}

makeInitramfs "$@"
for ((guest = 0; guest < guests; ++guest)); do start "$guest"; done
deadline=$((SECONDS + seconds)) timedOut=0
while running; do
  if [ $SECONDS -ge $deadline ]; then
    timedOut=1
    endGuests
  fi
  sleep 0.1
done

result=0
for ((guest = 0; guest < guests; ++guest)); do
  status=$(statusOf "$guest")
  echo "== guest $guest: ended with $status"
  cat "$run/qemu$guest" "$run/console$guest" 2>/dev/null | tr -d '\r' || true
  [ "$result" != 0 ] || result=$status
done
[ "$timedOut" = 0 ] || echo "== stopped after $seconds s"
exit "$result"
