#pragma once

// Expert parallelism: which rank has which experts, and how tokens come to them. The ranks along ep
// see other tokens each, and each has experts / ranks of a block's experts, the first ones the
// first. Rows that are put together by expert therefore lie by rank too:
//
//   rank 0   |for expert 0|1|2|3|   sends  |0|1| |2|3|     gets   |0|1 of rank 0|0|1 of rank 1|
//   rank 1   |for expert 0|1|2|3|          rank 0 rank 1   puts   |0 of both ranks|1 of both|
//
// First the ranks tell each other how many rows come (one AllToAll), then they send them (one
// AllToAllV); what experts make of them goes back the same way. Backward sends gradients there and
// back once more: 1 AllToAll and 4 AllToAllV in all, of rows that each are as wide as a token.
//
// Sources: Lepikhin et al., "GShard"; Gale et al., "MegaBlocks", whose experts take any number of
// rows as ours do.

#include <span>
#include <vector>

#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/sharding/boxes.h"

namespace tutti::parallel {

/// Throws InvalidArgument, naming the nearest numbers that do, unless the ranks along ep divide the
/// experts.
void requireExpertsFit(const MeshShape& shape, int64_t experts);

/// Rows that go from each rank to each expert, as one rank knows it.
struct ExpertTraffic {
  std::vector<size_t> sent, received;          ///< by rank
  std::vector<std::vector<int64_t>> fromRank;  ///< by rank: rows for each expert of this rank
  std::vector<Range> experts;                  ///< of this rank: their rows, put together
  int64_t sentRows = 0, receivedRows = 0;
  int64_t sentRoom = 0, receivedRoom = 0;  ///< rows to take memory for: as many at least
};

/// The first `rows` of room for more.
inline Tensor allocateRows(Arena& memory, DType type, int64_t room, int64_t rows, int64_t width) {
  return memory.allocate(type, {room, width}).rows(0, rows);
}

/// What routers did on one rank: sums over sequences, micro-batches and blocks.
struct RouterTally {
  double balance = 0, z = 0;
  double choices = 0;  ///< of tokens
  std::vector<double>
      loads;  ///< of them those that experts got: of the first block's, the second's
};

class ExpertParallel {
 public:
  /// Collective over those ranks, as DeviceMesh::communicator().
  explicit ExpertParallel(DeviceMesh& mesh);

  int ranks() const { return ranks_; }

  /// Tells the ranks of experts how many rows come; `loads` are this rank's, of all experts. What
  /// it learned is kept in `counts`, int32 [2, experts]. Collective.
  ExpertTraffic announce(std::span<const int64_t> loads, const Tensor& counts);
  /// What was kept there, which a dry run did not.
  std::vector<int32_t> countsIn(const Tensor& counts) const;
  /// The same once more. In a dry run, whose tensors have no elements, so many rows are shared out
  /// evenly.
  ExpertTraffic trafficOf(const Tensor& counts, int64_t sentRows, int64_t receivedRows) const;

  /// Where rows are made that go to experts: with one rank they are there already.
  Arena& arenaOfSent(Arena& result, Arena& scratch) const { return ranks_ == 1 ? result : scratch; }
  /// Rows by expert, of all experts, to those of this rank's experts, in `memory`. Collective.
  Tensor toExperts(Purpose purpose, Kernels& kernels, const ExpertTraffic& traffic,
                   const Tensor& rows, Arena& memory, Arena& scratch);
  /// The way back. Collective.
  Tensor fromExperts(Purpose purpose, Kernels& kernels, const ExpertTraffic& traffic,
                     const Tensor& rows, Arena& memory, Arena& scratch);

  double perSequence = 0;       ///< scale of the gradients of routers' losses: one over the global
                                ///< number of sequences
  RouterTally tally;            ///< since a caller set it
  CollectiveCounters counters;  ///< the same

 private:
  ExpertTraffic trafficOf(std::span<const int32_t> to, std::span<const int32_t> from) const;
  void send(Purpose purpose, const Tensor& rows, const std::vector<size_t>& to,
            const Tensor& result, const std::vector<size_t>& from);
  void regroup(Kernels& kernels, const ExpertTraffic& traffic, const Tensor& byRank,
               const Tensor& byExpert, bool back) const;

  const DeviceMesh& mesh_;
  MeshCommunicator* const group_;
  const int ranks_;
};

}  // namespace tutti::parallel
