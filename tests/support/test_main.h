#pragma once

// The main() of every test program. GoogleTest takes its own flags from the command line. Of the
// other words a source of the program says what they are:
//
//   std::string pagePath;
//   const tests::Arguments commandLine{{"TUTTI", &launcher::tuttiPath}, {"PAGE", &pagePath}};
//
// They are set before the first test runs. If a word is missing, or one is left over, the program
// prints its usage and ends with exit code 2.

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace tutti::tests {

/// A word of the command line.
class Argument {
 public:
  /// `value` is a string or a path. If the name is in brackets, the word may be missing: then
  /// `value` stays as it is.
  template <class Value>
  Argument(const char* name, Value* value)
      : name_(name), set_([value](const std::string& word) { return *value = word, true; }) {}
  /// `value` becomes true if the word is there, which is the name without its brackets.
  Argument(const char* name, bool* value);
  /// All words that are left.
  Argument(const char* name, std::vector<std::string>* values);

  const std::string& name() const { return name_; }
  bool mayBeMissing() const { return name_.front() == '['; }
  bool takesAll() const { return takesAll_; }
  /// False if the word cannot be this argument.
  bool set(const std::string& word) const { return set_(word); }

 private:
  std::string name_;
  bool takesAll_ = false;
  std::function<bool(const std::string& word)> set_;
};

/// The words of a program, in order: one object of static storage in one of its sources.
struct Arguments {
  Arguments(std::initializer_list<Argument> arguments);
};

/// Calls RUN_ALL_TESTS() in a program that has something to do around it, and returns its code. The
/// arguments are set. One object of static storage in one source of the program.
struct Runner {
  explicit Runner(std::function<int()> run);
};

}  // namespace tutti::tests
