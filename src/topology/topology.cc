#include "src/topology/topology.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace tutti::topology {
namespace {

constexpr uint32_t kTuningVersion = 2;

struct Field {
  const char* name;
  double Tuning::*value;
  double least, most;  // what a machine can plausibly have; the table may come from a peer
};
constexpr std::array kFields{
    Field{"messageMicroseconds", &Tuning::messageMicroseconds, 0, 1e6},
    Field{"stepMicroseconds", &Tuning::stepMicroseconds, 0, 1e6},
    Field{"copyGigabytesPerSecond", &Tuning::copyGigabytesPerSecond, 1e-6, 1e6},
    Field{"reduceGigabytesPerSecond", &Tuning::reduceGigabytesPerSecond, 1e-6, 1e6},
    Field{"mappedGigabytesPerSecond", &Tuning::mappedGigabytesPerSecond, 1e-6, 1e6},
    Field{"entryMicroseconds", &Tuning::entryMicroseconds, 0, 1e6},
    Field{"yieldMicroseconds", &Tuning::yieldMicroseconds, 0, 1e6},
    Field{"mappedFromBytes", &Tuning::mappedFromBytes, 0, 1e18},
    Field{"networkMicroseconds", &Tuning::networkMicroseconds, 0, 1e6},
    Field{"networkGigabytesPerSecond", &Tuning::networkGigabytesPerSecond, 1e-6, 1e6},
};

}  // namespace

base::Bytes Tuning::serialize() const {
  base::ByteWriter writer;
  writer.put(kTuningVersion);
  for (const Field& field : kFields) writer.put(std::bit_cast<uint64_t>(this->*field.value));
  return writer.take();
}

Tuning Tuning::deserialize(const base::Bytes& bytes) {
  base::ByteReader reader(bytes);
  const auto version = reader.get<uint32_t>("tuning version");
  if (version != kTuningVersion)
    base::fail(ErrorCode::Refused, "tuning table of version ", version, ", not ", kTuningVersion);
  Tuning tuning;
  for (const Field& field : kFields) {
    const auto value = std::bit_cast<double>(reader.get<uint64_t>(field.name));
    if (!std::isfinite(value) || value < field.least || value > field.most)
      base::fail(ErrorCode::Refused, "tuning table: ", field.name, " is ", value, ", not between ",
                 field.least, " and ", field.most);
    tuning.*field.value = value;
  }
  reader.requireEnd();
  return tuning;
}

int Topology::hosts() const { return hostOf.empty() ? 1 : 1 + std::ranges::max(hostOf); }

int Topology::ranksPerHost() const {
  if (hostOf.empty()) return ranks;
  std::vector<int> count(static_cast<size_t>(hosts()), 0);
  for (int host : hostOf) ++count[static_cast<size_t>(host)];
  return std::ranges::max(count);
}

std::string Topology::describe() const {
  std::string text = base::message(ranks, ranks == 1 ? " rank on " : " ranks on ", hosts(),
                                   hosts() == 1 ? " host, " : " hosts, ", cores,
                                   cores == 1 ? " core" : " cores", hosts() == 1 ? "" : " each");
  text += base::message(", slots of ", slotBytes, " bytes");
  if (hosts() > 1) text += base::message(" in ", channels, " channels");
  if (oversubscribed()) text += ", oversubscribed";
  if (hosts() == 1) return text;
  for (size_t rank = 0; rank < hostOf.size(); ++rank)
    text += base::message(rank == 0 ? "; host of each rank: " : " ", hostOf[rank]);
  return text;
}

}  // namespace tutti::topology
