#include "src/tools/doctor/doctor_nccl.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string_view>
#include <thread>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/file_descriptor.h"
#include "src/base/pipe.h"
#include "src/base/printable.h"
#include "src/tools/common/elf_file.h"

extern char** environ;

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostOutput = size_t{1} << 20;

/// What Python says of itself. A line for each library, and one for what kept PyTorch away. PyTorch
/// also maps the library of its wheel where another goes before it: the one counts whose names
/// everybody sees.
constexpr const char* kPython = R"(
import ctypes
try:
    import torch
except Exception as failure:
    print('obstacle: import torch: ' + str(failure).replace('\n', ' '))
    try:
        ctypes.CDLL('libnccl.so.2')
    except OSError:
        pass
class Place(ctypes.Structure):
    _fields_ = [('path', ctypes.c_char_p), ('base', ctypes.c_void_p),
                ('name', ctypes.c_char_p), ('at', ctypes.c_void_p)]
seen = set()
try:
    everybody, place = ctypes.CDLL(None), Place()
    address = ctypes.cast(everybody.ncclGetVersion, ctypes.c_void_p)
    if everybody.dladdr(address, ctypes.byref(place)):
        seen.add(place.path.decode())
except AttributeError:
    for line in open('/proc/self/maps'):
        path = line[line.find('/'):].rstrip('\n') if '/' in line else ''
        if path.rpartition('/')[2].startswith('libnccl.so'):
            seen.add(path)
for path in seen:
    print('library: ' + path)
)";

struct Output {
  std::string text;
  bool ended = false;  ///< in time
  int status = 0;
};

std::string readUntil(int descriptor, const base::Deadline& deadline) {
  std::string text;
  char part[4096];
  while (text.size() < kMostOutput && !deadline.passed()) {
    pollfd ready{descriptor, POLLIN, 0};
    const int milliseconds = std::min(deadline.remainingMs(), 1000);
    if (TUTTI_SYSCALL(::poll(&ready, 1, milliseconds)) == 0) continue;
    const ssize_t n = TUTTI_SYSCALL(::read(descriptor, part, sizeof part));
    if (n == 0) break;
    text.append(part, static_cast<size_t>(n));
  }
  return text;
}

/// Ends it when the time is over.
Output outputOf(const std::vector<std::string>& words, const std::vector<std::string>& variables,
                std::chrono::milliseconds longest) {
  const auto deadline = base::Deadline::after(longest);
  base::Pipe pipe = base::makePipe();
  std::vector<char*> arguments, environment;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const auto isReplaced = [&](std::string_view entry) {
    return std::ranges::any_of(variables, [&](const std::string& variable) {
      return entry.starts_with(variable.substr(0, variable.find('=') + 1));
    });
  };
  for (char** entry = environ; *entry; ++entry)
    if (!isReplaced(*entry)) environment.push_back(*entry);
  for (const std::string& variable : variables)
    environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (const int failed = ::posix_spawn_file_actions_init(&actions))
    base::failSyscall("posix_spawn_file_actions_init", failed, words[0]);
  pid_t child = 0;
  int error = ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (error == 0) error = ::posix_spawn_file_actions_adddup2(&actions, pipe.writeEnd.get(), 1);
  if (error == 0) error = ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  if (error == 0)
    error = ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(),
                          environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) base::failSyscall("posix_spawn", error, words[0]);
  pipe.writeEnd.reset();
  Output output{.text = readUntil(pipe.readEnd.get(), deadline)};
  while (TUTTI_SYSCALL(::waitpid(child, &output.status, WNOHANG)) == 0) {
    if (deadline.passed()) {
      ::kill(child, SIGKILL);
      TUTTI_SYSCALL(::waitpid(child, &output.status, 0));
      return output;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  output.ended = true;
  return output;
}

/// As a shell finds it.
std::string pathOf(const std::string& program) {
  std::vector<std::string> places;
  if (program.find('/') != std::string::npos) {
    places.push_back(program);
  } else {
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');)
      places.push_back((folder.empty() ? "." : folder) + "/" + program);
  }
  std::error_code unknown;
  for (const std::string& place : places)
    if (fs::is_regular_file(place, unknown) && ::access(place.c_str(), X_OK) == 0) return place;
  if (places[0] == program && fs::exists(program, unknown))
    base::fail(ErrorCode::InvalidArgument, "--nccl: ", base::printable(program),
               fs::is_directory(program, unknown) ? " is a folder" : " is not executable");
  base::fail(ErrorCode::InvalidArgument, "--nccl: there is no program ", base::printable(program));
}

bool isScript(const std::string& path) {
  char begin[2] = {};
  return std::ifstream(path, std::ios::binary).read(begin, 2) && begin[0] == '#' && begin[1] == '!';
}

/// Also a script of that name, which finds the interpreter that is meant.
bool isPython(const std::string& path) {
  static const std::regex name("(python|pypy)[0-9.]*");
  return std::regex_match(fs::path(path).filename().string(), name);
}

void addLibrary(NcclUse& use, const std::string& path) {
  std::error_code unknown;
  const fs::path real = fs::canonical(path, unknown);
  const std::string found = unknown ? path : real.string();
  const auto isFound = [&](const NcclLibrary& known) { return known.path == found; };
  if (std::ranges::none_of(use.libraries, isFound)) use.libraries.push_back(readNcclLibrary(found));
}

void askPython(const std::string& path, std::chrono::milliseconds longest, NcclUse& use) {
  const Output output = outputOf({path, "-c", kPython}, {}, longest);
  std::istringstream lines(output.text);
  constexpr std::string_view kLibrary = "library: ", kObstacle = "obstacle: ";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kLibrary)) addLibrary(use, line.substr(kLibrary.size()));
    if (line.starts_with(kObstacle)) use.obstacle = line.substr(kObstacle.size());
  }
  if (!output.ended)
    use.obstacle = base::message("it has not imported torch within ", longest.count(), " ms");
  else if (output.status != 0 && use.obstacle.empty())
    use.obstacle = base::message("it ended with status ", output.status,
                                 ", and with LD_PRELOAD that may be the library");
}

