#pragma once

// fold() by a function of the caller's own.

#include <cstddef>
#include <functional>
#include <span>

namespace tutti::numbers {

/// inout = in combined with inout, for `count` elements; both aligned to a line.
using CombineFunction = std::function<void(const void* in, void* inout, size_t count)>;

/// Folds `count` elements of `elementBytes` bytes from all sources into every target, one after
/// another or, if `canonical`, as the aligned binary tree over the list. Sources and targets as in
/// FoldRequest. One source is copied.
void foldBy(const CombineFunction& combine, size_t elementBytes, bool canonical,
            std::span<const void* const> sources, std::span<void* const> targets, size_t count);

}  // namespace tutti::numbers
