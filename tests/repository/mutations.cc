#include "tests/repository/mutations.h"

#include <algorithm>
#include <map>
#include <set>

namespace tutti::repository {

std::vector<TokenizedFile> trainingSources(const std::vector<SourceFile>& files) {
  std::vector<TokenizedFile> sources;
  for (const SourceFile& file : files)
    if (isCode(file.path) && file.path.starts_with("parallel/") &&
        !file.path.starts_with("parallel/kernels/"))
      sources.push_back(tokenize(file));
  return sources;
}

namespace {

constexpr const char* kPurposes = "parallel/mesh/purpose.h";

/// Purpose::Name, a variable `purpose` or a member of `purposes`.
bool namesPurpose(const TokenizedFile& s, size_t begin, size_t end) {
  const std::string& last = s.tokens[end - 1].text;
  if (end - begin == 1) return last == "purpose" || last == "purpose_";
  if (end - begin != 3) return false;
  const std::string& first = s.tokens[begin].text;
  return (first == "Purpose" && s.is(begin + 1, "::")) ||
         ((first == "purposes" || first == "purposes_") && s.is(begin + 1, "."));
}

/// Behind the first argument of a call whose bracket is at `open`.
size_t endOfFirstArgument(const TokenizedFile& s, size_t open) {
  size_t i = open + 1;
  while (i < s.tokens.size() && !s.is(i, ",") && !s.is(i, ")")) {
    const bool opens = s.is(i, "(") || s.is(i, "{") || s.is(i, "[");
    i = (opens ? matching(s.tokens, i) : i) + 1;
  }
  return i;
}

}  // namespace

std::vector<std::string> callsWithoutPurpose(const std::vector<SourceFile>& files) {
  static const std::set<std::string> collectives{
      "allReduce",  "reduce", "broadcast",      "allGather", "reduceScatter",
      "allGatherV", "gather", "reduceScatterV", "scatter",   "allToAll",
      "allToAllV",  "scan",   "send",           "receive",   "prepare"};
  std::vector<std::string> faults;
  for (const TokenizedFile& s : trainingSources(files)) {
    if (s.file->path == "parallel/mesh/mesh_communicator.cc") continue;
    for (size_t i = 1; i + 1 < s.tokens.size(); ++i) {
      const bool call = (s.is(i - 1, ".") || s.is(i - 1, "->")) &&
                        collectives.contains(s.tokens[i].text) && s.is(i + 1, "(");
      if (call && !namesPurpose(s, i + 2, std::max(endOfFirstArgument(s, i + 1), i + 3)))
        faults.push_back(s.place(i) + s.tokens[i].text + " is called without a purpose");
    }
  }
  return faults;
}

std::vector<std::string> purposesNotNamedOnce(const std::vector<SourceFile>& files) {
  std::map<std::string, std::vector<std::string>> uses;
  bool listed = false;
  const std::vector<TokenizedFile> sources = trainingSources(files);
  for (const TokenizedFile& s : sources) {
    if (s.file->path != kPurposes) continue;
    size_t i = 0;
    while (i + 2 < s.tokens.size() && !(s.is(i, "enum") && s.is(i + 2, "Purpose"))) ++i;
    while (i < s.tokens.size() && !s.is(i, "{")) ++i;
    for (; i < s.tokens.size() && !s.is(i, "}"); ++i)
      if (isName(s.tokens[i])) listed = true, uses[s.tokens[i].text];
  }
  for (const TokenizedFile& s : sources) {
    if (s.file->path.starts_with("parallel/mesh/purpose.")) continue;
    for (size_t i = 0; i + 2 < s.tokens.size(); ++i)
      if (s.is(i, "Purpose") && s.is(i + 1, "::")) uses[s.tokens[i + 2].text].push_back(s.place(i));
  }
  std::vector<std::string> faults;
  for (const auto& [name, places] : uses) {
    if (places.empty()) faults.push_back(std::string(kPurposes) + ": nothing passes " + name);
    for (size_t i = 1; i < places.size(); ++i)
      faults.push_back(places[i] + name + " is passed here and at " + places[0]);
  }
  if (!listed) faults.push_back(std::string(kPurposes) + ": there is no purpose");
  return faults;
}

}  // namespace tutti::repository
