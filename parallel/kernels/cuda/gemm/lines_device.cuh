#pragma once

// From a warp's sums to c of 16 bits without an activation (OutputWay::Lines): scale, bias and
// residual in registers, and 16 rows by 64 columns at a time through the warp's shared memory, from
// which 8 lanes store a line of 128 bytes of a row. The code is straight: it is unrolled over the
// sums, as a register has no index, and what differs between outputs are a few branches of a line,
// or one of a tile where nothing is added.
//
// In shared memory a line has its eight chunks of 16 bytes exchanged by the row's number: chunk k
// of row r is where k ^ r % 8 would be. So the eight rows of a matrix of stmatrix or ldmatrix are
// in different banks, as are the eight chunks of a row. stmatrix takes sums as mma and wgmma leave
// them, in pairs of 16 bits; the residual comes the other way, by lines and ldmatrix.
//
// Bound: bytes of c and of the residual; some 70 instructions of a warp for 16 rows by 64 columns,
// and 250 more with scale, bias and residual.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/output_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kLineColumns = 64, kSumsOfLine = kLineColumns / 2, kLineWidth = 128;
inline constexpr int kRowsAtOnce = 4, kLineTurns = kStageRows / kRowsAtOnce;
using LineStage = char[kStageRows][kLineWidth];

template <Format kFormat>
TUTTI_DEVICE float2 widenPair(uint32_t pair) {
  const auto low = uint16_t(pair), high = uint16_t(pair >> 16);
  return kFormat == Format::BFloat16 ? make_float2(widenBrain(low), widenBrain(high))
                                     : make_float2(ptx::widenF16(low), ptx::widenF16(high));
}
template <Format kFormat>
TUTTI_DEVICE uint32_t narrowPair(float low, float high) {
  return kFormat == Format::BFloat16 ? ptx::packBf16(low, high) : ptx::packF16(low, high);
}

TUTTI_DEVICE char* chunkAt(LineStage& stage, int row, int chunk) {
  return &stage[row][(chunk ^ row % 8) * 16];
}
/// Of the four matrices that a lane gives stmatrix or ldmatrix a row of: 16 rows by the columns of
/// chunk `pair` * 2 and the next, in the order of a lane's sums.
TUTTI_DEVICE uint32_t matrixRowAt(LineStage& stage, int pair) {
  const int lane = int(threadIdx.x) % 32;
  return ptx::sharedAddress(chunkAt(stage, lane % 16, pair * 2 + lane / 16));
}
/// The chunk that a lane moves, of every fourth row.
TUTTI_DEVICE char* movedChunkAt(LineStage& stage, int turn) {
  const int lane = int(threadIdx.x) % 32;
  return chunkAt(stage, turn * kRowsAtOnce + lane / 8, lane % 8);
}

/// Of a matrix of 16 bits what a lane moves: a chunk of eight columns of every fourth row.
struct LineChunks {
  char* first;
  int64_t step;           ///< bytes, to the fourth row from there
  int32_t rows, columns;  ///< from the first on, as many as there are; none where they are negative
  TUTTI_DEVICE LineChunks(const Matrix& x, const GemmOutput& out, int32_t firstRow,
                          int32_t firstColumn) {
    const int lane = int(threadIdx.x) % 32;
    const int32_t row = firstRow + lane / 8, column = firstColumn + lane % 8 * 8;
    first =
        static_cast<char*>(x.elements.data) + (row * x.stride + column) * int64_t{sizeof(uint16_t)};
    step = kRowsAtOnce * int64_t{sizeof(uint16_t)} * x.stride;
    rows = out.rows - row;
    columns = out.columns - column;
  }
  /// Whether there is the one `turn` steps and `line` lines from the first, and where.
  TUTTI_DEVICE bool has(int turn, int line) const {
    return rows > turn * kRowsAtOnce && columns > line * kLineColumns;
  }
  TUTTI_DEVICE char* at(int turn, int line) const {
    return first + turn * step + line * kLineWidth;
  }
};

/// Two neighbours of the bias for each 8 columns of a line, as sums have them.
using LineBias = uint32_t[kLineColumns / 8];
/// Of all lines beside each other, before the first is needed.
template <int kAcross>
TUTTI_DEVICE void readBias(LineBias (&to)[kAcross], const GemmOutput& out, int32_t column) {
  const auto* const bias = static_cast<const uint16_t*>(out.epilogue.bias.data);
  const int32_t first = column + int(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < kAcross * kLineColumns / 8; ++i)
    to[i / 8][i % 8] = bias != nullptr && first + i * 8 < out.columns
                           ? *reinterpret_cast<const uint32_t*>(bias + first + i * 8)
                           : 0;
}
template <Format kFormat>
TUTTI_DEVICE void addBias(float (&x)[kSumsOfLine], const LineBias& bias) {
#pragma unroll
  for (int i = 0; i < kSumsOfLine / 2; ++i) {
    const float2 two = widenPair<kFormat>(bias[i / 2]);
    x[2 * i] += two.x, x[2 * i + 1] += two.y;
  }
}

