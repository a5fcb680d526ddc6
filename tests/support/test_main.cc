#include "tests/support/test_main.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace tutti::tests {
namespace {

std::vector<Argument>& allArguments() {
  static std::vector<Argument> arguments;
  return arguments;
}

std::function<int()>& runner() {
  static std::function<int()> run = [] { return RUN_ALL_TESTS(); };
  return run;
}

/// Whether all words are arguments, and no argument is missing.
bool take(const std::vector<std::string>& words) {
  size_t next = 0;
  for (const Argument& argument : allArguments()) {
    if (next == words.size() && !argument.mayBeMissing()) return false;
    do {
      if (next == words.size()) break;
      if (!argument.set(words[next++])) return false;
    } while (argument.takesAll());
  }
  return next == words.size();
}

int usage(const char* program) {
  std::fprintf(stderr, "usage: %s [GoogleTest's flags]", program);
  for (const Argument& argument : allArguments())
    std::fprintf(stderr, " %s", argument.name().c_str());
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace

Argument::Argument(const char* name, bool* value)
    : name_(name), set_([value, asked = std::string(name)](const std::string& word) {
        *value = "[" + word + "]" == asked;
        return *value;
      }) {}

Argument::Argument(const char* name, std::vector<std::string>* values)
    : name_(name), takesAll_(true), set_([values](const std::string& word) {
        values->push_back(word);
        return true;
      }) {}

Arguments::Arguments(std::initializer_list<Argument> arguments) {
  allArguments().insert(allArguments().end(), arguments.begin(), arguments.end());
}

Runner::Runner(std::function<int()> run) { runner() = std::move(run); }

}  // namespace tutti::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!tutti::tests::take(words)) return tutti::tests::usage(argv[0]);
  return tutti::tests::runner()();
}
