#pragma once

// Processes of which the first form a communicator that grows by the others. Rank 0 makes the id,
// and the new ranks get it by a page of memory that all share.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <tutti/communicator.h>

#include "tests/support/outcome.h"
#include "tests/support/rank_processes.h"

namespace tutti::tests {

/// A place for an id, from before a fork on.
class SharedId {
 public:
  SharedId();
  ~SharedId();
  SharedId(const SharedId&) = delete;
  SharedId& operator=(const SharedId&) = delete;
  void publish(const UniqueId& id);
  /// Throws when nobody publishes one for 20 s.
  UniqueId await() const;
  /// That one more of those who wait for it has done with it.
  void finish();
  /// Until so many have, or a second has passed.
  void awaitFinished(int count) const;

 private:
  struct Page;
  Page* const page_;
};

struct GrowingRanks {
  int existing = 2;
  int size = 3;       ///< of the grown communicator
  int processes = 3;  ///< ranks are numbered so; those from `existing` on are new
  CommunicatorOptions options = {.setupTimeout = std::chrono::seconds(20),
                                 .timeout = std::chrono::seconds(20)};
  /// Gives a rank options of its own.
  std::function<void(int rank, CommunicatorOptions&)> adjust = {};
  /// What an existing rank does. `args` are what it should give grow().
  std::function<void(const RankProcesses::Context&, Communicator&, GrowArgs args)> old = growAndSay;
  /// What a new rank does with what it should give create().
  std::function<void(const RankProcesses::Context&, CommunicatorOptions options)> fresh =
      createAndSay;

  /// The first rank stays until the new ones are told, as it has the rendezvous.
  std::unique_ptr<RankProcesses> start(std::function<void(int rank)> prepare = {}) const;

  // Both say how it has ended: "grown, sum 6", or "CODE: TEXT". An existing rank says "usable" when
  // a sum over the communicator that was to grow is right afterwards.
  static void growAndSay(const RankProcesses::Context& context, Communicator& c,
                         const GrowArgs& args);
  static void createAndSay(const RankProcesses::Context& context,
                           const CommunicatorOptions& options);
};

/// Of each rank's number plus one.
int sumOfRanks(Communicator& c);
/// Says the code and the text of what `make` throws, else "grown, sum N".
void sayHow(const RankProcesses::Context& context, const std::function<Communicator()>& make);

}  // namespace tutti::tests
