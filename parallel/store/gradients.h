#pragma once

// Gradients: what modules write, added over micro-batches, ranks and rounds.
//
// Units go into buckets in the reverse of their order of declaration, which is the order in which
// backward finishes them; the first bucket is small, so that communication starts early. Where
// parameters are shared out, each unit is a bucket. As soon as the last micro-batch of a round has
// produced all gradients of a bucket, they are added over the ranks, on the store's stream, while
// backward goes on:
//
//   backward   |block 3|block 2|block 1|block 0|embed|
//   stream             |bucket 0   |bucket 1   |bucket 2|
//   host                                             |wait|clip|step|
//
// Where everything is replicated that is an AllReduce in place. Otherwise the rows of each rank are
// put together (see Cut), a ReduceScatter adds them, and where shards are replicated an AllReduce
// of the shard follows. Where full gradients are kept, in stage 1 of ZeRO, the sum lies in the
// place of what was added, which is overwritten next. Rounds are added in their order.
//
// Gradients that are partial over other axes too (Parameter::gradientPartial, and kTokenAxes) are
// added over these last, in one AllReduce for each set of axes and purpose, and then the two of
// tied parameters to each other: what a rank has of them by then is its rows only, and the
// data-parallel ranks' order of adding, which the deterministic mode keeps, is not mixed with
// another.

#include <array>
#include <map>
#include <utility>
#include <vector>

#include <tutti/device.h>
#include "parallel/kernels/kernels.h"
#include "parallel/store/buffer_pool.h"
#include "parallel/store/counters.h"
#include "parallel/store/cut.h"

namespace tutti::parallel {

/// Where a module writes a gradient: with beta 0 it overwrites, with beta 1 it adds.
struct GradientSlot {
  Tensor buffer;
  double beta = 0;
};

/// Two copies of one parameter, whose gradients are added, those of all ranks, to both.
struct Tie {
  int piece = -1;
  int copy = -1;      ///< the other piece, if it is here
  int rank = -1;      ///< along pp, that has it otherwise
  Tensor other = {};  ///< its gradient, when it was received
};

class Gradients {
 public:
  /// `cut` and the others must outlive it. Collective: what the ranks add is memory of the mesh.
  Gradients(DeviceMesh& mesh, Kernels& kernels, const ShardPolicy& policy, DType type,
            const Cut& cut, std::vector<Tie> ties, Stream& stream, StoreCounters& counters);

  /// `microBatches` in each of `rounds`, on this rank.
  void beginStep(int microBatches, int rounds);
  GradientSlot slot(const Piece& piece, int microBatch);
  /// All gradients of `unit` for this micro-batch are written. Ascending in `microBatch` per unit.
  /// `early`: backward goes on meanwhile.
  void unitDone(int unit, int microBatch, bool early);
  /// Waits until all are added.
  void finish();
  /// The sum: of the rows in piece.box. After finish().
  Tensor sum(const Piece& piece) const;

  /// They lie in page-locked memory, and the rest on a GPU.
  bool away() const { return elsewhere_ && totals_.backing().pinned; }

  size_t keptBytes() const { return kept_.usedBytes(); }
  /// The most that units had at one time.
  size_t borrowedBytes() const { return borrowed_.heldBytes(); }
  size_t shardBytes() const;
  size_t stagingBytes() const;

 private:
  struct Bucket {
    explicit Bucket(Device device) : done(device) {}
    int64_t full = 0, block = 0;  // elements
    int units = 0, unitsDone = 0;
    int round = -1;              // that is being written, or was written last
    std::vector<Tensor> levels;  // full buffers; none while they are given back
    Tensor reduced;      // over ranks: in this bucket's memory, or while it is borrowed in a buffer
    Memory memory;       // where full gradients are kept, also level 0
    Event done;          // with `reduced`
    Tensor total;        // of the rounds that were added
    bool added = false;  // this round was
  };
  struct Unit {
    int bucket = 0;
    int64_t full = 0, block = 0;  // where it begins in the bucket's
    int written = 0;              // micro-batches
  };
  struct Staging {
    explicit Staging(Device device) : sent(device) {}
    Memory memory;
    Event sent;
    Memory sums;           // where gradients lie elsewhere: what a ReduceScatter gives
    Bucket* of = nullptr;  // whose these are
  };

  /// What is partial over one set of axes, for one purpose.
  using PartialKind = std::pair<AxisSet, Purpose>;
  struct Partial {
    std::vector<int> pieces;
    Memory packed;
  };

  bool sharded() const { return cut_.shards > 1; }
  bool keepsFull() const { return !sharded() || !policy_.gradients; }
  void planBuckets();
  PartialKind partialKind(const Parameter& parameter) const;
  void planPartials();
  void planTies();
  Unit& unit(int id);
  void beginRound(Bucket& bucket, int round);
  void giveBack(Bucket& bucket);
  void addRound(Bucket& bucket);
  const Tensor& total(Bucket& bucket);
  void added(Bucket& bucket);
  void reduce(Bucket& bucket, bool early);
  void addPartials();
  void addTie(const Tie& tie);
  Tensor rowsOf(const Piece& piece) const;
  void scatter(Bucket& bucket);
  void fillBlocks(const Bucket& bucket, const Tensor& blocks);
  bool keepsTotals() const { return rounds_ > 1 || elsewhere_; }

  DeviceMesh& mesh_;
  Kernels& kernels_;
  const ShardPolicy policy_;
  const DType type_;
  const Cut& cut_;
  Stream& stream_;
  StoreCounters& counters_;
  Arena kept_;
  const bool elsewhere_;  // sums are moved to where totals_ is
  Arena totals_;
  BufferPool borrowed_;
  Arena tiedMemory_;
  std::vector<Tie> ties_;
  std::vector<Unit> units_;
  std::vector<Bucket> buckets_;  // in the order in which backward fills them
  std::array<Staging, 2> staging_;
  std::map<PartialKind, Partial> partials_;
  std::vector<int> written_;  // by piece: the last micro-batch whose contribution began
  int microBatches_ = 0, rounds_ = 0;
  int reductions_ = 0;
  bool finished_ = true;
};

}  // namespace tutti::parallel
