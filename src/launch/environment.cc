#include "src/launch/environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <sstream>

#include "src/base/check.h"

namespace tutti::launcher {
namespace {

int executableError(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return S_ISDIR(status.st_mode) ? EISDIR : EACCES;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

std::vector<std::string> rankEnvironment(const RankFacts& facts) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals));
  }
  const auto set = [&](const char* name, const std::string& value) {
    variables[name] = "=" + value;
  };
  set("TUTTI_RANK", std::to_string(facts.rank));
  set("TUTTI_LOCAL_RANK", std::to_string(facts.rank));
  set("TUTTI_WORLD_SIZE", std::to_string(facts.ranks));
  set("TUTTI_UNIQUE_ID", facts.uniqueId);
  set("TUTTI_RESTART", std::to_string(facts.restart));
  // OpenBLAS falls back to OpenMP's variable, so one that a person has set holds for both.
  const std::string threads = std::to_string(std::max(1, facts.cores / facts.ranks));
  if (!variables.contains("OPENBLAS_NUM_THREADS") && !variables.contains("OMP_NUM_THREADS"))
    set("OPENBLAS_NUM_THREADS", threads);
  if (!variables.contains("OMP_NUM_THREADS")) set("OMP_NUM_THREADS", threads);

  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(name + value);
  return result;
}

LaunchedProgram findProgram(const std::string& name) {
  if (name.empty()) return {name, ENOENT};
  if (name.find('/') != std::string::npos) return {name, executableError(name)};
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  int error = ENOENT;
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    const int found = executableError(candidate);
    if (found == 0) return {candidate, 0};
    if (found == EACCES) error = EACCES;
  }
  return {name, error};
}

}  // namespace tutti::launcher
