#include "src/tools/simulate/cluster_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "src/base/check.h"
#include "src/base/nearest_name.h"
#include "src/base/printable.h"
#include "src/base/read_text.h"
#include "src/base/strict_json.h"

namespace tutti::tools {
namespace {

using Json = nlohmann::json;
using topology::Cluster;

constexpr std::size_t kMostFileBytes = 1 << 16;

// Ranges of what a cluster can have. A message takes time, or the order of events would be open.
constexpr double kLeastMicroseconds = 1e-3, kMostMicroseconds = 1e6;
constexpr double kLeastGigabytesPerSecond = 1e-3, kMostGigabytesPerSecond = 1e6;
constexpr double kLeastTeraflops = 1e-6, kMostTeraflops = 1e6;

/// One object of a file, whose keys are taken one after the other.
class Keys {
 public:
  /// `path`: "inside." for what is in "inside".
  Keys(const std::string& file, const std::string& path, const Json& object)
      : file_(file), path_(path), object_(object) {}

  bool has(const char* key) const { return object_.contains(key); }
  const Json& take(const char* key) {
    TUTTI_REQUIRE(has(key), file_, ": there is no ", path_, key);
    taken_.insert(key);
    return object_[key];
  }
  Keys object(const char* key) {
    TUTTI_REQUIRE(take(key).is_object(), file_, ": ", path_, key, " is no object");
    return {file_, path_ + key + ".", object_[key]};
  }
  double number(const char* key, double least, double most) {
    const Json& value = take(key);
    TUTTI_REQUIRE(value.is_number(), file_, ": ", path_, key, " is no number");
    const auto number = value.get<double>();
    TUTTI_REQUIRE(number >= least && number <= most, file_, ": ", path_, key, " ", number,
                  " is not between ", least, " and ", most);
    return number;
  }
  double microseconds(const char* key) {
    return number(key, kLeastMicroseconds, kMostMicroseconds);
  }
  double gigabytesPerSecond(const char* key) {
    return number(key, kLeastGigabytesPerSecond, kMostGigabytesPerSecond);
  }
  int64_t whole(const char* key, int64_t least, int64_t most) {
    TUTTI_REQUIRE(take(key).is_number_integer(), file_, ": ", path_, key, " is no whole number");
    return static_cast<int64_t>(number(key, static_cast<double>(least), static_cast<double>(most)));
  }
  void comment() {
    if (!has("comment")) return;
    const Json& value = take("comment");
    const bool lines = value.is_array() && std::ranges::all_of(value, [](const Json& line) {
                         return line.is_string();
                       });
    TUTTI_REQUIRE(value.is_string() || lines, file_, ": ", path_,
                  "comment is neither a text nor a list of texts");
  }
  /// Nothing is left.
  void finish() const {
    for (const auto& [key, value] : object_.items())
      TUTTI_REQUIRE(taken_.contains(key), file_, ": there is no key ", path_, key);
  }

 private:
  const std::string file_, path_;
  const Json& object_;
  std::set<std::string> taken_;
};

std::vector<std::string> namesIn(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

[[noreturn]] void refuseName(const std::string& name, const std::filesystem::path& folder) {
  const std::vector<std::string> names = namesIn(folder);
  std::string all;
  for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
  base::fail(ErrorCode::InvalidArgument, "--topology ", name, " is neither a file nor one of ",
             folder.string(), all.empty() ? ", where there is none" : ": " + all,
             base::didYouMean(name, names));
}

}  // namespace

Cluster parseCluster(const std::string& name, const std::string& text) {
  const Json json = base::parseStrictly(name, text);
  TUTTI_REQUIRE(json.is_object(), name, " is no JSON object");
  Keys keys(name, "", json);
  Cluster cluster{.name = name};
  keys.comment();
  cluster.ranksPerHost = static_cast<int>(keys.whole("ranks_per_host", 1, 1024));
  Keys inside = keys.object("inside");
  cluster.inside = {.microseconds = inside.microseconds("microseconds"),
                    .gigabytesPerSecond = inside.gigabytesPerSecond("GBps")};
  if (inside.has("shared_GBps"))
    cluster.inside.sharedGigabytesPerSecond = inside.gigabytesPerSecond("shared_GBps");
  inside.finish();
  Keys nics = keys.object("nics");
  cluster.nics = {.count = static_cast<int>(nics.whole("count", 1, cluster.ranksPerHost)),
                  .microseconds = nics.microseconds("microseconds"),
                  .gigabytesPerSecond = nics.gigabytesPerSecond("GBps")};
  TUTTI_REQUIRE(cluster.ranksPerHost % cluster.nics.count == 0, name, ": nics.count ",
                cluster.nics.count, " does not divide the ", cluster.ranksPerHost,
                " ranks of a host");
  nics.finish();
  if (keys.has("pods")) {
    Keys pods = keys.object("pods");
    cluster.pods = {.hosts = static_cast<int>(pods.whole("hosts", 1, 4096)),
                    .microseconds = pods.number("microseconds", 0, kMostMicroseconds),
                    .oversubscription = pods.number("oversubscription", 1e-3, 1e3)};
    pods.finish();
  }
  Keys rank = keys.object("rank");
  cluster.work = {.stepMicroseconds = rank.microseconds("step_microseconds"),
                  .copyGigabytesPerSecond = rank.gigabytesPerSecond("copy_GBps"),
                  .reduceGigabytesPerSecond = rank.gigabytesPerSecond("reduce_GBps")};
  if (rank.has("teraflops"))
    cluster.work.teraflops = rank.number("teraflops", kLeastTeraflops, kMostTeraflops);
  rank.finish();
  cluster.messageBytes = static_cast<uint64_t>(keys.whole("message_bytes", 64, int64_t{1} << 32));
  keys.finish();
  return cluster;
}

Cluster readCluster(const std::string& nameOrPath, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code missing;
  fs::path path = nameOrPath;
  if (!fs::is_regular_file(path, missing)) path = folder / (nameOrPath + ".json");
  // A name is no way to anywhere else.
  const bool known = nameOrPath.find('/') == std::string::npos;
  if (path != nameOrPath && !(known && fs::is_regular_file(path, missing)))
    refuseName(nameOrPath, folder);
  Cluster cluster = parseCluster(base::printable(path.string()),
                                 base::readText("--topology", path, kMostFileBytes));
  cluster.name = path.stem();
  return cluster;
}

std::filesystem::path clusterFolder() {
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  return (program.parent_path() / TUTTI_TOPOLOGIES).lexically_normal();
}

}  // namespace tutti::tools
