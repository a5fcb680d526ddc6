#include "parallel/kernels/cuda/gemm/choice.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "parallel/tensor/check.h"

namespace tutti::parallel::cuda {

namespace {

// Cycles of a step, and of storing a tile by lines, as an H200 takes them
// (docs/benchmarks/h200.md). Of 256 columns steps are those of tensor cores, 1024, and some; of
// fewer those of shared memory, which a step of 128 columns writes 32 KiB to and reads 48 KiB from,
// 128 bytes a cycle, and one of 64, which nobody has measured, 24 and 32; mma.sync had 194 TFLOP/s,
// of which TF32, not measured, should have half, for half the depth of a step.
// Where b is stored the other way around steps take a tenth more, whatever the tile. What is below
// is estimated. Lanes are taken for four fifths of what they add at most.
constexpr auto kTogether = GemmSchedule::Together, kInTurn = GemmSchedule::InTurn;
constexpr GemmTile kTiles[] = {
    {GemmFamily::Wgmma, kTogether, 256, 1, 1070, 4000},
    {GemmFamily::Wgmma, kTogether, 256, 2, 1060, 4000},
    {GemmFamily::Wgmma, kTogether, 192, 1, 900, 2800},
    {GemmFamily::Wgmma, kTogether, 128, 1, 640, 2000},
    {GemmFamily::Wgmma, kTogether, 128, 2, 640, 2000},
    {GemmFamily::Wgmma, kTogether, 64, 1, 450, 1200},
    {GemmFamily::Wgmma, kInTurn, 128, 1, 640, 2130},
    {GemmFamily::Wgmma, kInTurn, 128, 2, 640, 2130},
    {GemmFamily::Mma, kTogether, 128, 1, 2400, 5000},
    {GemmFamily::Tf32, kTogether, 128, 1, 2400, 3500},
    {GemmFamily::Simt, kTogether, 128, 1, 2560, 3500},
};
constexpr double kCacheBytes = 52;      // of a processor, a cycle, at least
constexpr double kMemoryBytes = 18;     // the same of memory
constexpr double kJoinBytes = 32;       // of fragments, written by all and read by a few
constexpr double kFirstCycles = 1500;   // from the start to the first step
constexpr double kLaunchCycles = 6000;  // of one more kernel
constexpr int32_t kMostSplits = 16, kLeastSteps = 4;
constexpr int64_t kMostPartialBytes = int64_t{256} << 20;
constexpr int64_t kMostVectorizedSteps = int64_t{1} << 30;

int64_t over(int64_t count, int64_t each) { return (count + each - 1) / each; }

/// Without splits.
int64_t unitsOf(const GemmShape& shape, const GemmTile& tile) {
  return over(shape.rows, int64_t{kTileRows} * tile.cluster) * over(shape.columns, tile.columns) *
         shape.batch;
}

GemmFamily allowedFamily(const GemmAllowed& allowed, const GemmChip& chip,
                         const GemmForced& forced) {
  const GemmFamily wanted = forced.family.value_or(GemmFamily::Wgmma);
  if (wanted == GemmFamily::Reference) return wanted;
  if (allowed.wgmma && chip.capability == 90 && wanted == GemmFamily::Wgmma) return wanted;
  if (allowed.mma && chip.capability >= 80) return GemmFamily::Mma;
  if (!allowed.simt) return GemmFamily::Reference;
  return forced.tf32 && chip.capability >= 80 ? GemmFamily::Tf32 : GemmFamily::Simt;
}

/// Of parts that are all of one length but the last, which is no longer, and not empty.
int32_t splitsOf(int64_t steps, int32_t wanted) {
  const int64_t stepsOfSplit = over(steps, std::clamp<int64_t>(wanted, 1, steps));
  return static_cast<int32_t>(over(steps, stepsOfSplit));
}

/// Clusters that have a run of steps each; 0 where runs would be whole units.
int32_t workersOf(const GemmShape& shape, const GemmTile& tile, const GemmChip& chip) {
  const int64_t steps = over(shape.depth, kStepDepth), all = unitsOf(shape, tile) * steps;
  const int64_t ofRun = over(all, std::max(chip.processors / tile.cluster, 1));
  if (ofRun % steps == 0 || all > kMostVectorizedSteps) return 0;
  return static_cast<int32_t>(over(all, ofRun));
}

int32_t numberOf(const std::string& word, const std::string& text) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  require(!text.empty() && *end == '\0' && value >= 1 && value <= 4096, "TUTTI_GEMM: ", word,
          " is no number from 1 to 4096");
  return static_cast<int32_t>(value);
}

}  // namespace

