#include "src/tools/plan/json.h"

#include <nlohmann/json.hpp>

namespace tutti::plan {
namespace {

using Json = nlohmann::ordered_json;

Json jsonOf(const PlanSpec& s) {
  return {{"collective", toString(s.collective)},
          {"algorithm", toString(s.algorithm)},
          {"protocol", toString(s.protocol)},
          {"ranks", s.ranks},
          {"root", s.root},
          {"hosts", s.hosts},
          {"channels", s.channels},
          {"divisions", s.divisions},
          {"scratch_blocks", s.scratchBlocks},
          {"message_chunks", s.messageChunks},
          {"min_slots", s.minSlots},
          {"mapped", {{"in", s.mapped.in}, {"out", s.mapped.out}}},
          {"in_place_safe", s.inPlaceSafe},
          {"canonical_order", s.canonicalOrder},
          {"hash", s.hash()}};
}

Json jsonOf(const Port& port) {
  Json json;
  switch (port.kind) {
    case Port::Kind::Local: json = {{"kind", "local"}}; break;
    case Port::Kind::Mapped: json = {{"kind", "mapped"}, {"rank", port.rank}}; break;
    case Port::Kind::Channel: json = {{"kind", "channel"}, {"rank", port.rank}}; break;
  }
  if (port.kind != Port::Kind::Channel) json["buffer"] = toString(port.buffer);
  json["chunk"] = port.chunk;
  json["chunks"] = port.chunks;
  return json;
}

Json jsonOf(const std::vector<Port>& ports) {
  Json json = Json::array();
  for (const Port& port : ports) json.push_back(jsonOf(port));
  return json;
}

Json jsonOf(const Step& step) {
  static constexpr const char* kFolds[] = {"none", "listed", "canonical"};
  Json after = Json::array();
  for (const Dependency& d : step.after) after.push_back({{"lane", d.lane}, {"step", d.step}});
  return {{"sources", jsonOf(step.sources)},
          {"targets", jsonOf(step.targets)},
          {"fold", kFolds[static_cast<size_t>(step.fold)]},
          {"completes", step.completes},
          {"after", std::move(after)}};
}

Json jsonOf(const Program& program) {
  Json lanes = Json::array();
  for (const Lane& lane : program.lanes) {
    Json steps = Json::array();
    for (const Step& step : lane.steps) steps.push_back(jsonOf(step));
    lanes.push_back({{"channel", lane.channel}, {"steps", std::move(steps)}});
  }
  return {{"lanes", std::move(lanes)}};
}

}  // namespace

std::string toJson(const PlanSpec& spec, std::span<const Program> programs) {
  Json all = Json::array();
  for (const Program& program : programs) all.push_back(jsonOf(program));
  return Json{{"spec", jsonOf(spec)}, {"programs", std::move(all)}}.dump();
}

}  // namespace tutti::plan
