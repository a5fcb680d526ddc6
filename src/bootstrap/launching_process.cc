#include "src/bootstrap/launching_process.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "src/base/check.h"

namespace tutti::bootstrap {
namespace {

constexpr int kMostAncestors = 64;

std::string contents(pid_t pid, const char* file) {
  std::ifstream in(base::message("/proc/", pid, "/", file));
  return {std::istreambuf_iterator<char>(in), {}};
}

/// "NAME=" at the start of an entry of an environment.
bool has(const std::string& environment, const std::string& name) {
  const std::string entry = name + "=";
  return environment.starts_with(entry) || environment.find('\0' + entry) != std::string::npos;
}

struct Ancestor {
  pid_t parent = 0;
  std::string start;  // ticks since the kernel's
};

std::optional<Ancestor> readAncestor(pid_t pid) {
  const std::string stat = contents(pid, "stat");
  const size_t name = stat.rfind(')');  // the name before it may have blanks
  if (name == std::string::npos) return std::nullopt;
  std::istringstream in(stat.substr(name + 1));
  std::string field;
  Ancestor found;
  constexpr int kParent = 4, kStart = 22;  // as proc(5) numbers them
  for (int number = 3; number <= kStart && in >> field; ++number) {
    if (number == kParent) found.parent = std::atoi(field.c_str());
    if (number == kStart) found.start = field;
  }
  if (found.start.empty()) return std::nullopt;
  return found;
}

}  // namespace

std::string launchingProcess(const std::string& rankVariable) {
  pid_t pid = ::getppid();
  for (int i = 0; i < kMostAncestors && pid > 0; ++i) {
    const auto ancestor = readAncestor(pid);
    if (!ancestor) break;
    // A program may have written a title over its environment, and another user's is not to be
    // read: such an ancestor says nothing.
    const std::string environment = contents(pid, "environ");
    if (has(environment, "PATH") && !has(environment, rankVariable))
      return base::message("pid ", pid, " at ", ancestor->start);
    pid = ancestor->parent;
  }
  return {};
}

}  // namespace tutti::bootstrap
