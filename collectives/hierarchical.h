#pragma once

// Hierarchical: for ranks of several hosts, where a host's link to the others is what is slow and
// is shared by its ranks. What crosses a link is summed inside the host before and spread inside
// after, so that no byte crosses for the sake of two ranks of one host. The plan follows from the
// host of each rank; ranks of a host need not be neighbours, and hosts may differ in size. It
// exists for two or more hosts of which one at least has two ranks.
//
// h hosts; n ranks on the largest, m on the smallest; P ranks in all.
//
// AllReduce. The block is cut into h m pieces, m for each host; piece k of host i is owned by rank
// k there, and on every other host it is carried by rank k. Inside a host all give their input of a
// piece to its carrier (the owner, on its own host), who adds them; carriers send the sums to the
// owner, who adds those; and the whole piece goes back the same way: to the carriers, and from each
// to its host.
//
//   two hosts, {0, 1} and {2, 3}; ranks 0 to 3 own pieces A to D
//     inside   0 -B,D-> 1    1 -A,C-> 0    2 -B,D-> 3    3 -A,C-> 2
//     across   0 --C--> 2    1 --D--> 3    2 --A--> 0    3 --B--> 1
//     whole    0 --A--> 2    1 --B--> 3    2 --C--> 0    3 --D--> 1
//     inside   0 -A,C-> 1    1 -B,D-> 0    2 -A,C-> 3    3 -B,D-> 2
//
//   steps 4, 2 of them between hosts; blocks per rank (m+n-2)/m + 2(h-1)/(hm), which is 2(P-1)/P
//   with hosts of one size; per link 2/m (m = 1: 1); per host 2(h-1)/h, the least possible. On
//   hosts of different sizes all adding on a larger one of s ranks is done by its first m, so that
//   these add s/m blocks each instead of one.
//
// AllGather. The second half of that, where pieces are the ranks' blocks. Block k of a host is
// carried by rank k of each other host, k modulo that host's size.
//
//   steps 2, 1 of them between hosts; per host n(h-1) blocks. A rank that carries c blocks into a
//   host of s ranks, its own among them, sends h-1 + c(s-1) blocks, c to each of the others; c is
//   at most the sum over all hosts of their size divided by s, rounded up: h with one size.
//
// ReduceScatter. The first half. Steps 2, 1 between hosts; blocks per rank P-1; per link c, per
// host n(h-1).
//
// Broadcast, Reduce. A chain of hosts from the root's, one leader each (the root, elsewhere the
// first rank), and in each host the binomial tree on its leader; pipelined by rounds. Steps h-1
// between hosts and those of the tree; blocks per rank the most children (Reduce: 1); per link and
// per host 1.
//
// Barrier. A signal to the host's leader, a dissemination barrier among leaders, a signal from the
// leader: steps 2 + ceil(log2 h), ceil(log2 h) between hosts (one less where no two hosts with
// company are 2^ceil(log2 h) - 1 apart).
//
// Across, everybody talks to all others directly: a ring or halving would move the same bytes in
// 2(h-1) or 2 log2 h steps, and a step between hosts is the dearest thing here; and so the order of
// additions is canonical wherever the hosts, in order, are aligned subtrees of the tree over ranks:
// neighbouring ranks, a power of two on each, the last with as many or fewer. (That of Reduce,
// whose hosts are a chain, with two of them; with more by chance.)

#include "collectives/algorithms.h"

namespace tutti::collectives {

AlgorithmInfo hierarchical();

/// One rank among the hosts of a plan.
struct HostPlace {
  HostPlace(const PlanSpec& spec, int rank);

  const PlanSpec& spec;
  const std::vector<std::vector<int>> hosts;  ///< ranks of each, ascending
  int host = 0;                               ///< this rank's
  int index = 0;                              ///< its number there

  const std::vector<int>& mates() const { return hosts[static_cast<size_t>(host)]; }
  int size() const { return static_cast<int>(mates().size()); }
  int hostCount() const { return static_cast<int>(hosts.size()); }
  int smallestHost() const;  ///< ranks on it
  int largestHost() const;
  int sizeOf(int other) const { return static_cast<int>(hosts[static_cast<size_t>(other)].size()); }
  /// Rank `number` of a host, `number` modulo its size.
  int rankOf(int other, int number) const {
    return hosts[static_cast<size_t>(other)][static_cast<size_t>(number % sizeOf(other))];
  }
  /// Numbers of this host's other ranks, and of the other hosts, beginning with the next, so that
  /// not all send to the first one first.
  std::vector<int> otherMates() const;
  std::vector<int> otherHosts() const;
};

// hierarchical_blocks.cc: AllReduce, AllGather, ReduceScatter.
Program hostBlocksProgram(const HostPlace& at);
Cost hostBlocksCost(const PlanSpec& spec);

// hierarchical_tree.cc: Broadcast, Reduce, Barrier.
Program hostTreeProgram(const HostPlace& at);
Cost hostTreeCost(const PlanSpec& spec);
Program hostBarrier(const HostPlace& at);
Cost hostBarrierCost(const PlanSpec& spec);
/// The sums along the chain of hosts to the root are in the canonical order.
bool hostChainIsCanonical(const HostPlace& root);

/// Neighbouring ranks [first, last) whose sum is made as the canonical tree makes one of so many:
/// the left half is a power of two, the right one not larger. Where all ranks are one such range,
/// every part of it is at its place in the tree.
struct TreeRange {
  int first, last;
};
/// A host's ranks, if they are neighbours.
std::optional<TreeRange> rangeOf(const std::vector<int>& mates);
/// Both, if they are the halves of one.
std::optional<TreeRange> join(std::optional<TreeRange> a, std::optional<TreeRange> b);

}  // namespace tutti::collectives
