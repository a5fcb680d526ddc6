#pragma once

// From a warp's sums to c of 16 bits (OutputWay::Lines): scale, bias, activation and residual in
// registers, and 16 rows by 64 columns at a time through the warp's shared memory, from which 8
// lanes store a line of 128 bytes of a row. What differs between outputs are a few branches of a
// line, or one of a tile, between as many loops. Without an activation the code is straight, for a
// register has no index; with one a loop over lines takes its sums from registers, so that the
// activation is there once and the code fits the instruction cache.
//
// In shared memory a line has its eight chunks of 16 bytes exchanged by the row's number: chunk k
// of row r is where k ^ r % 8 would be. So the eight rows of a matrix of stmatrix or ldmatrix are
// in different banks, as are the eight chunks of a row. stmatrix takes sums as mma and wgmma leave
// them, in pairs of 16 bits; what is read besides, the residual or the activation's `inner`, comes
// the other way, by lines and ldmatrix. Of the first two lines it is fetched before the tile's
// products are computed.
//
// Bound: bytes of c and of what is read and written besides; some 70 instructions of a warp for 16
// rows by 64 columns, 250 more with scale, bias and residual, and 15 to 30 an element of an
// activation.

#include <tutti/cuda/ptx.cuh>

#include "parallel/kernels/cuda/gemm/output_device.cuh"

namespace tutti::parallel::cuda {

inline constexpr int kLineColumns = 64, kSumsOfLine = kLineColumns / 2, kLineWidth = 128;
inline constexpr int kRowsAtOnce = 4, kLineTurns = kStageRows / kRowsAtOnce;
using LineStage = char[kStageRows][kLineWidth];

template <ElementFormat kFormat>
TUTTI_DEVICE float2 widenPair(uint32_t pair) {
  const auto low = uint16_t(pair), high = uint16_t(pair >> 16);
  return kFormat == ElementFormat::BFloat16 ? make_float2(widenBrain(low), widenBrain(high))
                                            : make_float2(ptx::widenF16(low), ptx::widenF16(high));
}
template <ElementFormat kFormat>
TUTTI_DEVICE uint32_t narrowPair(float low, float high) {
  return kFormat == ElementFormat::BFloat16 ? ptx::packBf16(low, high) : ptx::packF16(low, high);
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
  TUTTI_DEVICE LineChunks(const DeviceMatrix& x, const GemmOutput& out, int32_t firstRow,
                          int32_t firstColumn) {
    const int lane = int(threadIdx.x) % 32;
    const int32_t row = firstRow + lane / 8, column = firstColumn + lane % 8 * 8;
    first =
        static_cast<char*>(x.elements.data) + (row * x.stride + column) * int64_t{sizeof(uint16_t)};
    step = kRowsAtOnce * int64_t{sizeof(uint16_t)} * x.stride;
    rows = out.rows - row;
    columns = out.columns - column;
  }
  /// Columns that there are of the chunk `turn` steps and `line` lines from the first, 0 to 8, and
  /// where it is.
  TUTTI_DEVICE int columnsAt(int turn, int line) const {
    return rows > turn * kRowsAtOnce ? min(max(columns - line * kLineColumns, 0), 8) : 0;
  }
  TUTTI_DEVICE char* at(int turn, int line) const {
    return first + turn * step + line * kLineWidth;
  }
};

/// Two neighbours of the bias for each 8 columns of a line, as sums have them.
using LineBias = uint32_t[kLineColumns / 8];
TUTTI_DEVICE void readBias(LineBias& to, const GemmOutput& out, int32_t column) {
  const auto* const bias = static_cast<const uint16_t*>(out.epilogue.bias.data);
  const int32_t first = column + int(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < kLineColumns / 8; ++i)
    to[i] = bias != nullptr && first + i * 8 < out.columns
                ? *reinterpret_cast<const uint32_t*>(bias + first + i * 8)
                : 0;
}
/// Into the stage, by copies that are this lane's last group; zeros beyond the edges.
TUTTI_DEVICE void fetchLine(LineStage& stage, const LineChunks& from, int firstTurn, int line) {
  __syncwarp();  // all have read what was there
#pragma unroll
  for (int i = 0; i < kLineTurns; ++i)
    ptx::cpAsync<16>(ptx::sharedAddress(movedChunkAt(stage, i)), from.at(firstTurn + i, line),
                     uint32_t(from.columnsAt(firstTurn + i, line)) * uint32_t{sizeof(uint16_t)});
  ptx::cpAsyncCommit();
}

/// Eight of a lane's sums, from `first` on, as a stage has them in 16 bits.
template <ElementFormat kFormat>
TUTTI_DEVICE void readEight(float (&to)[8], LineStage& stage, int first) {
  uint32_t pairs[4];
  ptx::ldmatrix(pairs, matrixRowAt(stage, first / 8));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 two = widenPair<kFormat>(pairs[i]);
    to[2 * i] = two.x, to[2 * i + 1] = two.y;
  }
}
template <ElementFormat kFormat>
TUTTI_DEVICE void packEight(uint32_t (&to)[4], const float* from) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = narrowPair<kFormat>(from[2 * i], from[2 * i + 1]);
}
template <ElementFormat kFormat>
TUTTI_DEVICE void writeEight(LineStage& stage, const float* from, int first) {
  uint32_t pairs[4];
  packEight<kFormat>(pairs, from);
  ptx::stmatrix(matrixRowAt(stage, first / 8), pairs);
}

