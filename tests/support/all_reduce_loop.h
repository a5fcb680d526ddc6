#pragma once

// Ranks that reduce without end, until something goes wrong with one of them.

#include <cstdint>
#include <string>

#include "tests/support/rank_processes.h"

namespace tutti::tests {

/// Of the machine's steady clock, which is one for all processes.
int64_t nowMs();

/// A rank's body: joins with `options`, says "joined", calls AllReduce, says "reduces", and calls
/// it until it fails; says "ended", when, the code and what the error said. Where it shall go on,
/// it shrinks the communicator and says "goes on with N" ranks.
int loopAllReduce(const RankProcesses::Context& context, bool goOn,
                  CommunicatorOptions options = {});

/// The nowMs() at which a rank's loop ended that has said `output`; INT64_MAX when it has not.
int64_t endOfLoop(const std::string& output);

}  // namespace tutti::tests
