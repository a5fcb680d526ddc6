#pragma once

// What `tutti perf` was asked to measure.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <tutti/types.h>

#include "src/plan/plan.h"

namespace tutti::tools {

using plan::Collective;

/// What is measured beside collectives of equal blocks.
enum class PerfExchange : uint8_t {
  SendReceive,     ///< "sendrecv": to the next rank, from the one before
  AllToAllV,       ///< "alltoallv": blocks of three sizes
  HyperCube,       ///< "hypercube": an AllGather in log2(ranks) exchanges
  AllGatherV,      ///< "all_gatherv": blocks of three sizes
  ReduceScatterV,  ///< "reduce_scatterv": blocks of three sizes
};

struct PerfOptions {
  /// Of an exchange: the collective with such buffers.
  Collective collective = Collective::AllReduce;
  std::optional<PerfExchange> exchange;
  std::string collectiveName;
  int ranks = 0;  ///< 0: join the launcher's job, or one rank
  uint64_t minBytes = 32u << 20, maxBytes = 32u << 20;
  uint64_t stepBytes = 0;  ///< with factor 1: distance of sizes
  int factor = 1;          ///< ratio of consecutive sizes; 1: by stepBytes
  DataType type = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  int iterations = 0;  ///< 0: about a tenth of a second per size, between 5 and 2000
  int warmups = 5;
  int repetitions = 1;  ///< of the whole range
  bool check = true;
  bool windows = true;  ///< buffers from Communicator::allocate, otherwise ordinary memory
  bool deterministic = false;
  std::string device = "host";  ///< of buffers: see device_option.h
  std::string algorithm;
  std::string transport;
  std::string jsonFile, csvFile, plotFile;  ///< or empty
  /// Two files of --json; else nothing is compared.
  std::vector<std::string> compared;

  /// Whether the same memory can be sent from and received into.
  bool inPlace() const {
    return exchange != PerfExchange::SendReceive && exchange != PerfExchange::AllToAllV;
  }
  /// Whether it is a collective, with blocks of different sizes.
  bool uneven() const {
    return exchange == PerfExchange::AllGatherV || exchange == PerfExchange::ReduceScatterV;
  }
  bool hasRoot() const { return !exchange && plan::hasRoot(collective); }

  /// Sizes to run, in bytes; never empty. Throws InvalidArgument when there are more than
  /// kMostSizes.
  std::vector<uint64_t> sizes() const;
  static constexpr size_t kMostSizes = 10'000;
};

/// What `options.collectiveName` says. Throws InvalidArgument listing the names there are.
void setCollective(PerfOptions& options);

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do: after --help, or what is no command line, which is then said on standard
/// error. Throws InvalidArgument naming an option whose value makes no sense.
std::variant<PerfOptions, int> parsePerf(int argc, const char* const* argv);

}  // namespace tutti::tools
