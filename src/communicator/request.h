#pragma once

// A call as the chooser sees it, on the host and on GPUs: its blocks' size rounded up to a power of
// two, so that few choices are kept.

#include <string>
#include <vector>

#include "src/executor/call.h"
#include "src/plan/request.h"

namespace tutti::communicator {

using executor::CallFacts;

/// The same for calls that have the same choice.
uint64_t choiceKey(const CallFacts& facts, int ranks);

/// What to choose for; `mappable` is the caller's to say. Where the forced algorithm does not exist
/// for the call, the choice is free; but not for a barrier, by which unknown names are refused.
plan::CollectiveRequest requestOf(const CallFacts& facts, int ranks, bool deterministic,
                                  const std::string& algorithm, const std::vector<int>& hostOf);

}  // namespace tutti::communicator
