#!/bin/sh
# unpack-jargon.sh FILE: writes the text of The Jargon File, from Debian's package jargon-text, to
# FILE. Minimal systems install packages without /usr/share/doc, where the text lies; then it is
# taken out of the package itself.
set -eu
target=$1
text=/usr/share/doc/jargon-text/jargon.txt.gz
[ -s "$target" ] && exit 0
mkdir -p "$(dirname "$target")"

if [ -r "$text" ]; then
  gzip -dc "$text" >"$target.part"
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  chmod 755 "$folder"
  (cd "$folder" && apt-get download jargon-text) || {
    echo "$text is not here, and the package jargon-text could not be downloaded" >&2
    exit 1
  }
  dpkg-deb --fsys-tarfile "$folder"/jargon-text_*.deb |
    tar -xOf - ".$text" | gzip -dc >"$target.part"
fi
[ -s "$target.part" ] || { echo "the text of jargon-text is empty" >&2; exit 1; }
mv "$target.part" "$target"
