#pragma once

#include <tutti/types.h>

namespace tutti::numbers {

/// One element in memory, at any address, as a double: the nearest, of an integer of 64 bits beyond
/// 2^53. Throws InvalidArgument when there is no such type.
double elementAt(DataType type, const void* at);

}  // namespace tutti::numbers