/// A stage to global memory, when all lanes have written to it.
TUTTI_DEVICE void storeLine(LineStage& stage, const LineChunks& to, int firstTurn, int line) {
  __syncwarp();
  uint4 chunks[kLineTurns];
#pragma unroll
  for (int i = 0; i < kLineTurns; ++i)
    chunks[i] = *reinterpret_cast<const uint4*>(movedChunkAt(stage, i));
#pragma unroll
  for (int i = 0; i < kLineTurns; ++i)
    if (to.columnsAt(firstTurn + i, line) == 8)
      *reinterpret_cast<uint4*>(to.at(firstTurn + i, line)) = chunks[i];
  const int columns = to.columnsAt(firstTurn, line);
  if (columns == 0 || columns == 8) return;
#pragma unroll 1
  for (int i = 0; i < kLineTurns; ++i)  // the last columns of a row, one by one
#pragma unroll 1
    for (int j = 0; j < to.columnsAt(firstTurn + i, line); ++j)
      reinterpret_cast<uint16_t*>(to.at(firstTurn + i, line))[j] =
          reinterpret_cast<const uint16_t*>(movedChunkAt(stage, i))[j];
}

/// What is fetched two lines ahead, each into the stage that its line of c goes through. Of no data
/// where nothing is.
TUTTI_DEVICE DeviceMatrix fetchedOf(const Epilogue& e) {
  const bool isInner =
      e.activation == Activation::GeluBackward || e.activation == Activation::SwiGlu;
  DeviceMatrix x = e.residual;
  if (isInner) x.elements.data = e.inner.elements.data, x.stride = e.inner.stride;
  return x;
}
/// The first two of all lines of a warp, or the one there is, as storeLines() takes them.
template <int kLines, int kAcross, int kRowStep>
TUTTI_DEVICE void fetchFirstLines(const GemmOutput& out, WarpStage& stages, int32_t row,
                                  int32_t column) {
  const DeviceMatrix fetched = fetchedOf(out.epilogue);
  if (fetched.elements.data == nullptr) return;
  const LineChunks from(fetched, out, row, column);
  fetchLine(stages.lines[0], from, 0, 0);
  if constexpr (kLines > 1)
    fetchLine(stages.lines[1], from, 1 / kAcross * (kRowStep / kRowsAtOnce), 1 % kAcross);
}

/// The half of a matrix of SwiGLU that lies right of `left`.
TUTTI_DEVICE LineChunks rightOf(const LineChunks& left, const GemmOutput& out) {
  LineChunks right = left;
  right.first += out.columns * int64_t{sizeof(uint16_t)};
  return right;
}

/// Of SwiGLU's backward form: both halves of `inner` in a stage each.
TUTTI_DEVICE void fetchHalves(const GemmOutput& out, WarpStage& stages, const LineChunks& inner,
                              int turn, int line) {
  fetchLine(stages.lines[0], inner, turn, line);
  fetchLine(stages.lines[1], rightOf(inner, out), turn, line);
  ptx::cpAsyncWait<0>();
}

/// Eight sums, from `first` on, of line i, of kAcross beside each other.
template <int kAcross, int kBlocks, int kCount>
TUTTI_DEVICE void takeEight(float (&x)[8], const float (&sums)[kBlocks][kCount], int i, int first) {
#pragma unroll
  for (int k = 0; k < kBlocks * kAcross; ++k) {
    if (k > 0 && k != i) continue;  // the first ones are replaced by the others
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = sums[k / kAcross][k % kAcross * kSumsOfLine + first + j];
  }
}

template <ElementFormat kFormat>
TUTTI_DEVICE void scaleAndBias(float (&x)[8], const GemmOutput& out, const LineBias& bias,
                               int first) {
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = times(x[i], out.scale);  // by 1 they stay as they are
  if (out.epilogue.bias.data != nullptr) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 two = widenPair<kFormat>(bias[first / 4 + i / 2]);
      x[2 * i] += two.x, x[2 * i + 1] += two.y;
    }
  }
}

/// What the activation, or the residual where there is one, makes of eight sums; and, of
/// SwiGluBackward, what goes to the right half of c.
template <ElementFormat kFormat, Activation kActivation>
TUTTI_DEVICE void activateEight(float (&x)[8], float (&right)[8], WarpStage& stages,
                                LineStage& stage, int first, bool isFetched) {
  float in[8] = {};
  if constexpr (kActivation == Activation::None) {
    if (!isFetched) return;
  }
  if constexpr (kActivation != Activation::Gelu) readEight<kFormat>(in, stage, first);
  if constexpr (kActivation == Activation::SwiGluBackward)
    readEight<kFormat>(right, stages.lines[1], first);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if constexpr (kActivation == Activation::None)
      x[i] += in[i];
    else
      activateOne<kActivation>(kActivation == Activation::Gelu ? x[i] : in[i], x[i], right[i]);
  }
}

