#include "src/tools/common/command_line.h"

#include <cstdio>
#include <utility>

#include "src/base/nearest_name.h"
#include "src/base/printable.h"
#include "src/tools/common/output_file.h"

namespace tutti::tools {
namespace {

std::vector<std::string> flagsOf(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

bool isFlag(const std::string& word) { return word.size() > 1 && word[0] == '-' && word != "--"; }

}  // namespace

CommandLine::CommandLine(std::string about, std::string program)
    : CLI::App(std::move(about), std::move(program)) {
  option_defaults()->always_capture_default();
}

CLI::Option* CommandLine::addOutput(const std::string& names, std::string& file,
                                    const std::string& what) {
  CLI::Option* const option = add_option(names, file, what + "; - is standard output")
                                  ->type_name("FILE")
                                  ->check([](const std::string& path) {
                                    return path.empty() ? std::string("its file has no name") : "";
                                  });
  outputs_.push_back({option, &file});
  return option;
}

void CommandLine::requireOneOnStandardOutput() const {
  const Output* first = nullptr;
  for (const Output& output : outputs_) {
    if (!isStandardOutput(*output.file)) continue;
    if (first)
      throw CLI::ValidationError(base::message(first->option->get_name(), " and ",
                                               output.option->get_name(),
                                               " cannot both be standard output"));
    first = &output;
  }
}

std::string CommandLine::noFlag(const std::string& word) const {
  const std::string flag = word.substr(0, word.find('='));
  return "there is no flag " + flag +
         (flag.starts_with("--") ? base::didYouMean(flag, flagsOf(*this)) : "");
}

// Also where something else is wrong first: a word of an unknown flag may be what is missed.
std::string CommandLine::reasonOf(const CLI::ParseError& error) const {
  for (const std::string& word : remaining()) {
    if (isFlag(word)) return noFlag(word);
    if (get_prefix_command()) break;  // the others are a program's
  }
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError))
    return "'" + remaining().front() + "' is one word too many";
  const std::string what = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ArgumentMismatch))
    for (const Output& output : outputs_)
      if (const std::string name = output.option->get_name(); what.starts_with(name + ":"))
        return name + " needs a FILE; - is standard output";
  return what;
}

std::optional<int> CommandLine::read(int argc, const char* const* argv) {
  for (CLI::Option* option : get_options())
    if (option->get_required()) option->default_str("");
  try {
    parse(argc, argv);
    requireOneOnStandardOutput();
    return std::nullopt;
  } catch (const CLI::Success& done) {
    return exit(done);
  } catch (const CLI::ParseError& error) {
    return refuse(reasonOf(error));
  }
}

int CommandLine::refuse(const std::string& reason) const {
  sayError(get_name(), reason + " (" + get_name() + " --help shows the flags)");
  return 2;
}

void sayError(const std::string& program, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), base::printableLines(what).c_str());
}

int saidErrors(const std::string& program, const std::function<int()>& run,
               const std::function<int(ErrorCode)>& failed) {
  try {
    return run();
  } catch (const Error& error) {
    sayError(program, error.what());
    return failed(error.code());
  } catch (const std::exception& error) {
    sayError(program, error.what());
    return failed(ErrorCode::Internal);
  }
}

}  // namespace tutti::tools
