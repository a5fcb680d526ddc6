#include "tests/repository/arrows.h"

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace tutti::repository {
namespace {

bool isLayered(const std::string& path) {
  static constexpr std::array kRoots{"include/", "src/", "transports/", "collectives/",
                                     "parallel/"};
  return std::any_of(kRoots.begin(), kRoots.end(),
                     [&](const char* root) { return path.starts_with(root); });
}

std::string parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

/// The folder of the table that holds for a file: the closest one above it. None for a path with
/// dots, whose prefix says nothing.
std::string folderOf(const Arrows& arrows, const std::string& path) {
  if (path.find("..") != std::string::npos) return "";
  for (std::string folder = parent(path); !folder.empty(); folder = parent(folder))
    if (arrows.contains(folder)) return folder;
  return "";
}

/// The project's file that a line includes, if it includes one.
std::optional<std::string> includedFile(const std::string& line, const std::string& from,
                                        const std::set<std::string>& paths) {
  static const std::regex pattern(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::smatch match;
  if (!std::regex_search(line, match, pattern)) return std::nullopt;
  const std::string name = match[1];
  if (name.find("..") != std::string::npos) return name;
  if (name.starts_with("tutti/") || name.starts_with("tutti-nccl/")) return "include/" + name;
  // Not found: a header that does not exist (yet) still shows its folder.
  if (isLayered(name) || name.starts_with("tests/") || name.starts_with("bench/")) return name;
  const std::string beside = parent(from) + "/" + name;
  if (paths.contains(beside)) return beside;
  return std::nullopt;
}

void visit(const Arrows& arrows, const std::string& folder, std::vector<std::string>& path,
           std::set<std::string>& done, std::string& cycle) {
  if (!cycle.empty() || done.contains(folder)) return;
  if (std::find(path.begin(), path.end(), folder) != path.end()) {
    for (const std::string& name : path) cycle += name + " -> ";
    cycle += folder;
    return;
  }
  path.push_back(folder);
  for (const std::string& next : arrows.at(folder)) visit(arrows, next, path, done, cycle);
  path.pop_back();
  done.insert(folder);
}

}  // namespace

Arrows parseArrows(std::istream& in) {
  Arrows arrows;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string folder, colon;
    if (!(words >> folder >> colon) || colon != ":")
      throw std::runtime_error("not a line \"folder : allowed ...\": " + line);
    if (arrows.contains(folder)) throw std::runtime_error("two lines for " + folder);
    auto& allowed = arrows[folder];
    for (std::string word; words >> word;) allowed.insert(word);
  }
  for (const auto& [folder, allowed] : arrows)
    for (const std::string& name : allowed)
      if (!arrows.contains(name))
        throw std::runtime_error(folder + " may use " + name + ", which has no line");
  return arrows;
}

std::string findCycle(const Arrows& arrows) {
  std::set<std::string> done;
  std::string cycle;
  for (const auto& [folder, allowed] : arrows) {
    std::vector<std::string> path;
    visit(arrows, folder, path, done, cycle);
  }
  return cycle;
}

std::vector<std::string> findViolations(const Arrows& arrows, const std::vector<SourceFile>& files,
                                        int* counted) {
  std::set<std::string> paths;
  for (const SourceFile& file : files) paths.insert(file.path);
  std::vector<std::string> violations;
  *counted = 0;
  for (const SourceFile& file : files) {
    if (!isCode(file.path) || !isLayered(file.path)) continue;
    const std::string from = folderOf(arrows, file.path);
    if (from.empty()) violations.push_back(file.path + " is in a folder without a line");
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const auto included = includedFile(file.lines[i], file.path, paths);
      if (!included) continue;
      ++*counted;
      const std::string to = folderOf(arrows, *included);
      if (to == from || (!from.empty() && arrows.at(from).contains(to))) continue;
      violations.push_back(file.path + ":" + std::to_string(i + 1) + " includes " + *included +
                           ", but " + from + " may not use " +
                           (to.empty() ? "what no line of the table names" : to));
    }
  }
  return violations;
}

}  // namespace tutti::repository
