#define XXH_INLINE_ALL
#include "src/plan/json.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/base/strict_json.h"

namespace tutti::plan {
namespace {

// Objects keep their fields in the order in which they are written.
using Written = nlohmann::ordered_json;
using Read = nlohmann::json;

constexpr int kVersion = 1;
constexpr std::array<const char*, 3> kKinds{"local", "mapped", "channel"};
constexpr std::array<const char*, 3> kFolds{"none", "listed", "canonical"};

Written jsonOf(const PlanSpec& s) {
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
          {"uneven_safe", s.unevenSafe},
          {"canonical_order", s.canonicalOrder},
          {"hash", s.hash()}};
}

Written jsonOf(const Port& port) {
  Written json{{"kind", kKinds[static_cast<size_t>(port.kind)]}};
  if (port.kind != Port::Kind::Local) json["rank"] = port.rank;
  if (port.kind != Port::Kind::Channel) json["buffer"] = toString(port.buffer);
  json["chunk"] = port.chunk;
  json["chunks"] = port.chunks;
  return json;
}

Written jsonOf(const std::vector<Port>& ports) {
  Written json = Written::array();
  for (const Port& port : ports) json.push_back(jsonOf(port));
  return json;
}

Written jsonOf(const Step& step) {
  Written after = Written::array();
  for (const Dependency& d : step.after) after.push_back({{"lane", d.lane}, {"step", d.step}});
  return {{"sources", jsonOf(step.sources)},
          {"targets", jsonOf(step.targets)},
          {"fold", kFolds[static_cast<size_t>(step.fold)]},
          {"completes", step.completes},
          {"after", std::move(after)}};
}

Written jsonOf(std::span<const Program> programs) {
  Written all = Written::array();
  for (const Program& program : programs) {
    Written lanes = Written::array();
    for (const Lane& lane : program.lanes) {
      Written steps = Written::array();
      for (const Step& step : lane.steps) steps.push_back(jsonOf(step));
      lanes.push_back({{"channel", lane.channel}, {"steps", std::move(steps)}});
    }
    all.push_back({{"lanes", std::move(lanes)}});
  }
  return all;
}

/// What somebody wrote in the place of something else, in a few words.
std::string shown(const Read& json) {
  constexpr size_t kLongest = 40;
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  if (json.is_string())
    return '"' + base::printable(json.get_ref<const std::string&>().substr(0, kLongest)) + '"';
  return json.dump();
}

/// A value of the file, which knows where it stands. On the stack, below the one that it is in.
class Value {
 public:
  Value(const std::string& file, const Read& json) : file_(file), json_(json) {}

  template <class... Words>
  [[noreturn]] void refuse(const Words&... words) const {
    base::fail(ErrorCode::InvalidArgument, file_, ": ", place(), words...);
  }

  uint64_t whole(uint64_t least, uint64_t most) const {
    if (!json_.is_number_unsigned() || json_.get<uint64_t>() < least ||
        json_.get<uint64_t>() > most)
      refuse(" is ", shown(json_), ", not a whole number from ", least, " to ", most);
    return json_.get<uint64_t>();
  }
  int integer(int least, int most) const {
    return static_cast<int>(whole(static_cast<uint64_t>(least), static_cast<uint64_t>(most)));
  }
  uint32_t chunks(uint32_t least) const {
    return static_cast<uint32_t>(whole(least, kMostChunksRead));
  }
  bool flag() const {
    if (!json_.is_boolean()) refuse(" is ", shown(json_), ", not true or false");
    return json_.get<bool>();
  }
  /// One of the names of the first `count` values of an enumeration.
  template <class T>
  T named(size_t count, const char* (*nameOf)(T)) const {
    const auto* const word = json_.get_ptr<const std::string*>();
    std::string all;
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<T>(i);
      if (word && *word == nameOf(value)) return value;
      all += base::message(i == 0 ? "" : ", ", nameOf(value));
    }
    refuse(" is ", shown(json_), ", none of ", all);
  }

  /// What `make` makes of each item of a list of at most `most`.
  template <class Make>
  auto list(size_t most, const Make& make) const {
    if (!json_.is_array()) refuse(" is ", shown(json_), ", not a list");
    if (json_.size() > most)
      refuse(" has ", json_.size(), " items, and ", most, " are possible at most");
    std::vector<decltype(make(*this))> made;
    made.reserve(json_.size());
    for (size_t i = 0; i < json_.size(); ++i) made.push_back(make(Value(*this, {}, i, json_[i])));
    return made;
  }

 private:
  friend class Fields;
  Value(const Value& in, std::string_view key, size_t index, const Read& json)
      : file_(in.file_), json_(json), in_(&in), key_(key), index_(index) {}

  std::string place() const {
    if (!in_) return "the plan";
    const std::string before = in_->in_ ? in_->place() : "";
    if (key_.empty()) return base::message(before, '[', index_, ']');
    return before + (before.empty() ? "" : ".") + std::string(key_);
  }

  const std::string& file_;
  const Read& json_;
  const Value* in_ = nullptr;
  std::string_view key_ = {};
  size_t index_ = 0;
};

/// An object, whose fields are taken one after the other.
class Fields {
 public:
  explicit Fields(const Value& object) : object_(object) {
    if (!object.json_.is_object()) object.refuse(" is ", shown(object.json_), ", not an object");
  }

