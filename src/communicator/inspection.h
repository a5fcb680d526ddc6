#pragma once

// What the tools and the NCCL door want to know of a communicator, or to make of it.

#include <optional>

#include <tutti/communicator.h>

#include "src/plan/plan.h"
#include "src/topology/topology.h"

namespace tutti::collectives {
class AlgorithmFile;
}

namespace tutti::communicator {

struct Inspection {
  static const topology::Topology& topology(const Communicator& c);
  static const topology::Tuning& tuning(const Communicator& c);
  static const collectives::AlgorithmFile* algorithmFile(const Communicator& c);  ///< or null
  /// The same on all its ranks, and hardly for another communicator.
  static uint64_t identity(const Communicator& c);
  /// What came through channels in the last collective on host memory. After it.
  static uint64_t bytesReceived(const Communicator& c);
  /// How many collectives have run short to their end (host/short_calls.h).
  static uint64_t shortRuns(const Communicator& c);
  /// What ran last of the collectives on the memory of the communicator's device; null before the
  /// first. After it, and before anything else is asked of the communicator.
  static const plan::PlanSpec* lastSpec(const Communicator& c);
  /// Whether nothing that was launched on its GPU touches anything any more: it has ended, or is
  /// not to begin, as this communicator failed some time ago; and that its streams have come to
  /// their ends, or have had some time for it. Of a failed one no one-sided call writes any more
  /// either. To be asked again and again.
  static bool gpuHasLeftStreams(const Communicator& c);
  /// The size of the largest blocks of consecutive ranks, all alike, in which ranks address each
  /// other's windows where the memory allows it: ranks of one host.
  static int addressableRanks(const Communicator& c);
  /// Of one that has failed: whether a call of this rank was ended or refused for that.
  static bool hasFailedCalls(const Communicator& c);
  /// split() of one that all its ranks have aborted.
  static std::optional<Communicator> splitAborted(Communicator& c, int color, int key);
};

}  // namespace tutti::communicator
