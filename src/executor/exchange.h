#pragma once

// Sends and receives of one rank as a value. All executors take it. All transfers are under way at
// the same time. Between two ranks they match in order, type and bytes; a transfer from a rank to
// itself matches within the exchange.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tutti/types.h>

namespace tutti::executor {

struct Transfer {
  int peer = 0;
  std::byte* data = nullptr;  ///< only read when it is sent
  uint64_t bytes = 0;         ///< up to kMostTransferBytes
  DataType type = DataType::UInt8;

  /// The same at both ends: its type and number of elements, and how it is cut.
  uint64_t key(uint32_t slices = 0) const;
};

/// Ranks agree about each pair's transfers only.
struct ExchangeFacts {
  uint64_t sends = 0, receives = 0;
  uint64_t bytesSent = 0, bytesReceived = 0;
  bool operator==(const ExchangeFacts&) const = default;
  std::string describe() const;  ///< "2 sends of 80 bytes and 1 receive of 40 bytes"
};

ExchangeFacts factsOf(std::span<const Transfer> sends, std::span<const Transfer> receives);

struct Exchange {
  std::vector<Transfer> sends, receives;  ///< to and from one peer in order

  ExchangeFacts facts() const { return factsOf(sends, receives); }
};

/// Throws InvalidUsage when the transfers of `rank` to and from itself do not match in order, type
/// and bytes.
void requireSelfMatches(const Exchange& exchange, int rank);
/// Throws InvalidArgument when memory that is received into is received into or sent by another
/// transfer too.
void requireDisjoint(const Exchange& exchange, int rank);

}  // namespace tutti::executor
