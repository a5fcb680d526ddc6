# Makes comments of public headers ones that Doxygen reads: the first is the file's, and those that
# begin with two slashes count as those with three.
/^ *\/\/ ?/ && !/^ *\/\/\// {
  sub(/\/\//, seen++ ? "///" : "/// \\file\n///")
}
{ print }