std::span<const GemmTile> gemmTiles() { return kTiles; }

int32_t stepDepthOf(GemmFamily family) {
  if (family == GemmFamily::Simt) return 16;
  return family == GemmFamily::Tf32 ? 32 : kStepDepth;
}

GemmForced GemmForced::parse(const std::string& text) {
  GemmForced forced;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "columns") {
      forced.columns = numberOf(word, value);
    } else if (name == "cluster") {
      forced.cluster = numberOf(word, value);
    } else if (name == "splits") {
      forced.splits = numberOf(word, value);
    } else if (word == "tf32") {
      forced.tf32 = true;
    } else if (word == "streamk") {
      forced.streamK = true;
    } else if (word == "together" || word == "turns") {
      forced.schedule = word == "together" ? kTogether : kInTurn;
    } else {
      require(
          word == "reference" || word == "mma" || word == "wgmma", "TUTTI_GEMM: ", word,
          " is none of reference, mma, wgmma, tf32, together, turns, columns=, cluster=, splits=, "
          "streamk");
      forced.family = word == "reference" ? GemmFamily::Reference
                      : word == "mma"     ? GemmFamily::Mma
                                          : GemmFamily::Wgmma;
    }
  }
  require(!forced.streamK || forced.splits == 0,
          "TUTTI_GEMM: streamk and splits= are two ways to share the depth");
  return forced;
}

std::string wordsOf(const GemmChoice& choice) {
  const std::string splits = message(",splits=", choice.splits);
  switch (choice.family) {
    case GemmFamily::Reference: return "reference";
    case GemmFamily::Simt: return "columns=128" + splits;
    case GemmFamily::Tf32: return "tf32" + splits;
    case GemmFamily::Mma: return "mma" + splits;
    case GemmFamily::Wgmma: break;
  }
  return message("wgmma,", choice.schedule == kInTurn ? "turns" : "together",
                 ",columns=", choice.columns, ",cluster=", choice.cluster,
                 choice.workers == 0 ? splits : ",streamk");
}

double predictedCycles(const GemmShape& shape, const GemmTile& tile, const GemmChoice& choice,
                       const GemmChip& chip) {
  const int32_t splits = choice.splits;
  const int64_t steps = over(shape.depth, stepDepthOf(tile.family));
  const int64_t units = unitsOf(shape, tile) * splits;
  const int64_t waves = over(units, std::max(chip.processors / tile.cluster, 1));
  const double rowBytes = tile.family == GemmFamily::Simt ? 64 : 128;  // of a step
  const double stepBytes = rowBytes * (kTileRows + tile.columns / tile.cluster);
  const double step = std::max(tile.stepCycles, stepBytes / kCacheBytes);
  if (choice.workers != 0) {
    // A run's steps, and what is stored of its units; two fragments at most are written, and who is
    // last reads those of a unit.
    const int64_t ofRun = over(units * steps, choice.workers);
    const auto stores = static_cast<double>(over(ofRun, steps));
    const auto fragments = static_cast<double>(over(steps, ofRun) + 2);
    const double bytes = 4.0 * kTileRows * tile.columns * fragments;
    return kFirstCycles + static_cast<double>(ofRun) * step + stores * tile.storeCycles +
           bytes / kJoinBytes;
  }
  const double product = static_cast<double>(over(steps, splits)) * step;
  const double unit = product + tile.storeCycles;
  // In turn the one consumer stores while the other multiplies, and the last stores alone.
  const double cycles =
      kFirstCycles + (tile.schedule == kInTurn
                          ? static_cast<double>(waves - 1) * std::max(product, unit / 2) + unit
                          : static_cast<double>(waves) * unit);
  if (splits == 1) return cycles;
  // Partial sums are written, read and added, of which the first is more than a result's bytes.
  const double bytes = 8.0 * splits * static_cast<double>(shape.rows * shape.columns * shape.batch);
  return cycles + kLaunchCycles + bytes / (kMemoryBytes * chip.processors);
}

