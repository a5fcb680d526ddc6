#pragma once

// What joins the ranks, as a value: with the constants of tuning.h the input of every cost
// prediction.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/topology/tuning.h"

namespace tutti::topology {

struct Topology {
  int ranks = 1;
  int cores = 1;               ///< of each host; ranks beyond it share
  std::vector<int> hostOf;     ///< host number of each rank, from 0; empty: all on one
  size_t slotBytes = 65536;    ///< what one message between two ranks can carry
  int channels = 2;            ///< rings between two ranks, in each direction
  bool attached = false;       ///< all are on one host and read each other's memory
  size_t lanes = SIZE_MAX;     ///< most of a rank: on GPUs as many as their blocks hold
  size_t operands = SIZE_MAX;  ///< most sources and targets of a step
  /// Ranks of one host whose messages to each other pass links of theirs to the host's memory: GPUs
  /// that do not reach each other. The lower one first, sorted.
  std::vector<std::pair<int, int>> apart = {};
  int hosts() const;         ///< how many there are
  int ranksPerHost() const;  ///< on the host with the most
  bool areApart(int rank, int other) const;
  bool oversubscribed() const { return ranksPerHost() > cores; }
  std::string describe() const;
  bool operator==(const Topology&) const = default;
};

}  // namespace tutti::topology
