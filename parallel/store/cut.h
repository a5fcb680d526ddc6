#pragma once

// Cut: where each parameter, and each rank's share of it, lies in the buffers of its unit.
//
// A rank holds rows of every parameter (of the part of it that the parameter's layout gives the
// rank), cut as evenly as rows go. A unit's *full* buffer has its parameters one after the other; a
// *block* has one rank's rows of each, in the same places on every rank, so that all blocks of a
// unit are equally long and AllGather and ReduceScatter move them as they are:
//
//   full     |weight: rows 0..4          |bias |        blocks, of 2 ranks
//   rank 0   |weight 0..2 |bias .|   rank 1   |weight 3..4 - |bias .|

#include <vector>

#include "parallel/mesh/device_mesh.h"
#include "parallel/sharding/boxes.h"
#include "parallel/store/parameter.h"
#include "parallel/store/shard_policy.h"

namespace tutti::parallel {

/// One parameter.
struct Piece {
  const Parameter* parameter = nullptr;
  Layout layout = {};  ///< the parameter's, with the sharding axes as the innermost of its rows
  Shape local = {};    ///< of the weight that modules compute with
  Box box = {};        ///< of the global tensor: the rows that this rank holds
  std::vector<Range> rows = {};  ///< of the local weight, by rank along the sharding axes
  int64_t rowElements = 1;
  int unit = 0;                 ///< index in Cut::units
  int64_t full = 0, block = 0;  ///< where it begins in the unit's full buffer and in a block

  /// Extents of the rows of one rank.
  Shape shape(const Range& range) const;
};

struct UnitCut {
  int begin = 0, end = 0;       ///< pieces
  int64_t full = 0, block = 0;  ///< elements, with what starts each piece on its own cache lines
  int chunk = 0;                ///< units of one are computed with together
};

struct Cut {
  int shards = 1, shard = 0;   ///< ranks along the sharding axes; this one
  std::vector<Piece> pieces;   ///< by parameter id
  std::vector<UnitCut> units;  ///< those that have pieces here, in their order
};

/// The same rows of a parameter in a full buffer and in blocks: [ranks, elements of each].
struct BlockRows {
  Tensor full, blocks;
};
/// Where all rows of `piece` are: `full` is its part of the unit's buffer, and in `blocks`, [ranks,
/// elements], each rank's rows come first. Neighbours with as many rows each are one part, so that
/// there are two or three to copy, however many ranks.
std::vector<BlockRows> blockRows(const Piece& piece, const Tensor& full, const Tensor& blocks);

/// Throws InvalidArgument naming the parameter when its layout is partial or names an axis that the
/// policy uses, and when its gradient is partial over one that the policy uses or that cuts it.
Cut cutParameters(const std::vector<Parameter*>& parameters, const DeviceMesh& mesh,
                  const ShardPolicy& policy);

}  // namespace tutti::parallel
