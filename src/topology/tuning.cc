#include "src/topology/tuning.h"

#include <array>
#include <bit>
#include <cmath>

#include "src/base/check.h"

namespace tutti::topology {
namespace {

constexpr uint32_t kTuningVersion = 9;
constexpr size_t kMostNameBytes = 32;
constexpr int kMostRanks = 1 << 24;

constexpr std::array kConstants{
    Constant{"messageMicroseconds", &Tuning::messageMicroseconds, 0, 1e6},
    Constant{"callMicroseconds", &Tuning::callMicroseconds, 0, 1e6},
    Constant{"stepMicroseconds", &Tuning::stepMicroseconds, 0, 1e6},
    Constant{"copyGigabytesPerSecond", &Tuning::copyGigabytesPerSecond, 1e-6, 1e6},
    Constant{"reduceGigabytesPerSecond", &Tuning::reduceGigabytesPerSecond, 1e-6, 1e6},
    Constant{"mappedGigabytesPerSecond", &Tuning::mappedGigabytesPerSecond, 1e-6, 1e6},
    Constant{"attachMicroseconds", &Tuning::attachMicroseconds, 0, 1e6},
    Constant{"attachGigabytesPerSecond", &Tuning::attachGigabytesPerSecond, 1e-6, 1e6},
    Constant{"entryMicroseconds", &Tuning::entryMicroseconds, 0, 1e6},
    Constant{"yieldMicroseconds", &Tuning::yieldMicroseconds, 0, 1e6},
    Constant{"networkMicroseconds", &Tuning::networkMicroseconds, 0, 1e6},
    Constant{"networkGapMicroseconds", &Tuning::networkGapMicroseconds, 0, 1e6},
    Constant{"networkGigabytesPerSecond", &Tuning::networkGigabytesPerSecond, 1e-6, 1e6},
};

/// As collectives and algorithms are called. Which there are knows who chooses.
bool isName(const std::string& text) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_/";
  return !text.empty() && text.size() <= kMostNameBytes &&
         text.find_first_not_of(kLetters) == std::string::npos;
}

}  // namespace

std::span<const Constant> constants() { return kConstants; }

bool Constant::allows(double number) const {
  return std::isfinite(number) && number >= least && number <= most;
}

bool Preference::isPossible() const {
  return isName(collective) && isName(algorithm) && ranks >= 2 && ranks <= kMostRanks &&
         hosts >= 1 && hosts <= ranks && blockBytes >= 8 && std::has_single_bit(blockBytes);
}

base::Bytes Tuning::serialize() const {
  base::ByteWriter writer;
  writer.put(kTuningVersion);
  for (const Constant& constant : kConstants)
    writer.put(std::bit_cast<uint64_t>(this->*constant.value));
  writer.put(static_cast<uint32_t>(preferences.size()));
  for (const Preference& p : preferences)
    writer.put(p.collective).put(p.ranks).put(p.hosts).put(p.blockBytes).put(p.algorithm);
  return writer.take();
}

Tuning Tuning::deserialize(const base::Bytes& bytes) {
  base::ByteReader reader(bytes);
  const auto version = reader.get<uint32_t>("tuning version");
  if (version != kTuningVersion)
    base::fail(ErrorCode::Refused, "tuning table of version ", version, ", not ", kTuningVersion);
  Tuning tuning;
  for (const Constant& constant : kConstants) {
    const auto value = std::bit_cast<double>(reader.get<uint64_t>(constant.name));
    if (!constant.allows(value))
      base::fail(ErrorCode::Refused, "tuning table: ", constant.name, " is ", value,
                 ", not between ", constant.least, " and ", constant.most);
    tuning.*constant.value = value;
  }
  const auto count = reader.get<uint32_t>("number of preferences");
  if (count > kMostPreferences)
    base::fail(ErrorCode::Refused, "tuning table with ", count, " preferences, more than ",
               kMostPreferences);
  for (uint32_t i = 0; i < count; ++i) {
    Preference p;
    p.collective = reader.getString("preferred for", kMostNameBytes);
    p.ranks = reader.get<int>("preferred for ranks");
    p.hosts = reader.get<int>("preferred for hosts");
    p.blockBytes = reader.get<uint64_t>("preferred for bytes");
    p.algorithm = reader.getString("preferred", kMostNameBytes);
    if (!p.isPossible())
      base::fail(ErrorCode::Refused, "tuning table: preference ", i, " cannot be");
    tuning.preferences.push_back(std::move(p));
  }
  reader.requireEnd();
  return tuning;
}

}  // namespace tutti::topology