/// Into the stage, by copies that are this lane's last group; zeros beyond the edges.
TUTTI_DEVICE void fetchLine(LineStage& stage, const LineChunks& residual, int firstTurn, int line) {
  __syncwarp();  // all have read what was there
#pragma unroll
  for (int i = 0; i < kLineTurns; ++i)
    ptx::cpAsync<16>(ptx::sharedAddress(movedChunkAt(stage, i)), residual.at(firstTurn + i, line),
                     residual.has(firstTurn + i, line) ? 16 : 0);
  ptx::cpAsyncCommit();
}

template <Format kFormat>
TUTTI_DEVICE void addResidual(float (&x)[kSumsOfLine], LineStage& stage) {
#pragma unroll
  for (int i = 0; i < kSumsOfLine / 8; ++i) {
    uint32_t pairs[4];
    ptx::ldmatrix(pairs, matrixRowAt(stage, i));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 two = widenPair<kFormat>(pairs[j]);
      x[8 * i + 2 * j] += two.x, x[8 * i + 2 * j + 1] += two.y;
    }
  }
}

template <Format kFormat>
TUTTI_DEVICE void storeLine(const float (&x)[kSumsOfLine], LineStage& stage, const LineChunks& c,
                            int firstTurn, int line) {
#pragma unroll
  for (int i = 0; i < kSumsOfLine; i += 8) {
    uint32_t pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = narrowPair<kFormat>(x[i + 2 * j], x[i + 2 * j + 1]);
    ptx::stmatrix(matrixRowAt(stage, i / 8), pairs);
  }
  __syncwarp();
  uint4 chunks[kLineTurns];
#pragma unroll
  for (int i = 0; i < kLineTurns; ++i)
    chunks[i] = *reinterpret_cast<const uint4*>(movedChunkAt(stage, i));
#pragma unroll
  for (int i = 0; i < kLineTurns; ++i)
    if (c.has(firstTurn + i, line))
      *reinterpret_cast<uint4*>(c.at(firstTurn + i, line)) = chunks[i];
}

/// All sums of a warp, as storeAny() has them; kFormat is that of c, bias and residual. What is
/// done to sums is in the order of storeSums(), so that bits are the same. Lines take turns at two
/// stages: before a line is written all lanes have passed the barrier of the one before, behind
/// which the stage has been read. The residual is read two lines ahead, each into the stage that
/// its line of c goes through.
template <Format kFormat, bool kIsPlain, int kRowStep, int kBlocks, int kCount>
TUTTI_DEVICE void storeLinesOf(const GemmOutput& out, WarpStage& stages,
                               const float (&sums)[kBlocks][kCount], int32_t row, int32_t column) {
  constexpr int kAcross = kCount / kSumsOfLine, kLines = kBlocks * kAcross;
  constexpr int kTurnsOfBlock = kRowStep / kRowsAtOnce;
  const LineChunks c(out.c, out, row, column);
  const LineChunks residual(out.epilogue.residual, out, row, column);
  const bool hasResidual = out.epilogue.residual.elements.data != nullptr;
  const auto fetch = [&](int i) {
    if (kIsPlain || i >= kLines || !hasResidual) return;
    fetchLine(stages.lines[i % 2], residual, i / kAcross * kTurnsOfBlock, i % kAcross);
  };
  fetch(0);
  fetch(1);
  LineBias bias[kAcross];
  if constexpr (!kIsPlain) readBias(bias, out, column);
#pragma unroll
  for (int i = 0; i < kLines; ++i) {
    LineStage& stage = stages.lines[i % 2];
    float x[kSumsOfLine];
#pragma unroll
    for (int j = 0; j < kSumsOfLine; ++j) x[j] = sums[i / kAcross][i % kAcross * kSumsOfLine + j];
    if constexpr (!kIsPlain) {
      if (out.isScaled != 0) {
#pragma unroll
        for (int j = 0; j < kSumsOfLine; ++j) x[j] = times(x[j], out.scale);
      }
      if (out.epilogue.bias.data != nullptr) addBias<kFormat>(x, bias[i % kAcross]);
      if (hasResidual) {
        i + 1 < kLines ? ptx::cpAsyncWait<1>() : ptx::cpAsyncWait<0>();
        __syncwarp();
        addResidual<kFormat>(x, stage);
        __syncwarp();
      }
    }
    storeLine<kFormat>(x, stage, c, i / kAcross * kTurnsOfBlock, i % kAcross);
    fetch(i + 2);
  }
}
template <Format kFormat, int kRowStep, int kBlocks, int kCount>
TUTTI_DEVICE void storeLines(const GemmOutput& out, WarpStage& stages,
                             const float (&sums)[kBlocks][kCount], int32_t row, int32_t column) {
  if (out.isScaled == 0 && out.epilogue.bias.data == nullptr &&
      out.epilogue.residual.elements.data == nullptr)
    storeLinesOf<kFormat, true, kRowStep>(out, stages, sums, row, column);
  else
    storeLinesOf<kFormat, false, kRowStep>(out, stages, sums, row, column);
}

}  // namespace tutti::parallel::cuda
