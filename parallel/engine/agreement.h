#pragma once

// What ranks do each for itself (files, mostly) and go on from together or not at all.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parallel/mesh/mesh_communicator.h"

namespace tutti::parallel {

/// What each rank says, by rank. `all` is null for one rank. Collective; throws what collectives
/// do.
std::vector<std::string> exchangeTexts(MeshCommunicator* all, const std::string& mine);

/// Calls `work`. When it throws on some ranks, all throw what it threw on the first of them, and
/// the others say which that was. Collective.
void together(MeshCommunicator* all, const std::function<void()>& work);

/// The largest of what the ranks say. Collective.
int64_t largestOf(MeshCommunicator* all, int64_t mine);

}  // namespace tutti::parallel