GemmChoice chooseGemm(const GemmShape& shape, const GemmAllowed& allowed, const GemmChip& chip,
                      const GemmForced& forced) {
  const GemmFamily family = allowedFamily(allowed, chip, forced);
  if (family == GemmFamily::Reference) return {};
  const int64_t steps = over(shape.depth, stepDepthOf(family));
  GemmChoice best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](const GemmTile& tile, int32_t wanted, int32_t workers) {
    const GemmChoice choice{tile.family,  tile.schedule,           tile.columns,
                            tile.cluster, splitsOf(steps, wanted), workers};
    const double cycles = predictedCycles(shape, tile, choice, chip);
    if (cycles >= least) return;
    least = cycles;
    best = choice;
  };
  const auto isForcedAway = [&](const GemmTile& tile) {
    return (forced.columns != 0 && tile.columns != forced.columns) ||
           (forced.cluster != 0 && tile.cluster != forced.cluster) ||
           tile.schedule != forced.schedule.value_or(tile.schedule);
  };
  for (const GemmTile& tile : kTiles) {
    if (tile.family != family || (family == GemmFamily::Wgmma && isForcedAway(tile))) continue;
    const bool isVectorized = forced.streamK && family == GemmFamily::Wgmma;
    if (isVectorized || forced.splits != 0) {
      consider(tile, forced.splits, isVectorized ? workersOf(shape, tile, chip) : 0);
      continue;
    }
    const int64_t bytesOfSplit = 4 * shape.rows * shape.columns * shape.batch;
    for (int32_t splits = 1; splits <= kMostSplits; ++splits) {
      if (splits > 1 && (steps / splits < kLeastSteps || splits * bytesOfSplit > kMostPartialBytes))
        break;
      consider(tile, splits, 0);
    }
  }
  require(best.family == family, "TUTTI_GEMM: there is no such tile, of columns=", forced.columns,
          " and cluster=", forced.cluster);
  return best;
}

GemmTiles tilesOf(const GemmShape& shape, const GemmChoice& choice) {
  // About as many bytes of a as of b for 132 blocks at a time.
  const int32_t rowsTogether = choice.columns == 256 ? 16 : 12;
  const int64_t steps = over(shape.depth, stepDepthOf(choice.family));
  GemmTiles tiles{
      .rows = static_cast<int32_t>(over(shape.rows, int64_t{kTileRows} * choice.cluster)),
      .columns = static_cast<int32_t>(over(shape.columns, choice.columns)),
      .group = rowsTogether / choice.cluster,
      .steps = static_cast<int32_t>(steps),
      .splits = choice.splits,
      .stepsOfSplit = static_cast<int32_t>(over(steps, choice.splits)),
      .unitsOfProduct = 0,
      .units = 0,
      .workers = choice.workers,
      .stepsOfWorker = 0};
  tiles.unitsOfProduct = tiles.rows * tiles.columns * tiles.splits;
  tiles.units = tiles.unitsOfProduct * static_cast<int32_t>(shape.batch);
  if (choice.workers != 0)
    tiles.stepsOfWorker = static_cast<int32_t>(over(tiles.units * steps, choice.workers));
  return tiles;
}

int64_t sumsOfSplit(const GemmShape& shape, const GemmChoice& choice) {
  return choice.splits == 1 ? 0 : shape.rows * over(shape.columns, 4) * 4;
}

int64_t sumsOfFragments(const GemmChoice& choice) {
  return int64_t{2} * choice.workers * kTileRows * choice.cluster * choice.columns;
}

}  // namespace tutti::parallel::cuda
