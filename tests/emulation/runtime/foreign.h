#pragma once

// Files in memory that processes share: what IPC handles name. A handle holds the process and its
// descriptor; the other process opens the same file through /proc while the first one lives.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti::emulation {

struct ForeignFile {
  pid_t process = 0;
  int file = -1;
  int device = 0;            // its place in the machine
  uint64_t startBytes = 0;   // where the mapping begins in the file
  uint64_t mappedBytes = 0;  // whole pages
  uint64_t insideBytes = 0;  // from there to the allocation
  uint64_t bytes = 0;
  uint64_t magic = 0x7475747469697063;
};

/// A file of so many bytes, all zero; or a descriptor below 0.
int makeFile(const char* name, size_t bytes);
int openForeign(const ForeignFile& foreign);

template <class Handle>
void writeHandle(const ForeignFile& foreign, Handle& to) {
  static_assert(sizeof(Handle) >= sizeof(ForeignFile));
  std::memset(&to, 0, sizeof to);
  std::memcpy(&to, &foreign, sizeof foreign);
}
/// False where the handle is none.
template <class Handle>
bool readHandle(const Handle& from, ForeignFile& to) {
  std::memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to.magic == ForeignFile().magic;
}

}  // namespace tutti::emulation
