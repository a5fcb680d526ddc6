#pragma once

// The two things about integers that are not a fold: multiplication by a scalar and division. Their
// meaning is stated in fold.h.

#include <cstddef>

#include <tutti/types.h>

namespace tutti::numbers {

constexpr bool isInteger(DataType type) { return type <= DataType::UInt64; }

/// target[i] = clamp(trunc(source[i] * scalar)); any alignment; source and target may be equal.
void scaleIntegers(DataType type, const void* source, double scalar, size_t count, void* target);

/// data[i] /= divisor, toward zero; any alignment.
void divideIntegers(DataType type, void* data, int divisor, size_t count);

}  // namespace tutti::numbers
