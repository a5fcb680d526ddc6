# Completions for bash, of rows of table.awk. It needs no other file of bash-completion. Variable: programs.

$2 == "command" { commands = commands " " $3; next }
{
  if (!($1 in flags)) lines[++count] = $1
  if ($2 == "flag") {
    flags[$1] = flags[$1] " " $3
    total = split($3, names, " ")
    for (i = 1; i <= total && $4 != ""; ++i) values = values sprintf("    '%s %s') choices='%s' value=1 ;;\n", $1, names[i], $5)
  } else {
    flags[$1] = flags[$1] ""
    arguments[$1] = arguments[$1] " " $5
  }
}

END {
  print "# Made from the help of the commands.\n"
  print "_tutti() {"
  print "  local line=${COMP_WORDS[0]##*/} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}"
  print "  local choices= value="
  print "  COMPREPLY=()"
  print "  if [[ $line == tutti ]]; then"
  print "    if ((COMP_CWORD == 1)); then"
  printf "      COMPREPLY=($(compgen -W '%s --help --version' -- \"$current\"))\n", substr(commands, 2)
  print "      return"
  print "    fi"
  print "    line=\"tutti ${COMP_WORDS[1]}\""
  print "  fi"
  print "  if [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD - 2]}; fi"
  print "  if [[ $current == = ]]; then current=; fi"
  print "  case \"$line $previous\" in"
  printf "%s", values
  print "  esac"
  print "  if [[ -z $value && $current == -* ]]; then"
  print "    case $line in"
  for (i = 1; i <= count; ++i) printf "      '%s') choices='%s' ;;\n", lines[i], substr(flags[lines[i]], 2) " --version"
  print "    esac"
  print "  elif [[ -z $value ]]; then"
  print "    case $line in"
  for (i = 1; i <= count; ++i)
    if (arguments[lines[i]] ~ /[^ ]/) printf "      '%s') choices='%s' ;;\n", lines[i], substr(arguments[lines[i]], 2)
  print "    esac"
  print "  fi"
  print "  if [[ -n $choices ]]; then COMPREPLY=($(compgen -W \"$choices\" -- \"$current\")); fi"
  print "}\n"
  print "complete -o default -F _tutti tutti " programs
}
