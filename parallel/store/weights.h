#pragma once

// Weights: the master copy that the optimizer updates, which may be this rank's rows only, and what
// modules compute with, which is made from all ranks' masters when a unit is asked for.
//
// The next unit in the order of the pass is gathered ahead, on the store's stream, while modules
// compute with this one:
//
//   forward      |unit 0      |unit 1      |unit 2
//   stream   |0  |1    |       |2    |      |3    |
//
// A gathered unit is put in order from a staging buffer, of which there are two: one that is being
// unpacked and one that the next AllGather fills.

#include <array>
#include <vector>

#include <tutti/device.h>
#include "parallel/kernels/kernels.h"
#include "parallel/store/buffer_pool.h"
#include "parallel/store/counters.h"
#include "parallel/store/cut.h"

namespace tutti::parallel {

/// What a unit's weights are needed for: a pass, or to compare replicas, unit by unit as in
/// forward.
enum class Phase { Forward, Backward, Comparison };

class Weights {
 public:
  /// `cut` and the others must outlive it. Collective: staging is memory of the mesh.
  Weights(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy, const StoreTypes& types,
          const Cut& cut, Stream& stream, StoreCounters& counters);

  /// First values; none in a dry run.
  void fill(uint64_t seed);

  void acquire(int unit, Phase phase);
  void release(int unit, Phase phase);
  /// What modules compute with. Throws Internal unless the unit is acquired, or its weights need
  /// not be gathered.
  Tensor full(const Piece& piece) const;
  /// This rank's rows, of piece.box.
  Tensor master(const Piece& piece) const;
  /// Where what modules compute with is kept, of another type than the masters: who changes these
  /// may write it, too. No data where the two are one, and where ranks gather it.
  Tensor kept(const Piece& piece) const;
  /// The masters are other values now: what was gathered is no longer true; nor what is kept,
  /// unless that was written, too.
  void changed(bool isKeptWritten = false);

  /// The masters lie in page-locked memory, and the rest on a GPU.
  bool mastersAway() const { return !mastersWithin() && masters_.backing().pinned; }

  size_t masterBytes() const { return masters_.usedBytes(); }
  size_t keptBytes() const { return kept_.usedBytes(); }
  /// The most that were gathered at one time.
  size_t gatheredBytes() const { return gathered_.heldBytes(); }
  size_t stagingBytes() const;

 private:
  struct Unit {
    Tensor full;     // flat; no data while it is given back
    Tensor masters;  // one block
    int slot = -1;   // of the staging, while gathered and not unpacked
    int held = 0;    // acquired and not released
    int backwards = 0;
    bool current = false;  // `full` has the masters' values
  };
  struct Slot {
    explicit Slot(Device device) : gathered(device) {}
    Memory memory;
    Event gathered;
    bool taken = false;
  };

  /// The masters are rows of `full` itself.
  bool mastersWithin() const { return !policy_.parameters && types_.weights == types_.master; }
  bool keepsCopies() const { return cut_.shards == 1 && !mastersWithin(); }
  Tensor inFull(const Piece& piece) const;
  Unit& unit(int id);
  void makeCurrent(int id, Phase phase);
  bool startGather(int id, Phase phase);
  void unpack(int id);
  void discard(Unit& unit);
  void giveBack(Unit& unit);

  DeviceMesh& mesh_;
  Kernels& kernels_;
  const ShardPolicy policy_;
  const StoreTypes types_;
  const Cut& cut_;
  Stream& stream_;
  StoreCounters& counters_;
  Arena masters_, kept_;
  BufferPool gathered_;
  std::vector<Unit> units_;
  std::array<Slot, 2> slots_;
  Event enqueued_;
};

}  // namespace tutti::parallel
