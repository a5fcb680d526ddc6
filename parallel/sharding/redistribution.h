#pragma once

// How a tensor gets from one layout to another: steps, each a collective along one axis of the mesh
// or none at all, as values. With A[I,J] on an axis x of p ranks, S elements to the whole tensor:
//
//   AllReduce      A[I,J]{Ux} -> A[I,J]      sends 2 S (p-1)/p from each rank
//   ReduceScatter  A[I,J]{Ux} -> A[Ix,J]     sends   S (p-1)/p
//   AllGather      A[Ix,J]    -> A[I,J]      sends   S (p-1)/p
//   AllToAll       A[Ix,J]    -> A[I,Jx]     sends   S (p-1)/p^2
//   slice          A[I,J]     -> A[Ix,J]     sends nothing
//
// An AllReduce is a ReduceScatter and then an AllGather. Which steps are taken is the result of a
// search: of all ways those that send the fewest elements, of these the shortest. So a dimension is
// split before another one is gathered, and what is partial over several axes is scattered over one
// before it is added up over the next.

#include <optional>
#include <vector>

#include "parallel/sharding/boxes.h"

namespace tutti::parallel {

enum class Move : uint8_t {
  AllReduce,      ///< partial becomes replicated
  ReduceScatter,  ///< partial becomes split, in dimension `to`
  AllGather,      ///< what splits dimension `from` innermost becomes replicated
  AllToAll,       ///< what splits dimension `from` innermost splits `to` innermost instead
  Slice,          ///< replicated becomes split, in dimension `to`: each rank keeps its part
};
const char* toString(Move move);  ///< "AllReduce", ..., "slice"

struct RedistributionStep {
  Move move = Move::AllReduce;
  Axis axis = Axis::Data;
  int from = -1, to = -1;  ///< dimensions; -1 where the move has none
  Layout before, after;
  int64_t sent = 0;  ///< elements, by the rank that sends most
  bool operator==(const RedistributionStep&) const = default;
};

/// The cheapest way between two layouts, which leaves alone the axes that lie in both of them
/// alike. Throws InvalidArgument when an axis would become partial, as no values are summands of a
/// given one, and as requireSound().
std::vector<RedistributionStep> redistribution(const Shape& global, const MeshShape& mesh,
                                               const Layout& from, const Layout& to);

int64_t elementsSent(const std::vector<RedistributionStep>& steps);

/// The layout of the gradient of a tensor that lies as `layout`: the same, with nothing partial,
/// since each summand has the gradient of the sum. So the backward of redistribute(x, to) is
/// redistribute(dy, gradientLayout(x.layout)), from wherever dy lies. As dy is partial over an axis
/// where each rank has only seen its own uses of y, that is the transpose of each step:
///
///   forward             backward, dy partial where y was replicated and used in parts
///   AllReduce           nothing, where y was used alike by all
///   ReduceScatter       AllGather
///   AllGather           ReduceScatter; a slice where y was used alike by all
///   AllToAll            AllToAll back
///   slice               AllGather
///   nothing             AllReduce, where a replicated x was used in parts
Layout gradientLayout(const Layout& layout);

}  // namespace tutti::parallel
