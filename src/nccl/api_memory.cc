// ncclMem*, ncclCommRegister.

#include "src/base/check.h"
#include "src/nccl/debug_log.h"
#include "src/nccl/device_pointers.h"
#include "src/nccl/entry.h"
#include "src/nccl/handles.h"
#include "src/nccl/memory_blocks.h"

using namespace tutti::nccl;

namespace {

void* registerBuffer(ncclComm_t handle, void* buffer, size_t bytes) {
  TUTTI_REQUIRE(buffer && bytes > 0, "buff is ", buffer, " and size ", bytes);
  const auto comm = NcclHandles::ofProcess().find(handle);
  if (comm->facts().place.kind == tutti::DeviceKind::Host) requireHostMemory({buffer});
  const Comm::Use use(comm);
  auto memory = MemoryBlocks::ofProcess().share(use.communicator(), buffer, bytes);
  DebugLog::ofProcess().info(Subsystem::Reg, "comm ", handle, " registers ", bytes, " bytes at ",
                             buffer, memory ? ", which other ranks can address" : "");
  return comm->registrations().add(std::move(memory));
}

}  // namespace

ncclResult_t pncclMemAlloc(void** ptr, size_t size) {
  return guard("ncclMemAlloc", [&] {
    TUTTI_REQUIRE(ptr, "ptr is null");
    *ptr = MemoryBlocks::ofProcess().allocate(size);
    DebugLog::ofProcess().info(Subsystem::Alloc, "ncclMemAlloc of ", size, " bytes at ", *ptr);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclMemAlloc);

ncclResult_t pncclMemFree(void* ptr) {
  return guard("ncclMemFree", [&] {
    if (ptr) MemoryBlocks::ofProcess().free(ptr);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclMemFree);

ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return guard("ncclCommRegister", [&] {
    TUTTI_REQUIRE(handle, "handle is null");
    *handle = registerBuffer(comm, buff, size);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommRegister);

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle) {
  return guard("ncclCommDeregister", [&] {
    const auto found = NcclHandles::ofProcess().find(comm);
    if (handle) found->registrations().remove(handle);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommDeregister);
