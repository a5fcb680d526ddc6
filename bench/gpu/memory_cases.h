#pragma once

// The kernels that memory bounds, as calls whose operands a table describes: from it come their
// content, the bytes that they must move, and what the host has for a part of their rows.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/gpu/gpu.h"

namespace tutti::bench {

/// Rows after which content repeats, or all where they are fewer; else rows are a multiple of it.
inline constexpr int64_t kRowPeriod = 16;

struct MemorySizes {
  int64_t rows = 16384, width = 4096, context = 2048, vocabulary = 50257;
};

enum class Content {
  Random,    ///< multiples of 1/8 from -3 to 3
  Positive,  ///< from 1/8 on
  Ids,       ///< below the vocabulary, or below `end`
  Places,    ///< each once, those of a period behind those of the period before
  Zero       ///< of any type: what a kernel adds to, or scratch
};

struct MemoryOperand {
  DType type = DType::BFloat16;
  /// Of so many of the case's units; where that is the same for any, rows share it.
  std::function<Shape(int64_t units)> shape;
  Content content = Content::Random;
  bool isRead = true, isWritten = false;
  int64_t usedRows = 0;  ///< of a table that is read in part, each once; 0: all
  int64_t end = 0;       ///< of ids; 0: the vocabulary's
  /// A result in memory of the host that kernels reach, as calls have those that they wait for:
  /// none of the GPU's bytes, and NaN at first.
  bool isPinned = false;
};

/// A call on `units`, rows or sequences, of which the content repeats after `period`.
struct MemoryCase {
  std::string name;
  int64_t units = 1, period = 1;
  std::vector<MemoryOperand> operands;
  /// Returns what the kernel does, or 0: a sum over rows.
  std::function<double(parallel::Kernels&, std::span<const Tensor>)> call;
  /// Of a kernel that is only a part of what Kernels has, or of a call without its wait: enqueues
  /// it on the GPU, where call() is then the host's alone.
  std::function<void(std::span<const Tensor>, CUstream_st*)> launch = {};
  /// What call() returns, as the first launch has left it in operands that are on the GPU.
  std::function<double(Gpu&, std::span<const Tensor>)> left = {};

  double bytes() const;  ///< of the GPU's memory, read and written, each once
};

/// What so many Ids are.
std::vector<int32_t> idsBelow(int64_t end, int64_t count);

std::vector<MemoryCase> memoryCases(const MemorySizes& sizes);

/// Operands on the GPU, whose content begins as it does on the host in float64.
class MemoryRun {
 public:
  MemoryRun(Gpu& gpu, const MemoryCase& made, int64_t vocabulary);
  double call();
  /// Calls once on both. Throws Internal, saying where, when anything written is not the host's; to
  /// be called first.
  void check();

 private:
  void checkOperand(size_t index) const;
  void checkNumbers(size_t index) const;
  Gpu& gpu_;
  const MemoryCase& case_;
  parallel::Arena host_{"host"};
  std::vector<Tensor> onGpu_, onHost_;
};

}  // namespace tutti::bench
