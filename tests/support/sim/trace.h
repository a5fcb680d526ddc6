#pragma once

// What happened on the simulated wire: a hash of everything, so that two runs can be compared, and
// the last events in words, for messages.

#include <array>
#include <cstdint>
#include <string>

namespace tutti::transports::sim {

enum class Happening : uint8_t { Send, Resend, Lose, Duplicate, Delay, Arrive, Vanish, Die };
enum class PacketKind : uint8_t { Data, Ack, Credit, CreditAck };

struct TraceEvent {
  int64_t atNs;
  Happening what;
  PacketKind kind;
  int from, to, channel;
  uint32_t number;
};

class SimTrace {
 public:
  void add(const TraceEvent& event);
  /// Of all events, in order.
  uint64_t hash() const { return hash_; }
  uint64_t count(Happening what) const { return counts_[static_cast<size_t>(what)]; }
  /// Counts, and the last events one a line.
  std::string describe() const;

 private:
  static constexpr size_t kKept = 32;
  std::array<TraceEvent, kKept> last_{};
  std::array<uint64_t, 8> counts_{};
  uint64_t total_ = 0;
  uint64_t hash_ = 0;
};

}  // namespace tutti::transports::sim
