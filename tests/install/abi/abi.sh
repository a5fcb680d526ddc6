#!/bin/bash
# The binary interface of libtutti.so, as programs have it that were built with this version's first library: types.abi
# has the layout of all types of the public headers, symbols.abi what the library exports. Both are abidw's.
#   abi.sh check LIBRARY SOURCES CXX FOLDER   fails, with abidiff's report, where one of them differs
#   abi.sh renew LIBRARY SOURCES CXX FOLDER   writes both anew
# FOLDER is for files that are made on the way.
set -eu
what=$1 library=$2 sources=$3 cxx=$4 folder=$5
kept=$sources/tests/install/abi

rm -rf "$folder"
mkdir -p "$folder"
# A function for each type at namespace scope that is no template, by which abidw reaches it. Types of other headers stay names.
{
  echo '#include <tutti/tutti.h>'
  echo 'namespace tutti {'
  awk '/^template/ { isTemplate = 1 }
    !isTemplate && /^(struct|class|enum class) [A-Z][A-Za-z]*( .*)?[{:]/ {
      sub(/^(struct|class|enum class) /, "")
      match($0, /^[A-Za-z]+/)
      print "void layoutOf(" substr($0, 1, RLENGTH) "*) {}"
    }
    /[;{]/ { isTemplate = 0 }' "$sources"/include/tutti/*.h |
    sort -u
  echo '}'
} >"$folder/types.cc"
types=$(grep -c layoutOf "$folder/types.cc")
[ "$types" -ge 30 ] || { echo "only $types types were found in $sources/include/tutti"; exit 1; }
"$cxx" -std=c++20 -g -fPIC -shared -I"$sources/include" "$folder/types.cc" -o "$folder/types.so"

describe() {
  abidw --headers-dir "$sources/include" --drop-private-types --no-corpus-path --no-comp-dir-path --no-show-locs \
    --type-id-style hash "$1" | sed -E "s/^ +//; s/ (path|soname)='[^']*'//"
}
describe "$folder/types.so" >"$folder/types.abi"
strip -o "$folder/symbols.so" "$library"
describe "$folder/symbols.so" >"$folder/symbols.abi"

if [ "$what" = renew ]; then
  cp "$folder"/types.abi "$folder"/symbols.abi "$kept"
  exit
fi
differ=
for part in types symbols; do
  abidiff "$kept/$part.abi" "$folder/$part.abi" || differ="$differ $part.abi"
done
[ -n "$differ" ] || exit 0
cat <<TEXT
The binary interface differs from that of tests/install/abi:$differ.
If a program that was built before would not run with this library, the first two numbers of include/tutti/version.h
have to change, as CONTRIBUTING.md says. Then, or if something is only added: cmake --build BUILD --target renew_abi
TEXT
exit 1
