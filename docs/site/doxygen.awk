# Makes Doxygen read the comments of public headers that begin with two slashes. The first is the file's. One before
# members of a class is the head of a group, which its first sentence names and an empty line ends.
function close_group() {
  if (group) print "  ///@}"
  group = 0
}
/^ *$/ || /^(};| *private:)/ { close_group() }
/^\/\/( |$)/ {
  if (!seen++) print "/// \\file"
  sub(/\/\//, "///")
}
/^  \/\/( |$)/ {
  if (!group) {
    name = rest = substr($0, 6)
    end = index(name, ". ")
    sub(/\.( .*)?$/, "", name)
    print "  /// @name " name
    print "  /// " (end ? substr(rest, end + 2) : "")
    head = group = 1
    next
  }
  sub(/\/\//, "///")
}
!/^ *\/\/\// && head {
  print "  ///@{"
  head = 0
}
{ print }
