#include "src/tools/tune/tune_record.h"

#include <cmath>

#include "src/tools/common/json.h"
#include "src/tools/common/read_json.h"

namespace tutti::tools {
namespace {

constexpr uint64_t kMostBlockBytes = uint64_t{1} << 40;
constexpr int kMostRanks = 16384;

Verdict verdictOf(const nlohmann::json& object) {
  Verdict verdict;
  auto& [request, topology, windows, microseconds, asking] = verdict.call;
  const auto collective = plan::parseCollective(object.at("collective").get<std::string>());
  if (!collective) throw std::runtime_error("there is no such collective");
  request.collective = *collective;
  request.type = DataType::UInt8;
  request.count = numberOf<uint64_t>(object, "block_bytes", 1, kMostBlockBytes);
  windows = object.at("windows").get<bool>();
  topology.ranks = numberOf(object, "ranks", 2, kMostRanks);
  topology.cores = numberOf(object, "cores", 1, kMostRanks);
  topology.slotBytes = numberOf<size_t>(object, "slot_bytes", 64, size_t{1} << 30);
  topology.channels = numberOf(object, "channels", 1, 64);
  if (object.contains("attached")) topology.attached = object.at("attached").get<bool>();
  const auto& hosts = object.at("hosts");
  if (!hosts.is_array()) throw std::runtime_error("hosts is no list");
  for (const auto& host : hosts)
    topology.hostOf.push_back(numberIn(host, "a host", 0, topology.ranks - 1));
  if (topology.hostOf.size() != static_cast<size_t>(topology.ranks))
    throw std::runtime_error("hosts are not one for each rank");
  for (const auto& entry : object.at("microseconds").items())
    microseconds[entry.key()] = numberOf(object.at("microseconds"), entry.key().c_str(), 1e-3, 1e9);
  if (!windows) asking = numberOf(object, "asking", 0.0, 1e9);
  verdict.ratio = numberOf(object, "ratio", 0.0, 1e9);
  verdict.leastRatio = numberOf(object, "ratio_low", 0.0, 1e9);
  return verdict;
}

}  // namespace

std::string jsonOf(const Verdict& verdict) {
  const auto& [request, topology, windows, microseconds, asking] = verdict.call;
  // Nanoseconds are more than a clock tells.
  const auto rounded = [](double value) { return std::round(value * 1000) / 1000; };
  nlohmann::json times = nlohmann::json::object();
  for (const auto& [name, time] : microseconds) times[name] = rounded(time);
  nlohmann::json line{{"collective", plan::toString(request.collective)},
                      {"block_bytes", request.blockBytes()},
                      {"windows", windows},
                      {"ranks", topology.ranks},
                      {"cores", topology.cores},
                      {"hosts", topology.hostOf},
                      {"slot_bytes", topology.slotBytes},
                      {"channels", topology.channels},
                      {"microseconds", times},
                      {"ratio", rounded(verdict.ratio)},
                      {"ratio_low", rounded(verdict.leastRatio)}};
  if (!windows) line["asking"] = rounded(asking);
  if (topology.attached) line["attached"] = true;
  return jsonLine(line);
}

std::vector<Verdict> readRecord(std::istream& lines, const std::string& where) {
  std::vector<Verdict> all;
  readJsonLines(lines, where,
                [&](const nlohmann::json& object) { all.push_back(verdictOf(object)); });
  return all;
}

}  // namespace tutti::tools
