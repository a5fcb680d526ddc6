# Completions for zsh, of rows of table.awk. Variable: programs.

# As a specification of _arguments between single quotes wants it.
function plain(text) {
  gsub(/\\/, "&&", text)
  gsub(/\[/, "\\\\&", text)
  gsub(/\]/, "\\\\&", text)
  gsub(/:/, "\\\\&", text)
  gsub(/'/, "'\\''", text)
  return text
}

# What a value is called: its type's first word.
function label(value) {
  sub(/[:= ].*/, "", value)
  return plain(value)
}

function action(choices) { return choices == "" ? "_files" : "(" choices ")" }

$2 == "command" {
  commands = commands sprintf("    '%s:%s'\n", $3, plain($6))
  next
}
{
  if (!($1 in specs)) lines[++count] = $1
  if ($2 == "flag") {
    total = split($3, names, " ")
    for (i = 1; i <= total; ++i) {
      takes = $4 == "" ? "" : ":" label($4) ":" action($5)
      specs[$1] = specs[$1] sprintf(" \\\n        '%s%s[%s]%s'", names[i], $4 != "" && names[i] ~ /^--/ ? "=" : "", plain($6), takes)
    }
  } else {
    specs[$1] = specs[$1] sprintf(" \\\n        ':%s:%s'", plain($3), action($5))
  }
}

END {
  print "#compdef tutti " programs
  print "# Made from the help of the commands.\n"
  print "_tutti_flags() {"
  print "  case $1 in"
  for (i = 1; i <= count; ++i)
    printf "    '%s')\n      _arguments%s \\\n        '--version[print the version and exit]' '*:file:_files'\n      ;;\n", lines[i], specs[lines[i]]
  print "    *) _files ;;"
  print "  esac"
  print "}\n"
  print "_tutti() {"
  print "  if [[ $service != tutti ]]; then"
  print "    _tutti_flags $service"
  print "    return"
  print "  fi"
  print "  local -a commands=(\n" commands "  )"
  print "  if ((CURRENT == 2)); then"
  print "    _describe command commands"
  print "    _arguments '--help[list the commands]' '--version[print the version]'"
  print "    return"
  print "  fi"
  print "  local line=\"tutti $words[2]\""
  print "  shift words"
  print "  ((--CURRENT))"
  print "  _tutti_flags $line"
  print "}\n"
  print "_tutti \"$@\""
}