/// The loader lists what it would load, and does not start the program.
void askLoader(const std::string& path, std::vector<std::string> variables,
               std::chrono::milliseconds longest, NcclUse& use) {
  variables.emplace_back("LD_TRACE_LOADED_OBJECTS=1");
  const Output output = outputOf({path}, variables, longest);
  static const std::regex found(R"((?:libnccl\.so\S* => )?(/\S*libnccl\.so\S*) \(0x[0-9a-f]+\))");
  std::istringstream lines(output.text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, found)) addLibrary(use, match[1]);
    if (line.find("libnccl.so.2 => not found") != std::string::npos)
      use.obstacle = "the loader finds no libnccl.so.2";
  }
  if (!output.ended) use.obstacle = "the loader has not answered";
}

}  // namespace

NcclLibrary readNcclLibrary(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TUTTI_REQUIRE(file, path, " cannot be read");
  NcclLibrary library{.path = path};
  // The line that the library says of itself is in the file as a whole.
  constexpr std::string_view kBegin = "NCCL version ";
  constexpr size_t kPart = size_t{1} << 22, kLongest = 64;
  std::string text;
  while (library.version.empty() && file) {
    text.erase(0, text.size() - std::min(text.size(), kLongest));
    const size_t kept = text.size();
    text.resize(kept + kPart);
    file.read(text.data() + kept, kPart);
    text.resize(kept + static_cast<size_t>(file.gcount()));
    for (size_t at = text.find(kBegin); at != std::string::npos; at = text.find(kBegin, at + 1)) {
      if (at + kLongest > text.size() && file) break;  // in the next part, too
      const std::string line = text.substr(at + kBegin.size(), kLongest);
      const size_t end = line.find_first_not_of("0123456789.");
      if (end == 0 || line.find('.') > end) continue;
      library.version = line.substr(0, end);
      library.isTutti = line.substr(std::min(end, line.size())).starts_with("+tutti");
      break;
    }
  }
  return library;
}

std::string NcclLibrary::describe() const {
  return base::message(path, isTutti ? ": Tutti's, NCCL " : ": not Tutti's, NCCL ",
                       version.empty() ? "of an unknown version" : version);
}

std::string ownNccl() {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  // In the build tree, and as they are installed.
  for (const char* folder : {"../lib", "../lib/tutti-nccl", "../lib64/tutti-nccl",
                             "../lib/x86_64-linux-gnu/tutti-nccl"}) {
    const fs::path library = program.parent_path() / folder / "libnccl.so.2";
    if (fs::exists(library, unknown))
      return fs::weakly_canonical(library.parent_path()) / "libnccl.so.2";
  }
  return "";
}

std::optional<NcclLibrary> findLoadersNccl(std::chrono::milliseconds longest) {
  // What is preloaded is looked for as what is linked is. The shell has no path of its own.
  const char* const before = std::getenv("LD_PRELOAD");
  const std::string preloaded = base::message(before ? before : "", " libnccl.so.2");
  NcclUse use;
  try {
    askLoader("/bin/sh", {"LD_PRELOAD=" + preloaded}, longest, use);
  } catch (const Error&) {  // there is no shell, or no room for another process
    return std::nullopt;
  }
  if (use.libraries.empty()) return std::nullopt;
  return use.libraries[0];
}

NcclUse findNccl(const std::string& program, std::chrono::milliseconds longest) {
  NcclUse use{.program = program, .own = ownNccl()};
  const std::string path = pathOf(program);
  const ElfFile file = readElfFile(path);
  if (isPython(path)) {
    askPython(path, longest, use);
  } else if (isScript(path)) {
    use.obstacle = "it is a script: ask for its interpreter, such as python";
    use.mend = "tutti doctor --nccl INTERPRETER";
  } else if (!file.isOfThisMachine) {
    use.obstacle = "it is no program for this processor, or is damaged";
    use.mend = "name a program that runs here";
  } else if (!file.isDynamic) {
    use.obstacle = "it is linked statically, and takes no library from outside";
    use.mend = "link it with the shared libnccl.so.2";
  } else {
    askLoader(path, {}, longest, use);
  }
  return use;
}

Finding checkNccl(const NcclUse& use) {
  Finding found{.check = "libnccl.so.2"};
  for (const NcclLibrary& library : use.libraries)
    found.measured += (found.measured.empty() ? "" : "; ") + library.describe();
  const bool isTuttis =
      !use.libraries.empty() && std::ranges::all_of(use.libraries, &NcclLibrary::isTutti);
  if (isTuttis && use.obstacle.empty()) return found;
  const std::string program = shellWord(use.program);
  const std::string library =
      shellWord(use.own.empty() ? "PREFIX/lib/tutti-nccl/libnccl.so.2" : use.own);
  found.state = Finding::State::Wrong;
  if (use.libraries.empty()) {
    found.measured = program + " loads none";
    found.why = use.obstacle.empty()
                    ? "it is not linked with NCCL; it may load one later, and then LD_PRELOAD goes "
                      "before it"
                    : use.obstacle;
  } else if (!use.obstacle.empty()) {
    found.why = use.obstacle;
  } else {
    found.why =
        "a program's own library path may go before LD_LIBRARY_PATH; LD_PRELOAD goes before "
        "both";
  }
  found.mend = use.mend.empty() ? base::message("LD_PRELOAD=", library, " ", program) : use.mend;
  return found;
}

}  // namespace tutti::tools
