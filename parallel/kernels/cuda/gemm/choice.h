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

/// Reference: ../gemm.cu, of any types. Simt: float32 without tensor cores. Tf32: float32 rounded
/// for sm_80's tensor cores, where that is asked for. Mma: 16 bits by these. Wgmma: by Hopper's,
/// with TMA.
enum class GemmFamily { Reference, Simt, Tf32, Mma, Wgmma };

struct GemmShape {
  int64_t rows, columns, depth;
  int64_t batch = 1;  ///< products
};

struct GemmChip {
  int32_t processors, capability;  ///< 90 for 9.0
};

/// What operands allow, besides Reference.
struct GemmAllowed {
  bool simt = false;   ///< both of float32
  bool mma = false;    ///< both of one type of 16 bits
  bool wgmma = false;  ///< and as TMA addresses them: rows aligned to 16 bytes
};

/// A row of the table.
struct GemmTile {
  GemmFamily family;
  GemmSchedule schedule;     ///< of Wgmma
  int32_t columns, cluster;  ///< of kTileRows rows; blocks that share columns of b
  double stepCycles;         ///< of tensor cores, or of lanes, for stepDepthOf() the family
  double storeCycles;        ///< of a tile
};
std::span<const GemmTile> gemmTiles();
/// What kernels of a family sum over at a time.
int32_t stepDepthOf(GemmFamily family);

struct GemmChoice {
  GemmFamily family = GemmFamily::Reference;
  GemmSchedule schedule = GemmSchedule::Together;
  int32_t columns = 0, cluster = 1;
  int32_t splits = 1;
  /// Of Wgmma: clusters that share all units' steps (stream-K), in the place of splits; 0: units
  /// are dealt out.
  int32_t workers = 0;
  bool operator==(const GemmChoice&) const = default;
};

/// What TUTTI_GEMM asks for: `wgmma,together,columns=128,cluster=2,splits=3`, or some of it, with
/// `streamk` in the place of splits; `tf32` allows that and forces nothing else.
struct GemmForced {
  bool tf32 = false;
  bool streamK = false;  ///< where runs would not be whole units
  std::optional<GemmFamily> family;
  std::optional<GemmSchedule> schedule;
  int32_t columns = 0, cluster = 0, splits = 0;  ///< 0: as chosen
  /// Throws InvalidArgument, naming the word that is none of these.
  static GemmForced parse(const std::string& text);
  bool isAnything() const {
    return family || schedule || columns != 0 || cluster != 0 || splits != 0 || streamK;
  }
};
/// The words that force a choice.
std::string wordsOf(const GemmChoice& choice);

/// A family that is forced on operands that do not allow it gives way to one that they do. Splits
/// are at most as many as there are steps. Stream-K is for who asks for it, and is left out where
/// runs would be whole units, or the family has no clusters.
GemmChoice chooseGemm(const GemmShape& shape, const GemmAllowed& allowed, const GemmChip& chip,
                      const GemmForced& forced = {});

/// Cycles that the model predicts, which nothing but other predictions should be compared with.
double predictedCycles(const GemmShape& shape, const GemmTile& tile, const GemmChoice& choice,
                       const GemmChip& chip);

/// For the kernels of a choice that is not Reference.
GemmTiles tilesOf(const GemmShape& shape, const GemmChoice& choice);
/// How many partial sums of float32 a split has, in rows of a multiple of four; 0 where there is
/// one split, which has the result.
int64_t sumsOfSplit(const GemmShape& shape, const GemmChoice& choice);
/// The same of all fragments of stream-K.
int64_t sumsOfFragments(const GemmChoice& choice);

}  // namespace tutti::parallel::cuda
