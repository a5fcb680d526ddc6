# The manual page of a command, from its help. Variables: heading, as people type it; names of the
# page, and their summary; version; prose, a file of roff; see, other pages. The forms of help that
# are known: CLI11's; the list of commands in `tutti --help`; usage, paragraphs and options by hand.

function italic(text) { return text == "" ? "" : " \\fI" plain(text) "\\fR" }

# "-n,--ranks INT:INT in [1 - 256] REQUIRED": names bold, value italic; what else it says is
# appended to the entry's text.
function term(text,    names, value) {
  more = ""
  if (sub(/ REQUIRED$/, "", text)) more = "; required"
  if (match(text, /:INT in \[[^]]*\]/)) {
    value = substr(text, RSTART + 9, RLENGTH - 10)
    sub(/ - /, " to ", value)
    if (text !~ /BOOLEAN/) more = "; " value more
    text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
  }
  sub(/TEXT:\{/, "{", text)
  sub(/BOOLEAN/, "0|1", text)
  match(text, /^[^ ]+(, --[^ ]+)?/)
  names = substr(text, 1, RLENGTH)
  value = substr(text, RLENGTH + 2)
  if (section == "ARGUMENTS") return substr(italic(names), 2)
  gsub(/,/, ", ", names)
  gsub(/,  /, ", ", names)
  return bold(names) italic(value)
}

function endEntry() {
  if (entry != "") sections[section] = sections[section] ".TP\n" entry "\n" plain(text more) "\n"
  entry = ""
}

function addText(to, line) {
  if (line == "") {
    if (sections[to] != "" && sections[to] !~ /\.PP\n$/) sections[to] = sections[to] ".PP\n"
  } else {
    sections[to] = sections[to] plain(line) "\n"
  }
}

function show(name,    body) {
  body = sections[name]
  sub(/(\.PP\n)+$/, "", body)
  if (body != "") printf ".SH %s\n%s", name, body
}

BEGIN { section = "OPTIONS" }

/^[Uu]sage: / {
  usage = substr($0, length("usage: " heading) + 1)
  next
}
/^Positionals:/ { section = "ARGUMENTS"; next }
/^Options:/ { endEntry(); section = "OPTIONS"; next }

{ indent = match($0, /[^ ]/) - 1 }

# An entry: "  -f,--flag VALUE    its text", or "  name    its text". Continued further right.
indent > 0 && indent <= 8 {
  endEntry()
  if ($0 !~ /^ +-/ && section == "OPTIONS") section = "COMMANDS"
  line = $0
  sub(/^ +/, "", line)
  at = match(line, /  +/)
  entry = at ? substr(line, 1, at - 1) : line
  text = at ? substr(line, at + RLENGTH) : ""
  if (section == "COMMANDS") {
    more = ""
    entry = bold("tutti-" entry) "(1)"
  } else {
    entry = term(entry)
  }
  began = 1
  next
}
indent > 8 && entry != "" {
  line = $0
  sub(/^ +/, "", line)
  text = text (text == "" ? "" : " ") line
  next
}
{
  endEntry()
  addText(began ? "NOTES" : "DESCRIPTION", $0)
}

END {
  endEntry()
  count = split(names, all, " ")
  beginPage(all[1], 1, version)
  for (i = 1; i <= count; ++i) printf "%s%s", plain(all[i]), (i < count ? ", " : "")
  printf " \\- %s\n.SH SYNOPSIS\n", plain(summary)
  if (count == 1) all[1] = heading
  for (i = 1; i <= count; ++i) printf "%s%s%s\n", (i > 1 ? ".br\n" : ""), bold(all[i]), plain(usage)
  while ((getline line < prose) > 0) {
    if (line ~ /^\.SH/) inside = 1
    if (inside)
      after = after line "\n"
    else
      before = before line "\n"
  }
  sub(/(\.PP\n)+$/, "", sections["DESCRIPTION"])
  sub(/[^.]\n$/, "&.", sections["DESCRIPTION"])
  sub(/\n\.$/, ".\n", sections["DESCRIPTION"])
  if (before != "" && sections["DESCRIPTION"] != "") before = ".PP\n" before
  sections["DESCRIPTION"] = sections["DESCRIPTION"] before
  show("DESCRIPTION")
  show("COMMANDS")
  show("ARGUMENTS")
  show("OPTIONS")
  show("NOTES")
  printf "%s", after
  endPage(see)
}
