#pragma once

// What the builders of all families share: small arithmetic on ranks, and the plan of one rank.

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <utility>

#include "collectives/algorithms.h"

namespace tutti::collectives {

using plan::Buffer;
using plan::channel;
using plan::chunkOf;
using plan::Fold;
using plan::hasRoot;
using plan::Lane;
using plan::local;
using plan::mapped;
using plan::Port;
using plan::signal;
using plan::Step;

/// `rank` modulo `ranks`, never negative.
constexpr int wrap(int rank, int ranks) { return ((rank % ranks) + ranks) % ranks; }
constexpr int floorLog2(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
constexpr int ceilLog2(int n) { return n <= 1 ? 0 : floorLog2(n - 1) + 1; }

inline bool isOneOf(Collective c, std::initializer_list<Collective> list) {
  return std::ranges::find(list, c) != list.end();
}

/// The request's facts in a spec, everything else at its default.
inline PlanSpec specOf(const SpecRequest& request, Algorithm algorithm) {
  PlanSpec spec;
  spec.collective = request.collective;
  spec.algorithm = algorithm;
  spec.protocol = request.protocol;
  spec.ranks = request.ranks;
  spec.root = hasRoot(request.collective) ? request.root : 0;
  spec.channels = request.channels;
  spec.divisions = static_cast<uint32_t>(request.channels);
  // Two operands have one order.
  spec.canonicalOrder = plan::isReduction(request.collective) && request.ranks <= 2;
  spec.unevenSafe = plan::givesBlocks(request.collective) != plan::getsBlocks(request.collective);
  if (request.collective == Collective::Barrier) {
    spec.channels = 1;
    spec.divisions = 1;
    spec.messageChunks = 0;
  }
  if (request.ranks == 1) spec.messageChunks = 0;
  return spec;
}

/// `owner`'s buffer as rank `rank` names it.
inline Port portOf(int rank, int owner, Buffer buffer, uint32_t chunk) {
  return owner == rank ? local(buffer, chunk) : mapped(owner, buffer, chunk);
}

/// The symmetry of a plan whose ranks all have parts of their own.
inline plan::Symmetry unlike(const PlanSpec& spec) { return plan::Symmetry::none(spec.ranks); }

/// The one rank's program of any plan of one rank: a copy, and nothing for a barrier.
inline Program buildAlone(const PlanSpec& spec) {
  Program program;
  if (spec.collective == Collective::Barrier) return program;
  Step copy{.sources = {local(Buffer::In, 0, spec.divisions)},
            .targets = {local(Buffer::Out, 0, spec.divisions)},
            .completes = plan::reducesAll(spec.collective)};
  program.lanes.push_back({0, {std::move(copy)}});
  return program;
}

}  // namespace tutti::collectives
