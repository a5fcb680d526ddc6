#include "tests/support/sim/trace.h"

#include <algorithm>

#include "src/base/check.h"
#include "tests/support/sim/random.h"

namespace tutti::transports::sim {
namespace {

constexpr const char* kHappenings[] = {"send",  "resend", "lose",   "duplicate",
                                       "delay", "arrive", "vanish", "die"};
constexpr const char* kKinds[] = {"data", "ack", "credit", "credit-ack"};

}  // namespace

void SimTrace::add(const TraceEvent& e) {
  const auto mix = [&](uint64_t value) { hash_ = SimRandom(hash_ ^ value).next(); };
  mix(static_cast<uint64_t>(e.atNs));
  mix(static_cast<uint64_t>(e.what) << 40 | static_cast<uint64_t>(e.kind) << 32 | e.number);
  mix(static_cast<uint64_t>(e.from) << 40 | static_cast<uint64_t>(e.to) << 16 |
      static_cast<uint64_t>(e.channel));
  ++counts_[static_cast<size_t>(e.what)];
  last_[total_++ % kKept] = e;
}

std::string SimTrace::describe() const {
  std::string text;
  for (size_t i = 0; i < counts_.size(); ++i)
    text += base::message(kHappenings[i], " ", counts_[i], i + 1 < counts_.size() ? ", " : "\n");
  for (uint64_t i = total_ - std::min<uint64_t>(total_, kKept); i < total_; ++i) {
    const TraceEvent& e = last_[i % kKept];
    text += base::message("  ", e.atNs, " ns: ", kHappenings[static_cast<size_t>(e.what)], " ",
                          kKinds[static_cast<size_t>(e.kind)], " ", e.number, ", ring ", e.from,
                          " -> ", e.to, " channel ", e.channel, "\n");
  }
  return text;
}

}  // namespace tutti::transports::sim
