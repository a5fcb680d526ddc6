# What the pages have in common: text as roff wants it, and their first and last lines.

# Every `what` of `text` replaced by `by`, as it stands.
function replaced(text, what, by,    at, out) {
  while ((at = index(text, what)) > 0) {
    out = out substr(text, 1, at - 1) by
    text = substr(text, at + length(what))
  }
  return out text
}

# Hyphens are typed ones, and no line begins with roff's marks of a request.
function plain(text) {
  text = replaced(replaced(text, "\\", "\\e"), "-", "\\-")
  return text ~ /^[.']/ ? "\\&" text : text
}

function bold(text) { return "\\fB" plain(text) "\\fR" }

# Lines are neither hyphenated nor stretched: names stay as they are.
function beginPage(name, section, version) {
  printf ".TH \"%s\" %s \"\" \"Tutti %s\" \"Tutti\"\n", toupper(name), section, version
  print ".nh\n.ad l\n.SH NAME"
}

# Of names like "tutti-run(1)".
function endPage(see,    i, at, count, all) {
  print ".SH SEE ALSO"
  count = split(see, all, " ")
  for (i = 1; i <= count; ++i) {
    at = index(all[i], "(")
    printf "%s%s%s\n", bold(substr(all[i], 1, at - 1)), substr(all[i], at), (i < count ? "," : "")
  }
}
