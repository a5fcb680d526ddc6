#include "tests/emulation/runtime/foreign.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "tests/emulation/emulation.h"

namespace tutti::emulation {

int makeFile(const char* name, size_t bytes) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
    fail("no file in memory of " + std::to_string(bytes) + " bytes");
  return file;
}

int openForeign(const ForeignFile& foreign) {
  const std::string path =
      "/proc/" + std::to_string(foreign.process) + "/fd/" + std::to_string(foreign.file);
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace tutti::emulation
