# Completions for fish of one program, of rows of table.awk. Variable: program.

function quoted(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/'/, "\\'", text)
  return "'" text "'"
}

BEGIN { print "# Made from the help of the commands." }

{
  split($1, words, " ")
  if (words[1] != program) next
  condition = words[2] == "" ? "" : " -n '__fish_seen_subcommand_from " words[2] "'"
  all[words[2]] = condition
}
$2 == "command" {
  printf "complete -c tutti -f -n __fish_use_subcommand -a %s -d %s\n", $3, quoted($6)
  next
}
$2 == "flag" {
  out = "complete -c " program condition
  total = split($3, names, " ")
  for (i = 1; i <= total; ++i) out = out (names[i] ~ /^--/ ? " -l " substr(names[i], 3) : " -s " substr(names[i], 2))
  if ($4 != "") out = out " -r"
  if ($5 != "") out = out " -f -a " quoted($5)
  print out " -d " quoted($6)
  next
}
$5 != "" { printf "complete -c %s%s -a %s\n", program, condition, quoted($5) }

END {
  for (name in all)
    if (program != "tutti" || name != "")
      printf "complete -c %s%s -l version -d 'print the version'\n", program, all[name]
  if (program == "tutti") print "complete -c tutti -f -n __fish_use_subcommand -l help -l version"
}
