#pragma once

// `tutti shard`: how a product of sharded tensors is computed, what that sends, and how long it
// takes.

#include <variant>

#include <tutti/types.h>

#include "parallel/sharding/product_options.h"
#include "src/tools/common/job.h"

namespace tutti::tools {

struct ShardOptions {
  parallel::LetteredMesh mesh;
  parallel::Product product;
  parallel::Sizes sizes;
  DataType type = DataType::Float32;
  PlannedJob job;
  std::string jsonFile;  ///< empty: none
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Throws InvalidArgument naming an option whose value makes no sense, and
/// what is wrong with the expression.
std::variant<ShardOptions, int> parseShard(int argc, const char* const* argv);

/// Runs the sub-command. Returns the exit code: 0, 1 when it failed, 2 for a wrong command line.
int shardMain(int argc, char** argv);

}  // namespace tutti::tools
