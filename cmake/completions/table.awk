# Rows of a command's flags and arguments, from its help: CLI11's, or written by hand. Variable: line, what people
# type before them, as "tutti perf".

# Words to choose from: {a,b,c} or ENUM:a|b|c of the value, else all that the text lists: "a, b, c or d".
function choicesOf(value, text,    found, list) {
  if (match(value, /\{[^}]*\}/)) {
    found = substr(value, RSTART + 1, RLENGTH - 2)
  } else if (match(value, /ENUM:[^ ]*/)) {
    found = substr(value, RSTART + 5, RLENGTH - 5)
  } else if (value !~ /INT|FLOAT/) {
    while (match(text, /[a-z0-9_-]+, [a-z0-9_-]+, ([a-z0-9_-]+, )*[a-z0-9_-]+( or [a-z0-9_-]+)?/)) {
      list = substr(text, RSTART, RLENGTH)
      text = substr(text, RSTART + RLENGTH)
      gsub(/ or |, or(, in)?/, ",", list)
      found = found (found == "" ? "" : " ") list
    }
  }
  gsub(/[,| ]+/, " ", found)
  sub(/ $/, "", found)
  return found
}

function endEntry(    at, names, value, words, count, i) {
  if (entry == "") return
  sub(/ +(Excludes|Needs): .*/, "", entry)
  sub(/ REQUIRED$/, "", entry)
  if (kind == "flag") {
    count = split(entry, words, /,? +|,/)
    for (i = 1; i <= count && words[i] ~ /^-/; ++i) names = names (i > 1 ? " " : "") words[i]
    value = i <= count ? substr(entry, index(entry, words[i])) : ""
  } else {
    at = index(entry " ", " ")
    names = substr(entry, 1, at - 1)
    value = substr(entry, at + 1)
  }
  gsub(/\t/, " ", text)
  printf "%s\t%s\t%s\t%s\t%s\t%s\n", line, kind, names, value, kind == "flag" && value == "" ? "" : choicesOf(value, text), text
  entry = text = ""
}

/^Positionals:/ { inArguments = 1; next }
/^Options:/ { endEntry(); inArguments = 0; next }
{ indent = match($0, /[^ ]/) - 1 }
indent > 0 && indent <= 8 && (inArguments || $0 ~ /^ +-/) {
  endEntry()
  kind = inArguments ? "argument" : "flag"
  entry = $0
  sub(/^ +/, "", entry)
  at = match(entry, /  +/)
  text = at ? substr(entry, at + RLENGTH) : ""
  if (at) entry = substr(entry, 1, at - 1)
  next
}
indent > 8 && entry != "" {
  sub(/^ +/, "")
  text = text (text == "" ? "" : " ") $0
  next
}
{ endEntry() }
END { endEntry() }
