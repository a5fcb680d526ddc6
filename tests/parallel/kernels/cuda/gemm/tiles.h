#pragma once

// The cases that tests of GEMM are made of: every row of the table of tiles, in every arrangement.

#include <gtest/gtest.h>

#include "tests/parallel/kernels/cuda/gemm/product.h"

namespace tutti::parallel::cuda {

struct TestedTile {
  const char* forced;
  GemmFamily family;
};
inline constexpr TestedTile kTf32{"tf32", GemmFamily::Tf32};
/// Which takes what float32 does not allow `wgmma`.
inline constexpr TestedTile kSimt{"wgmma", GemmFamily::Simt};
inline constexpr TestedTile kTiles[] = {
    {"wgmma,together,columns=256,cluster=1", GemmFamily::Wgmma},
    {"wgmma,together,columns=256,cluster=2", GemmFamily::Wgmma},
    {"wgmma,together,columns=192,cluster=1", GemmFamily::Wgmma},
    {"wgmma,together,columns=128,cluster=1", GemmFamily::Wgmma},
    {"wgmma,together,columns=128,cluster=2", GemmFamily::Wgmma},
    {"wgmma,together,columns=64,cluster=1", GemmFamily::Wgmma},
    {"wgmma,turns,columns=128,cluster=1", GemmFamily::Wgmma},
    {"wgmma,turns,columns=128,cluster=2", GemmFamily::Wgmma},
    {"mma", GemmFamily::Mma},  // the others are of float32
    kTf32,
    kSimt,
};
inline constexpr ElementFormat kBrain = ElementFormat::BFloat16, kHalf = ElementFormat::Float16,
                               kFloat = ElementFormat::Float32;

/// What its kernels take.
inline std::vector<ElementFormat> typesOf(const TestedTile& tile) {
  if (tile.family == GemmFamily::Tf32 || tile.family == GemmFamily::Simt) return {kFloat};
  return {kBrain, kHalf};
}

/// With so many splits.
inline std::string inSplits(const TestedTile& tile, int splits) {
  return tile.forced + (",splits=" + std::to_string(splits));
}

/// Whether its operands have 16 bits.
inline bool isNarrow(const TestedTile& tile) { return typesOf(tile)[0] != kFloat; }
inline bool isWgmma(const TestedTile& tile) { return tile.family == GemmFamily::Wgmma; }

/// With units whose steps are shared, where there are some for which that is worth it.
inline std::string inStreams(const TestedTile& tile) {
  return tile.forced + std::string(",streamk");
}

/// Units below and beside each other, the last ones ragged, of so many steps.
struct Units {
  int32_t rows, columns, steps;
};
/// Of a tile for `wgmma`.
inline ProductCase vectorizedCase(const TestedTile& tile, const Units& units) {
  const GemmForced forced = GemmForced::parse(tile.forced);
  return {.rows = kTileRows * forced.cluster * units.rows - 21,
          .columns = forced.columns * units.columns - 40,
          .depth = kStepDepth * units.steps - 8,
          .in = typesOf(tile)[0],
          .forced = inStreams(tile)};
}

inline void expectRight(const ProductCase& of, GemmFamily family) {
  SCOPED_TRACE(of.describe());
  Product product(of);
  ASSERT_EQ(product.choice().family, family);
  product.run();
  ASSERT_EQ(product.error(), "");
}

inline ProductCase arranged(int which, const ProductCase& of) {
  ProductCase result = of;
  result.isKMajorA = which % 2 == 0;
  result.isKMajorB = which / 2 % 2 == 0;
  return result;
}

}  // namespace tutti::parallel::cuda
