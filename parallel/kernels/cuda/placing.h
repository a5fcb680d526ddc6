#pragma once

// What placeTokens takes besides its operands, and into what it cuts them (experts_device.cuh).

#include <cstdint>

namespace tutti::parallel::cuda {

/// Choices of a tile; a warp goes through one for each expert.
inline constexpr int32_t kPlaceTile = 1024;
constexpr int64_t tilesOfChoices(int64_t choices) {
  return (choices + kPlaceTile - 1) / kPlaceTile;
}

/// What is known of an expert's choices in a tile. Choices of one sequence and piece are a segment.
struct TileCount {
  int32_t first, last;  ///< in the tile's first segment, and in its last
  int32_t rest;         ///< kept of those behind the first segment
  int32_t room;         ///< of the first segment: so many are kept, those of tiles before counted
};
/// Where a tile's choices of an expert are placed.
struct TilePlace {
  int32_t kept;    ///< of this expert in tiles before
  int32_t within;  ///< of the first segment in tiles before
};

/// Bytes of PlaceTokens::loads: the loads, for each tile and expert a TileCount and a TilePlace,
/// and for each expert where its places begin.
constexpr int64_t placingBytes(int64_t choices, int64_t experts) {
  const auto ofTile = static_cast<int64_t>(sizeof(TileCount) + sizeof(TilePlace));
  return experts * (static_cast<int64_t>(sizeof(int64_t)) + tilesOfChoices(choices) * ofTile +
                    static_cast<int64_t>(sizeof(int32_t)));
}

}  // namespace tutti::parallel::cuda
