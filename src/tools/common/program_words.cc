#include "src/tools/common/program_words.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "src/base/printable.h"

namespace tutti::tools {
namespace {

class ProgramUsage final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " [OPTIONS] [--] PROGRAM [ARGUMENTS...]\n";
  }
};

/// CLI11 takes "-output x" for "-o utput", and x would be the program.
bool hasGluedWord(const CLI::App& app, const std::string& word) {
  if (word.size() <= 2 || word[0] != '-' || word[1] == '-') return false;
  const CLI::Option* const option = app.get_option_no_throw(word.substr(0, 2));
  return option != nullptr && word.find_first_not_of("0123456789", 2) != std::string::npos;
}

void requireApart(const CLI::App& app, const std::string& word) {
  if (hasGluedWord(app, word)) throw CLI::ExtrasError(app.get_name(), {word});
}

}  // namespace

std::vector<std::string> parseBeforeProgram(CLI::App& app, int argc, const char* const* argv) {
  app.prefix_command();
  app.formatter(std::make_shared<ProgramUsage>());
  app.parse(argc, argv);
  const std::vector<std::string> left = app.remaining();
  const int parsed = argc - static_cast<int>(left.size());
  for (int i = 1; i < parsed; ++i) requireApart(app, argv[i]);
  size_t begin = 0;
  if (!left.empty() && left[0] == "--")
    begin = 1;
  else if (!left.empty() && left[0].starts_with("-"))
    throw CLI::ExtrasError(app.get_name(), {left[0]});
  if (left.size() == begin || left[begin].empty()) throw CLI::RequiredError("PROGRAM");
  return {left.begin() + static_cast<std::ptrdiff_t>(begin), left.end()};
}

int exitCodeOf(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const std::string name = app.get_name();
  std::fprintf(stderr, "%s: %s\n(%s --help shows the options)\n", name.c_str(),
               base::printableLines(error.what()).c_str(), name.c_str());
  return 2;
}

}  // namespace tutti::tools
