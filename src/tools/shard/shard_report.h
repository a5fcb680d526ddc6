#pragma once

// What `tutti shard` says, as values, and its two forms.

#include <optional>
#include <string>
#include <vector>

#include "src/tools/shard/shard.h"

namespace tutti::tools {

/// One step of a way to compute a product.
struct ShardStep {
  std::string what;           ///< "AllReduce", ..., "slice", or "multiply"
  std::string tensor;         ///< what is redistributed: "C"; empty for "multiply"
  char axis = 0;              ///< along which; 0 for "multiply"
  int ranks = 1;              ///< along the axis
  std::string before, after;  ///< "C[I,K]{Ux}"
  uint64_t sentBytes = 0;     ///< by the rank that sends most
  std::string algorithm;      ///< that would run; empty where nothing is sent
  double microseconds = 0;    ///< predicted
  double flops = 0;           ///< of a rank
};

struct ShardWay {
  std::vector<ShardStep> steps;
  uint64_t sentBytes = 0;  ///< in all steps
  double microseconds = 0, flops = 0;
};

/// Which of the four cases of sharded products an axis is.
struct ShardCase {
  char axis = 0;
  int number = 0;     ///< 1 to 4; 0: none of them
  std::string words;  ///< what that means
};

struct ShardTensor {
  std::string text;             ///< "A[I,Jx]"
  parallel::Shape shape, part;  ///< of the whole; of a rank that has most
  uint64_t bytes = 0, partBytes = 0;
};

/// An AllReduce, and the two steps that it consists of.
struct ShardHalves {
  uint64_t bytes = 0;  ///< of what each rank has a summand of
  ShardStep allReduce, reduceScatter, allGather;
};

struct ShardReport {
  std::string product, mesh;  ///< "A[I,Jx] B[Jx,K] -> C[I,K]", "x=4,y=2"
  int ranks = 1;
  DataType type = DataType::Float32;
  std::vector<ShardTensor> tensors;   ///< A, B and C
  std::vector<ShardCase> cases;       ///< of each axis that an operand names
  std::vector<ShardWay> ways;         ///< that which sends least first; never empty
  std::optional<ShardHalves> halves;  ///< of the first AllReduce of all ways
  double flops = 0;                   ///< of the whole product
};

/// Throws as parallel::derive().
ShardReport shardReport(const ShardOptions& options);

/// For people, at most 100 columns wide unless an expression is longer.
std::string shardText(const ShardReport& report);
/// For programs, one line; docs/explanation/sharding.md lists the fields.
std::string shardJson(const ShardReport& report);

}  // namespace tutti::tools