  Value take(const char* key) {
    taken_.push_back(key);
    const auto found = object_.json_.find(key);
    if (found == object_.json_.end()) object_.refuse(" has no field \"", key, '"');
    return {object_, key, 0, *found};
  }
  /// It may be there; it is not read.
  void pass(const char* key) {
    if (object_.json_.contains(key)) taken_.push_back(key);
  }
  /// There is nothing else.
  void finish() const {
    if (object_.json_.size() == taken_.size()) return;
    std::string all;
    for (const std::string_view key : taken_) all += (all.empty() ? "" : ", ") + std::string(key);
    for (const auto& [key, value] : object_.json_.items())
      if (std::ranges::find(taken_, key) == taken_.end())
        object_.refuse(" has a field \"", base::printable(key.substr(0, 40)),
                       "\", and should have these alone: ", all);
  }

 private:
  const Value& object_;
  std::vector<std::string_view> taken_;
};

const char* nameOf(Port::Kind kind) { return kKinds[static_cast<size_t>(kind)]; }
const char* nameOf(Fold fold) { return kFolds[static_cast<size_t>(fold)]; }

AccessSet accessOf(const Value& value) {
  Fields fields(value);
  const AccessSet access{.in = fields.take("in").flag(), .out = fields.take("out").flag()};
  fields.finish();
  return access;
}

PlanSpec specOf(const Value& value) {
  Fields fields(value);
  PlanSpec s;
  s.collective = fields.take("collective").named<Collective>(kCollectiveCount, toString);
  s.algorithm = fields.take("algorithm").named<Algorithm>(kAlgorithmCount + 1, toString);
  s.protocol = fields.take("protocol").named<Protocol>(3, toString);
  s.ranks = fields.take("ranks").integer(1, kMostRanksRead);
  s.root = fields.take("root").integer(0, s.ranks - 1);
  s.hosts = fields.take("hosts").list(static_cast<size_t>(s.ranks), [&](const Value& host) {
    return host.integer(0, s.ranks - 1);
  });
  s.channels = fields.take("channels").integer(1, kMostChannelsRead);
  s.divisions = fields.take("divisions").chunks(1);
  s.scratchBlocks = fields.take("scratch_blocks").chunks(0);
  s.messageChunks = fields.take("message_chunks").chunks(0);
  s.minSlots = fields.take("min_slots").integer(1, kMostSlotsRead);
  s.mapped = accessOf(fields.take("mapped"));
  s.inPlaceSafe = fields.take("in_place_safe").flag();
  s.unevenSafe = fields.take("uneven_safe").flag();
  s.canonicalOrder = fields.take("canonical_order").flag();
  fields.pass("hash");
  fields.finish();
  return s;
}

Port portOf(const Value& value, int ranks) {
  Fields fields(value);
  Port port;
  port.kind = fields.take("kind").named<Port::Kind>(kKinds.size(), nameOf);
  if (port.kind != Port::Kind::Local) port.rank = fields.take("rank").integer(0, ranks - 1);
  if (port.kind != Port::Kind::Channel)
    port.buffer = fields.take("buffer").named<Buffer>(3, toString);
  port.chunk = fields.take("chunk").chunks(0);
  port.chunks = fields.take("chunks").chunks(port.kind == Port::Kind::Channel ? 0 : 1);
  fields.finish();
  return port;
}

Dependency dependencyOf(const Value& value) {
  Fields fields(value);
  const Dependency d{.lane = static_cast<uint32_t>(fields.take("lane").whole(0, UINT32_MAX)),
                     .step = static_cast<uint32_t>(fields.take("step").whole(0, UINT32_MAX))};
  fields.finish();
  return d;
}

Step stepOf(const Value& value, int ranks) {
  Fields fields(value);
  const auto port = [ranks](const Value& of) { return portOf(of, ranks); };
  Step step{.sources = fields.take("sources").list(kMostPortsRead, port),
            .targets = fields.take("targets").list(kMostPortsRead, port),
            .fold = fields.take("fold").named<Fold>(kFolds.size(), nameOf),
            .completes = fields.take("completes").flag(),
            .after = fields.take("after").list(kMostPortsRead, dependencyOf)};
  fields.finish();
  return step;
}

Lane laneOf(const Value& value, const PlanSpec& spec) {
  Fields fields(value);
  Lane lane{.channel = fields.take("channel").integer(0, spec.channels - 1),
            .steps = fields.take("steps").list(
                SIZE_MAX, [&](const Value& step) { return stepOf(step, spec.ranks); })};
  fields.finish();
  return lane;
}

Program programOf(const Value& value, const PlanSpec& spec) {
  Fields fields(value);
  Program program{.lanes = fields.take("lanes").list(
                      kMostLanesRead, [&](const Value& lane) { return laneOf(lane, spec); })};
  fields.finish();
  return program;
}

}  // namespace

std::string toJson(const PlanSpec& spec, std::span<const Program> programs) {
  return Written{{"version", kVersion}, {"spec", jsonOf(spec)}, {"programs", jsonOf(programs)}}
      .dump();
}

WholePlan parsePlan(const std::string& file, const std::string& text) {
  const Read json = base::parseStrictly(file, text);
  const Value all(file, json);
  Fields fields(all);
  fields.take("version").whole(kVersion, kVersion);
  WholePlan plan{.spec = specOf(fields.take("spec")), .programs = {}};
  const Value programs = fields.take("programs");
  plan.programs = programs.list(
      kMostRanksRead, [&](const Value& program) { return programOf(program, plan.spec); });
  if (plan.programs.size() != static_cast<size_t>(plan.spec.ranks))
    programs.refuse(" has ", plan.programs.size(), " items, and spec.ranks is ", plan.spec.ranks);
  fields.finish();
  return plan;
}

uint64_t hashOf(std::span<const Program> programs) {
  const std::string text = jsonOf(programs).dump();
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace tutti::plan
