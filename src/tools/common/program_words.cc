#include "src/tools/common/program_words.h"

#include <memory>

#include "src/tools/common/command_line.h"

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

/// The option that is none, or "".
std::string strangeOption(const CommandLine& app, const std::vector<std::string>& left, int argc,
                          const char* const* argv) {
  const int parsed = argc - static_cast<int>(left.size());
  for (int i = 1; i < parsed; ++i)
    if (hasGluedWord(app, argv[i])) return argv[i];
  const bool isOption = !left.empty() && left[0].starts_with("-") && left[0] != "--";
  return isOption ? left[0] : "";
}

}  // namespace

std::optional<int> readBeforeProgram(CommandLine& app, int argc, const char* const* argv,
                                     std::vector<std::string>& program) {
  app.prefix_command();
  app.formatter(std::make_shared<ProgramUsage>());
  if (const auto code = app.read(argc, argv)) return code;
  const std::vector<std::string> left = app.remaining();
  const std::string strange = strangeOption(app, left, argc, argv);
  if (!strange.empty()) return app.refuse(app.noFlag(strange));
  const std::ptrdiff_t begin = !left.empty() && left[0] == "--" ? 1 : 0;
  if (std::ssize(left) == begin || left[static_cast<size_t>(begin)].empty())
    return app.refuse("PROGRAM is required");
  program.assign(left.begin() + begin, left.end());
  return std::nullopt;
}

}  // namespace tutti::tools
