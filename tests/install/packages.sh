#!/bin/bash
# Packages of a build, without building anything: Debian's, in which lintian finds no error, and the tarball.
#   packages.sh CPACK BUILD FOLDER SOURCES CXX CC VERSION LIBDIR
# Each kind is unpacked into a folder, and used there as its owner would: programs run, and three programs of somebody
# else are compiled against it.
set -eu
cpack=$1 build=$2 folder=$3 sources=$4 cxx=$5 cc=$6 version=$7 libdir=$8
soversion=${version%.*}
fail() {
  echo "$*" >&2
  exit 1
}
# expect TEXT REGEX WHAT
expect() { grep -qE -- "$2" <<<"$1" || fail "$3 should have $2:"$'\n'"$1"; }

use() {
  local prefix=$1 scratch=$2
  local said
  mkdir -p "$scratch"
  said=$("$prefix/bin/tutti" --version)
  [ "$said" = "tutti $version" ] || fail "tutti --version says $said"
  expect "$("$prefix/bin/tutti" perf all_reduce -n 2 -b 8 -e 1K -f 8 --iters 3)" '^ *512 ' 'tutti perf'
  expect "$("$prefix/bin/tutti" simulate all_reduce --ranks 16 --size 1M --topology h100-8)" '\*[a-z_]+ ' 'tutti simulate'
  expect "$("$prefix/bin/all_reduce_perf" -b 8 -e 64 -f 2 -n 1 -g 2)" '# Out of bounds values : 0 OK' all_reduce_perf
  expect "$(cd "$scratch" && "$prefix/bin/train_gpt" --ranks 2 --steps 2 --batch 4 --layers 1 --width 32 --context 32)" 'loss' train_gpt
  cmake -S "$sources/tests/install/outside" -B "$scratch/outside" -G Ninja -D CMAKE_CXX_COMPILER="$cxx" \
    -D CMAKE_C_COMPILER="$cc" -D CMAKE_PREFIX_PATH="$prefix" -D CMAKE_BUILD_TYPE=Debug -D WAY=packaged >"$scratch/log" 2>&1 &&
    cmake --build "$scratch/outside" >>"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
  expect "$("$prefix/bin/tutti" run -n 2 -- "$scratch/outside/outside")" '^\[1\] sum 3 of 2 ranks, float32' 'the C++ program'
  [ "$("$scratch/outside/outside_nccl")" = "NCCL 23203: sum 6" ] || fail "the NCCL program failed"
  [ "$("$scratch/outside/outside_training")" = "the loss fell" ] || fail "the training program failed"
}

rm -rf "$folder"
mkdir -p "$folder/debian" "$folder/root" "$folder/tarball"

# Debian's: four with programs or libraries, whose debug symbols are packages of their own, and one for development.
"$cpack" --config "$build/CPackConfig.cmake" -G DEB -B "$folder/debian" >"$folder/log" 2>&1 || fail "$(cat "$folder/log")"
names="libnccl2-tutti libtutti-dev libtutti-parallel$soversion libtutti$soversion tutti-tools"
cd "$folder/debian"
made=$(printf '%s\n' *.deb | sed 's/_.*//' | sort | tr '\n' ' ')
[ "$made" = "$names " ] || fail "these packages were made: $made"
made=$(printf '%s\n' *.ddeb | sed 's/_.*//' | sort | tr '\n' ' ')
[ "$made" = "libnccl2-tutti-dbgsym libtutti-parallel$soversion-dbgsym libtutti$soversion-dbgsym tutti-tools-dbgsym " ] ||
  fail "these packages of debug symbols were made: $made"
lintian --allow-root --no-cfg --fail-on error *.deb >lintian.txt 2>&1 || fail "$(cat lintian.txt)"
for name in $names; do
  dpkg-deb --extract "$name"_*.deb "$folder/root"
  control=$(dpkg-deb --field "$name"_*.deb)
  expect "$control" "^Version: $version" "$name"
  expect "$control" '^Depends: .' "$name"
  dpkg-deb --contents "$name"_*.deb | sed 's/ -> .*//' | awk '{ print $NF }' | grep -v '/$' >>files.txt
  for file in copyright changelog.gz; do
    [ -f "$folder/root/usr/share/doc/$name/$file" ] || fail "$name has no $file"
  done
done
repeated=$(sort files.txt | uniq -d)
[ -z "$repeated" ] || fail "two packages have $repeated"
# What belongs to which; NVIDIA's libnccl2 is left alone.
expect "$(dpkg-deb --field libtutti-dev_*.deb Depends)" "libtutti$soversion \(= $version" libtutti-dev
expect "$(dpkg-deb --field libtutti-parallel*.deb Depends)" "libopenblas0.*libtutti$soversion \(= $version|libtutti$soversion \(= $version.*libopenblas0" libtutti-parallel
expect "$(dpkg-deb --contents libnccl2-tutti_*.deb)" "\./usr/$libdir/tutti-nccl/libnccl.so.2 ->" libnccl2-tutti
! grep -E "^\./usr/$libdir/libnccl" files.txt || fail "libnccl.so lies where programs find it"
# Neither search paths nor this machine's folders.
! readelf -d "$folder/root/usr/bin/"* "$folder/root/usr/$libdir/"*.so.* "$folder/root/usr/$libdir/tutti-nccl/"*.so.* 2>/dev/null |
  grep -E 'RPATH|RUNPATH' || fail "a program or a library has a search path"
! grep -rlI -- "$build" "$folder/root" || fail "a file names the build folder"
for file in share/man/man1/tutti-perf.1.gz share/man/man1/train_gpt.1.gz share/bash-completion/completions/tutti \
  share/zsh/vendor-completions/_tutti share/fish/vendor_completions.d/train_gpt.fish share/doc/tutti/LICENSE \
  share/doc/tutti/docs/how-to/install.md share/doc/tutti/docs/examples/first_collective/main.cc bin/generate bin/tokenize; do
  [ -e "$folder/root/usr/$file" ] || fail "no package has $file"
done
# What the loader finds in /usr/lib by itself.
(export LD_LIBRARY_PATH=$folder/root/usr/$libdir && use "$folder/root/usr" "$folder/debian/scratch")

# The tarball.
"$cpack" --config "$build/CPackConfig.cmake" -G TGZ -B "$folder/tarball" >"$folder/log" 2>&1 || fail "$(cat "$folder/log")"
cd "$folder/tarball"
name=$(basename tutti-"$version"*.tar.gz .tar.gz)
tar xf "$name.tar.gz"
mv "$name" "$folder/some where else"
# It has the files of Debian's packages, but for what only those have.
listed() { (cd "$1" && find . ! -type d | sed 's#^\./##' | sort); }
differ=$(diff <(listed "$folder/root/usr" | grep -vE '^share/doc/[^/]*/(copyright|changelog.gz)$' |
  sed 's#\(share/man/.*\)\.gz$#\1#; s#zsh/vendor-completions#zsh/site-functions#' | sort) <(listed "$folder/some where else")) ||
  fail "these files are in Debian's packages or in the tarball alone:"$'\n'"$differ"
! grep -rlI -- "$build" "$folder/some where else" || fail "a file names the build folder"
use "$folder/some where else" "$folder/tarball/scratch"
