#include "src/tools/emulate/emulated_program.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "src/base/check.h"
#include "src/launch/environment.h"
#include "src/tools/common/elf_file.h"

namespace tutti::tools {
namespace {

constexpr std::string_view kRuntimeStem = "libcudart.so.";
/// Scripts that interpret scripts: as many as the kernel allows.
constexpr int kMostInterpreters = 4;

/// The words behind "#!" in the first line; none where the file is no script.
std::vector<std::string> interpreterOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char mark[2] = {};
  if (!in.read(mark, 2) || mark[0] != '#' || mark[1] != '!') return {};
  std::string line;
  std::getline(in, line);
  std::istringstream words(line);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  return all;
}

/// What env would start: the first word that is no option and sets no variable.
std::string programOfEnv(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i)
    if (!words[i].starts_with("-") && words[i].find('=') == std::string::npos) return words[i];
  return {};
}

std::string findInterpreter(const std::string& name, const std::string& script) {
  const launcher::LaunchedProgram program = launcher::findProgram(name);
  TUTTI_REQUIRE(program.error == 0, script, " asks for the interpreter ", name, ": ",
                std::strerror(program.error));
  return program.path;
}

void requireOwnRights(const std::string& path) {
  struct stat status = {};
  const bool isOther =
      ::stat(path.c_str(), &status) == 0 &&
      changesRights(status.st_mode, status.st_uid, status.st_gid, ::getuid(), ::getgid());
  const bool hasCapabilities =
      ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  TUTTI_REQUIRE(!isOther && !hasCapabilities, path,
                " runs with other rights than yours (set-uid, set-gid or capabilities), so that "
                "Linux preloads nothing into it; run a copy without them");
}

void requireRuntime(const std::string& path, const ElfFile& file, const std::string& runtimeName) {
  bool isShared = false;
  for (const std::string& each : file.needed) {
    if (!each.starts_with(kRuntimeStem)) continue;
    isShared = true;
    TUTTI_REQUIRE(each == runtimeName, path, " is linked with ", each,
                  ", and the emulation stands for ", runtimeName,
                  "; build it with that version of CUDA");
  }
  TUTTI_REQUIRE(isShared || !file.hasCudaRuntime, path,
                " has NVIDIA's CUDA runtime linked into it, which needs a GPU; link it with the "
                "shared one: nvcc -cudart shared, CUDA::cudart in CMake");
}

/// A script's interpreter was asked for; empty where `path` is a program.
std::string requireFile(const std::string& path, const EmulationLibraries& libraries) {
  if (const std::vector<std::string> words = interpreterOf(path); !words.empty()) {
    const bool isEnv = std::filesystem::path(words[0]).filename() == "env";
    const std::string program = isEnv ? programOfEnv(words) : std::string();
    return findInterpreter(program.empty() ? words[0] : program, path);
  }
  requireOwnRights(path);
  const ElfFile file = readElfFile(path);
  if (!file.isElf) return {};  // the shell's
  TUTTI_REQUIRE(file.isOfThisMachine, path, " is a program for another processor");
  TUTTI_REQUIRE(file.isDynamic, path,
                " is statically linked, so that nothing can be preloaded into it; link it "
                "dynamically");
  // `tutti run` and the like start programs, and call no CUDA.
  std::error_code ignored;
  if (!std::filesystem::equivalent(path, "/proc/self/exe", ignored))
    requireRuntime(path, file, libraries.runtimeName());
  return {};
}

}  // namespace

std::string EmulationLibraries::runtimeName() const {
  return std::filesystem::path(runtime).filename();
}

std::string EmulationLibraries::preloadedAfter(const std::string& before) const {
  const std::string mine = runtime + ":" + driver + ":" + nccl;
  return before.empty() ? mine : before + ":" + mine;
}

EmulationLibraries findEmulation(const std::string& folder) {
  EmulationLibraries all{{}, folder + "/libcuda.so.1", folder + "/libnccl.so.2"};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with(kRuntimeStem)) all.runtime = entry.path();
  const bool isThere = !all.runtime.empty() && std::filesystem::exists(all.driver, ignored) &&
                       std::filesystem::exists(all.nccl, ignored);
  TUTTI_REQUIRE(isThere, "the emulation is not installed in ", folder,
                ". A build with a CUDA toolkit has it: cmake --build build --target "
                "emulation_component, then "
                "cmake --install build --component emulation");
  TUTTI_REQUIRE(folder.find_first_of(" :") == std::string::npos, folder,
                " has a space or a colon, and LD_PRELOAD takes neither; install to another folder");
  return all;
}

void requireEmulated(const std::string& path, const EmulationLibraries& libraries) {
  std::string next = path;
  for (int i = 0; i <= kMostInterpreters && !next.empty(); ++i) next = requireFile(next, libraries);
  TUTTI_REQUIRE(next.empty(), path, " is a script whose interpreters are scripts without an end");
}

bool changesRights(mode_t mode, uid_t owner, gid_t group, uid_t user, gid_t userGroup) {
  return ((mode & S_ISUID) != 0 && owner != user) ||
         ((mode & S_ISGID) != 0 && (mode & S_IXGRP) != 0 && group != userGroup);
}

}  // namespace tutti::tools
