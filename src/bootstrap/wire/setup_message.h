#pragma once

// What a rank and the rendezvous say to each other, and its bytes.

#include <chrono>
#include <variant>

#include "src/bootstrap/host_facts.h"
#include "src/bootstrap/ticket.h"
#include "src/wire/address.h"

namespace tutti::bootstrap {

/// A rank is there, and this is where the others reach it.
struct Arrival {
  PeerInfo info;
  wire::Address listening;                 ///< for ranks of its host
  std::optional<wire::Address> network{};  ///< of info.interface, for those of other hosts; else
                                           ///< they cannot
  Ticket ticket = {};                      ///< for the rendezvous alone: none in a table
};
/// Rendezvous: all ranks, by rank.
struct Table {
  std::vector<Arrival> ranks;
};
/// Rendezvous: who is still missing, for the message of a timeout. When that changes, and every so
/// often: its process runs.
struct SetupProgress {
  static constexpr std::chrono::milliseconds kEvery{1000};
  std::string text;
};
/// Rank: it is connected to all others.
struct Connected {};
/// Rendezvous: all are.
struct Complete {};
/// Either: set-up cannot succeed any more.
struct Failure {
  ErrorCode code = ErrorCode::Internal;
  std::string text;
};

using SetupMessage = std::variant<Arrival, Table, SetupProgress, Connected, Complete, Failure>;

inline constexpr size_t kMaxArrivalBytes = 4096;            ///< of what a rank sends
inline constexpr size_t kMaxTableBytes = size_t{16} << 20;  ///< of what the rendezvous sends

base::Bytes encode(const SetupMessage& message);
/// Throws Refused naming the field that is malformed.
SetupMessage decodeSetupMessage(std::span<const std::byte> bytes);

}  // namespace tutti::bootstrap
