#pragma once

// Which of the four cases of sharded products each axis of the mesh is, in words.

#include <vector>

#include "src/tools/shard/shard_report.h"

namespace tutti::tools {

/// Of each axis that an operand names, in the order of the mesh.
std::vector<ShardCase> shardCases(const parallel::Product& product,
                                  const parallel::AxisLetters& letters);

}  // namespace tutti::tools
