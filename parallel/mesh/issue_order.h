#pragma once

// The order in which ranks issue their collectives, over all communicators. A device that performs
// what it is given in that order, as one stream of a GPU does, waits in each call for the others
// that take part: ranks that issue calls of two communicators in another order than their
// neighbours would wait for each other for ever. A run without data (dry/dry_run.h) lists the calls
// of every rank of a job, and unfinishedOrder() says whether these come to an end.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/mesh/purpose.h"
#include "parallel/sharding/mesh_shape.h"

namespace tutti::parallel {

/// One end of a message of an exchange; `peer` is a rank in the communicator.
struct IssuedMessage {
  int peer = 0;
  bool sends = false;
  bool operator==(const IssuedMessage&) const = default;
};

/// A call as its rank issued it.
struct IssuedCall {
  AxisSet axes;       ///< of the ranks of its communicator
  Purpose purpose{};  ///< of an exchange the first message's
  PurposeForm form = PurposeForm::Exchange;
  std::vector<IssuedMessage> messages;  ///< of an exchange; they match in order between two ranks
  bool operator==(const IssuedCall&) const = default;
};
using IssueOrder = std::vector<IssuedCall>;

/// Performs all ranks' calls, of which each rank has one under way at a time: a collective ends
/// when all its ranks have come to it, an exchange when all its messages' other ends have. Nothing
/// if all ranks come to their end; otherwise which rank waits in which call, and for whom.
std::optional<std::string> unfinishedOrder(const MeshShape& shape,
                                           std::span<const IssueOrder> byRank);

}  // namespace tutti::parallel
