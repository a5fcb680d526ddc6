#include "src/numbers/fold_by.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "src/base/check.h"

namespace tutti::numbers {
namespace {

constexpr size_t kStageBytes = 4096;
struct alignas(64) Stage {
  std::byte bytes[kStageBytes];
};

/// The fold of a part of the sources that fits a stage.
class FoldPart {
 public:
  FoldPart(const CombineFunction& combine, std::span<const void* const> sources, size_t offset,
           size_t bytes, size_t count, std::vector<Stage>& stages)
      : combine_(combine),
        sources_(sources),
        offset_(offset),
        bytes_(bytes),
        count_(count),
        stages_(stages) {}

  /// In stage 0.
  void listed() {
    load(0, 0);
    for (size_t s = 1; s < sources_.size(); ++s) {
      load(s, 1);
      combine_(stages_[0].bytes, stages_[1].bytes, count_);
      std::memcpy(stages_[0].bytes, stages_[1].bytes, bytes_);
    }
  }

  /// Of sources [first, first + n), in stage `depth`; uses those above it.
  void tree(size_t first, size_t n, size_t depth) {
    if (n == 1) return load(first, depth);
    const size_t left = std::bit_ceil(n) / 2;
    tree(first, left, depth);
    tree(first + left, n - left, depth + 1);
    combine_(stages_[depth].bytes, stages_[depth + 1].bytes, count_);
    std::memcpy(stages_[depth].bytes, stages_[depth + 1].bytes, bytes_);
  }

 private:
  void load(size_t source, size_t stage) {
    std::memcpy(stages_[stage].bytes, static_cast<const std::byte*>(sources_[source]) + offset_,
                bytes_);
  }

  const CombineFunction& combine_;
  std::span<const void* const> sources_;
  const size_t offset_, bytes_, count_;
  std::vector<Stage>& stages_;
};

}  // namespace

void foldBy(const CombineFunction& combine, size_t elementBytes, bool canonical,
            std::span<const void* const> sources, std::span<void* const> targets, size_t count) {
  TUTTI_REQUIRE(!sources.empty() && !targets.empty(), "a fold has no sources or no targets");
  std::vector<Stage> stages(canonical ? 2 + std::bit_width(sources.size()) : 2);
  const size_t step = kStageBytes / elementBytes;
  for (size_t begin = 0; begin < count; begin += step) {
    const size_t part = std::min(step, count - begin);
    const size_t offset = begin * elementBytes, bytes = part * elementBytes;
    FoldPart fold(combine, sources, offset, bytes, part, stages);
    if (canonical)
      fold.tree(0, sources.size(), 0);
    else
      fold.listed();
    for (void* target : targets)
      std::memcpy(static_cast<std::byte*>(target) + offset, stages[0].bytes, bytes);
  }
}

}  // namespace tutti::numbers