/// All sums of a warp, as storeAny() has them, behind fetchFirstLines(); kFormat is that of c,
/// bias, residual and `inner`. What is done to sums is in the order of storeSums(), so that bits
/// are the same. Eight sums are narrowed where the stage has what was fetched for them, which a
/// warp reads all together. Lines take turns at two stages: before a line is written all lanes have
/// passed the barrier of the one before, behind which the stage has been read; where lines are odd
/// the first one's stage is that of the last one of the tile before.
template <ElementFormat kFormat, Activation kActivation, bool kIsPlain, int kRowStep, int kBlocks,
          int kCount>
TUTTI_DEVICE void storeLinesOf(const GemmOutput& out, WarpStage& stages,
                               const float (&sums)[kBlocks][kCount], int32_t row, int32_t column) {
  constexpr bool kKeeps = kActivation == Activation::Gelu || kActivation == Activation::SwiGlu;
  constexpr bool kHasHalves = kActivation == Activation::SwiGluBackward;
  constexpr int kAcross = kCount / kSumsOfLine, kLines = kBlocks * kAcross;
  constexpr int kTurnsOfBlock = kRowStep / kRowsAtOnce;
  [[maybe_unused]] constexpr int kUnrolled = kActivation == Activation::None ? kLines : 1;
  const LineChunks c(out.c, out, row, column), inner(out.epilogue.inner, out, row, column);
  const LineChunks fetched(fetchedOf(out.epilogue), out, row, column);
  const bool isFetched = !kIsPlain && fetchedOf(out.epilogue).elements.data != nullptr;
  const bool isKept = kKeeps && out.epilogue.inner.elements.data != nullptr;
  LineBias bias;
  if constexpr (!kIsPlain) readBias(bias, out, column);
  if constexpr (kLines % 2 == 1) __syncwarp();
#pragma unroll kUnrolled
  for (int i = 0; i < kLines; ++i) {
    LineStage& stage = stages.lines[kHasHalves ? 0 : i % 2];
    const int turn = i / kAcross * kTurnsOfBlock, line = i % kAcross;
    if constexpr (kHasHalves) fetchHalves(out, stages, inner, turn, line);
    if (isFetched) i + 1 < kLines ? ptx::cpAsyncWait<1>() : ptx::cpAsyncWait<0>();
    if (isFetched || kHasHalves) __syncwarp();
    [[maybe_unused]] uint32_t kept[kSumsOfLine / 8][4];
#pragma unroll
    for (int first = 0; first < kSumsOfLine; first += 8) {
      float x[8], right[8] = {};
      takeEight<kAcross>(x, sums, i, first);
      if constexpr (!kIsPlain) {
        scaleAndBias<kFormat>(x, out, bias, first);
        if constexpr (kKeeps) packEight<kFormat>(kept[first / 8], x);
        activateEight<kFormat, kActivation>(x, right, stages, stage, first, isFetched);
      }
      writeEight<kFormat>(stage, x, first);
      if constexpr (kHasHalves) writeEight<kFormat>(stages.lines[1], right, first);
    }
    if constexpr (!kIsPlain) readBias(bias, out, column + (i + 1) % kAcross * kLineColumns);
    storeLine(stage, c, turn, line);
    if (isKept) {
      __syncwarp();
#pragma unroll
      for (int j = 0; j < kSumsOfLine / 8; ++j) ptx::stmatrix(matrixRowAt(stage, j), kept[j]);
      storeLine(stage, kActivation == Activation::SwiGlu ? rightOf(inner, out) : inner, turn, line);
    }
    if constexpr (kHasHalves) storeLine(stages.lines[1], rightOf(c, out), turn, line);
    if (isFetched && i + 2 < kLines)
      fetchLine(stage, fetched, (i + 2) / kAcross * kTurnsOfBlock, (i + 2) % kAcross);
  }
}
template <ElementFormat kFormat, int kRowStep, int kBlocks, int kCount>
TUTTI_DEVICE void storeLines(const GemmOutput& out, WarpStage& stages,
                             const float (&sums)[kBlocks][kCount], int32_t row, int32_t column) {
  const auto store = [&]<Activation kActivation, bool kIsPlain = false>() {
    storeLinesOf<kFormat, kActivation, kIsPlain, kRowStep>(out, stages, sums, row, column);
  };
  const Epilogue& e = out.epilogue;
  switch (e.activation) {
    case Activation::None:
      if (out.isScaled == 0 && e.bias.data == nullptr && e.residual.elements.data == nullptr)
        return store.template operator()<Activation::None, true>();
      return store.template operator()<Activation::None>();
    case Activation::Gelu: return store.template operator()<Activation::Gelu>();
    case Activation::GeluBackward: return store.template operator()<Activation::GeluBackward>();
    case Activation::SwiGlu: return store.template operator()<Activation::SwiGlu>();
    case Activation::SwiGluBackward: return store.template operator()<Activation::SwiGluBackward>();
  }
}

}  // namespace tutti::parallel::cuda
