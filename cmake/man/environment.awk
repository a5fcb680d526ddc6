# The manual page of the environment variables, from docs/reference/environment.md: headings,
# paragraphs, and tables whose first column is what each entry is about. Variables: version; see,
# other pages.

function inline(text,    out) {
  text = replaced(text, "\\", "\\e")
  gsub(/\]\([^)]*\)/, "", text)
  gsub(/\[/, "", text)
  # What stands between backticks is bold, and its hyphens are typed.
  while (match(text, /`[^`]*`/)) {
    word = replaced(substr(text, RSTART + 1, RLENGTH - 2), "-", "\\-")
    out = out substr(text, 1, RSTART - 1) "\\fB" word "\\fR"
    text = substr(text, RSTART + RLENGTH)
  }
  text = out text
  if (text ~ /^[.']/) text = "\\&" text
  return text
}

# Of a table with a column of meanings that and, in parentheses, the others; else all of them, each
# with its title.
function row(    i, last, rest) {
  last = cells - 1
  for (i = 3; i < cells; ++i) {
    if (cell[i] == "" || (i == last && title[i] == "meaning")) continue
    rest = rest (rest == "" ? "" : "; ") title[i] ": " cell[i]
  }
  if (title[last] == "meaning") rest = cell[last] (rest == "" ? "" : " (" rest ")")
  printf ".TP\n%s\n%s\n", inline(cell[2]), inline(rest)
}

BEGIN {
  beginPage("tutti-environment", 7, version)
  print "tutti\\-environment \\- the variables that Tutti reads\n.SH DESCRIPTION"
}

/^# / { next }
/^## / {
  print ".SH \"" toupper(inline(substr($0, 4))) "\""
  fresh = 1
  next
}
/^\|/ {
  cells = split($0, cell, "|")
  for (i = 1; i <= cells; ++i) gsub(/^ +| +$/, "", cell[i])
  if (!inTable)
    for (i = 1; i <= cells; ++i) title[i] = cell[i]
  else if ($0 !~ /^\|-/)
    row()
  inTable = 1
  next
}
/^$/ {
  ended = 1
  inTable = 0
  next
}
{
  if (ended && !fresh) print ".PP"
  ended = fresh = inTable = 0
  print inline($0)
}

END { endPage(see) }
