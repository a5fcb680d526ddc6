#include "src/topology/read_machine.h"

#include <unistd.h>

#include <array>

#include "src/base/check.h"
#include "src/base/shared_library.h"

namespace tutti::topology {
namespace {

std::string hostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

void readUcx(Machine& machine) {
  const base::SharedLibrary library("libucp.so.0");
  LibraryVersion ucx{.name = "UCX", .missing = library.missing()};
  void (*getVersion)(unsigned*, unsigned*, unsigned*) = nullptr;
  if (library.find("ucp_get_version", getVersion)) {
    unsigned major = 0, minor = 0, release = 0;
    getVersion(&major, &minor, &release);
    ucx.version = base::message(major, ".", minor, ".", release);
  } else if (library) {
    ucx.missing = "libucp.so.0 lacks ucp_get_version";
  }
  machine.libraries.push_back(std::move(ucx));
}

Machine readMachine() {
  Machine machine{.host = hostName()};
  readProcessors(machine);
  readNics(machine, loadVerbs());
  readInterfaces(machine);
  readGpus(machine, loadCudaDriver());
  readNvLinks(machine, loadNvml());
  readUcx(machine);
  return machine;
}

}  // namespace tutti::topology
