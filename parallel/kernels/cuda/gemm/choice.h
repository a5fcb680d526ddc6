#pragma once

// Which kernel computes a product, and how it is cut: a pure function of the shape, of what
// operands allow and of the chip. Every tile that kernels have is a row of one table, and the row
// and number of splits are taken of which the model of costs says the least.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "parallel/kernels/cuda/gemm/arguments.h"

namespace tutti::parallel::cuda {

/// Plain: gemm.cu, of any types. Mma: sm_80's tensor cores. Wgmma: Hopper's, with TMA.
enum class GemmFamily { Plain, Mma, Wgmma };

struct GemmShape {
  int64_t rows, columns, depth;
};

struct GemmChip {
  int32_t processors, capability;  ///< 90 for 9.0
};

/// What operands allow, besides Plain.
struct GemmAllowed {
  bool mma = false;    ///< both of one type of 16 bits
  bool wgmma = false;  ///< and as TMA addresses them: rows aligned to 16 bytes
};

/// A row of the table.
struct GemmTile {
  GemmFamily family;
  Schedule schedule;         ///< of Wgmma
  int32_t columns, cluster;  ///< of kTileRows rows; blocks that share columns of b
  double stepCycles;         ///< of the tensor cores for kStepDepth
  double storeCycles;        ///< of a tile
};
std::span<const GemmTile> gemmTiles();

struct GemmChoice {
  GemmFamily family = GemmFamily::Plain;
  Schedule schedule = Schedule::Together;
  int32_t columns = 0, cluster = 1;
  int32_t splits = 1;
  bool operator==(const GemmChoice&) const = default;
};

/// What TUTTI_GEMM asks for: `wgmma,together,columns=128,cluster=2,splits=3`, or some of it.
struct GemmForced {
  std::optional<GemmFamily> family;
  std::optional<Schedule> schedule;
  int32_t columns = 0, cluster = 0, splits = 0;  ///< 0: as chosen
  /// Throws InvalidArgument, naming the word that is none of these.
  static GemmForced parse(const std::string& text);
  static GemmForced fromEnvironment();
};

/// A family that is forced on operands that do not allow it gives way to the next one. Splits are
/// at most as many as there are steps.
GemmChoice chooseGemm(const GemmShape& shape, const GemmAllowed& allowed, const GemmChip& chip,
                      const GemmForced& forced = {});

/// Cycles that the model predicts, which nothing but other predictions should be compared with.
double predictedCycles(const GemmShape& shape, const GemmTile& tile, int32_t splits,
                       const GemmChip& chip);

/// For the kernels of a choice that is not Plain.
GemmTiles tilesOf(const GemmShape& shape, const GemmChoice& choice);
/// How many partial sums of float32 a split has, in rows of a multiple of four; 0 where there is
/// one split, which has the result.
int64_t sumsOfSplit(const GemmShape& shape, const GemmChoice& choice);

}  // namespace tutti::parallel::cuda
