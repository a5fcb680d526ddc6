#include "src/tools/emulate/emulate.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "src/base/check.h"
#include "src/launch/environment.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/program_words.h"
#include "src/tools/emulate/emulated_program.h"

namespace tutti::tools {
namespace {

constexpr const char* kProgram = "tutti emulate";
constexpr const char* kDevicesVariable = "TUTTI_EMULATION_DEVICES";
constexpr int kDefaultDevices = 2;
// As of a shell.
constexpr int kCannotRun = 126, kNotFound = 127;

void setForProgram(const char* name, const std::string& value) {
  TUTTI_REQUIRE(::setenv(name, value.c_str(), 1) == 0, name,
                " cannot be set: ", std::strerror(errno));
}

std::string emulationFolder() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path() / TUTTI_EMULATION_FOLDER).lexically_normal();
}

void setEnvironment(const EmulateOptions& options, const EmulationLibraries& libraries) {
  const char* const before = std::getenv("LD_PRELOAD");
  setForProgram("LD_PRELOAD", libraries.preloadedAfter(before == nullptr ? "" : before));
  setForProgram("TUTTI_EMULATION_CUDA_VISIBLE_DEVICES", "1");
  // A rank may load data while others wait in a call; these have time-outs of their own.
  if (std::getenv("TUTTI_EMULATION_TIMEOUT") == nullptr)
    setForProgram("TUTTI_EMULATION_TIMEOUT", "3600");
  const bool isSaid = options.devices == 0 && std::getenv(kDevicesVariable) != nullptr;
  if (!isSaid)
    setForProgram(kDevicesVariable,
                  std::to_string(options.devices == 0 ? kDefaultDevices : options.devices));
}

/// Returns where it fails.
int becomeProgram(const std::string& path, const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  // A file without "#!" is the shell's. The path has a slash, so that PATH is not asked again.
  const std::string whole = path.find('/') == std::string::npos ? "./" + path : path;
  ::execvp(whole.c_str(), words.data());
  sayError(kProgram, path + ": " + std::strerror(errno));
  return kCannotRun;
}

}  // namespace

std::variant<EmulateOptions, int> parseEmulate(int argc, const char* const* argv) {
  EmulateOptions options;
  CommandLine app(
      "Runs PROGRAM, and what it starts, on N emulated GPUs with Tutti's NCCL. The machine needs "
      "no GPU, and\none that it has is not used. Memory, streams, events, graphs and NCCL work. "
      "Kernels of the program are\nmachine code for GPUs: to launch one is an error that names it.",
      kProgram);
  app.add_option("--devices", options.devices,
                 base::message("how many GPUs; default: ", kDevicesVariable, ", otherwise ",
                               kDefaultDevices))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->check(CLI::Range(1, kMostEmulatedDevices))
      ->default_str("");
  app.footer(
      "PROGRAM is a program or a script that uses the shared CUDA runtime. The emulation is a "
      "component of\nits own: cmake --install build --component emulation.");
  if (const auto code = readBeforeProgram(app, argc, argv, options.command)) return *code;
  return options;
}

int emulateMain(int argc, char** argv) {
  int failed = 1;
  return saidErrors(
      kProgram,
      [&] {
        const auto parsed = parseEmulate(argc, argv);
        if (const int* code = std::get_if<int>(&parsed)) return *code;
        const auto& options = std::get<EmulateOptions>(parsed);
        const std::string& name = options.command[0];
        const launcher::LaunchedProgram program = launcher::findProgram(name);
        if (program.error != 0) {
          sayError(kProgram, name + ": " + std::strerror(program.error));
          return program.error == ENOENT ? kNotFound : kCannotRun;
        }
        const EmulationLibraries libraries = findEmulation(emulationFolder());
        failed = kCannotRun;
        requireEmulated(program.path, libraries);
        failed = 1;
        setEnvironment(options, libraries);
        return becomeProgram(program.path, options.command);
      },
      [&](ErrorCode) { return failed; });
}

}  // namespace tutti::tools
