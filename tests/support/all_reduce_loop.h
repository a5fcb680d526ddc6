#pragma once

// Ranks that reduce without end, until something goes wrong with one of them.

#include <cstdint>
#include <string>

#include "tests/support/rank_processes.h"

namespace tutti::tests {

/// Of the machine's steady clock, which is one for all processes.
int64_t nowMs();

/// Says "ended", when, the code and the text.
void sayEnded(const RankProcesses::Context& context, ErrorCode code, const std::string& text);

/// A rank's body: joins with `options`, says "joined", calls AllReduce, says "reduces", and calls
/// it until it fails; says so by sayEnded(). Where it shall go on, it shrinks the communicator and
/// says "goes on with N" ranks.
int loopAllReduce(const RankProcesses::Context& context, bool goOn,
                  CommunicatorOptions options = {});

/// The nowMs() of sayEnded() of a rank that has said `output`; INT64_MAX when it has not.
int64_t endOfLoop(const std::string& output);

}  // namespace tutti::tests
