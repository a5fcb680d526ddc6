#pragma once

// What the calls of Python check before they make a call of C++: sizes, types and reductions. Each
// throws InvalidArgument with the argument's name, and says what would be right.

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <vector>

#include <tutti/arguments.h>

#include "src/python/buffer.h"

namespace tutti::python {

/// `object`, or no memory for None.
ArrayBuffer sendBuffer(nanobind::handle object, const std::string& dtype);
ArrayBuffer recvBuffer(nanobind::handle object, const std::string& dtype);

/// Two buffers of one call. What lacks memory takes part with none.
void requireSameType(const ArrayBuffer& send, const ArrayBuffer& recv);
/// `right` tells how the number comes about.
void requireCount(const char* name, const ArrayBuffer& buffer, size_t count,
                  const std::string& right);
/// The elements of one of `size` equal blocks.
size_t blockOf(const char* name, const ArrayBuffer& buffer, int size);
/// The blocks lie in the buffer. `offsets` may be empty: one after another.
void requireBlocks(const char* name, const ArrayBuffer& buffer, const std::vector<size_t>& counts,
                   const std::vector<size_t>& offsets, int size);

ReduceOp opOf(const std::string& name, const ArrayBuffer& buffer);

/// The text must outlive the options.
CallOptions optionsOfCall(const std::string& algorithm);

}  // namespace tutti::python
