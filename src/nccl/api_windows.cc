// Windows: ncclCommWindow*, ncclWinGetUserPtr, ncclGet*DevicePointer.

#include <tutti-nccl/nccl_device.h>

#include "src/base/check.h"
#include "src/nccl/debug_log.h"
#include "src/nccl/device_pointers.h"
#include "src/nccl/entry.h"
#include "src/nccl/group.h"
#include "src/nccl/handles.h"
#include "src/nccl/memory_blocks.h"
#include "src/nccl/windows.h"

using namespace tutti::nccl;

namespace {

ncclWindow_t registerWindow(ncclComm_t handle, void* buffer, size_t bytes) {
  TUTTI_REQUIRE(buffer && bytes > 0, "buff is ", buffer, " and size ", bytes);
  const auto comm = NcclHandles::ofProcess().find(handle);
  if (comm->facts().place.kind == tutti::DeviceKind::Host) requireHostMemory({buffer});
  const Comm::Use use(comm);
  auto made = std::make_shared<NcclWindow>();
  made->comm = handle;
  made->shared = MemoryBlocks::ofProcess().share(use.communicator(), buffer, bytes);
  made->window = use.communicator().window({buffer, bytes});
  DebugLog::ofProcess().info(Subsystem::Reg, "comm ", handle, " makes a window of ", bytes,
                             " bytes at ", buffer,
                             made->shared ? ", which other ranks can address" : "");
  return WindowHandles::ofProcess().add(std::move(made));
}

/// Null where this rank does not address it.
void* addressIn(ncclWindow_t handle, size_t offset, int peer) {
  const auto found = WindowHandles::ofProcess().find(handle);
  const size_t bytes = found->window.bytes(peer);
  TUTTI_REQUIRE(offset < bytes, "offset ", offset, " is not in the window of rank ", peer,
                ", which has ", bytes, " bytes");
  auto* const address = static_cast<std::byte*>(found->window.address(peer));
  return address ? address + offset : nullptr;
}

/// There is no multicast memory here. NCCL gives null, too, on machines without it.
ncclResult_t noMulticast(const char* function, ncclWindow_t window, void** out) {
  return guard(function, [&] {
    TUTTI_REQUIRE(out, "outPtr is null");
    WindowHandles::ofProcess().find(window);
    *out = nullptr;
    return ncclSuccess;
  });
}

}  // namespace

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                     int winFlags) {
  return guardInGroup("ncclCommWindowRegister", [&] {
    TUTTI_REQUIRE(win, "win is null");
    constexpr int kKnown = NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING;
    constexpr int kDevice = NCCL_WIN_GIN_ONLY | NCCL_WIN_CFT_COUNTED;
    if ((winFlags & kDevice) != 0)
      tutti::base::fail(tutti::ErrorCode::InvalidUsage, "winFlags is ", winFlags,
                        ": NCCL_WIN_GIN_ONLY and NCCL_WIN_CFT_COUNTED are for device "
                        "communicators, which there are none of; register without them and use "
                        "ncclPutSignal()");
    TUTTI_REQUIRE((winFlags & ~kKnown) == 0, "winFlags is ", winFlags,
                  ", not a sum of NCCL_WIN_COLL_SYMMETRIC and NCCL_WIN_STRICT_ORDERING");
    *win = registerWindow(comm, buff, size);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommWindowRegister);

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return guard("ncclCommWindowDeregister", [&] {
    NcclHandles::ofProcess().find(comm);
    if (win) WindowHandles::ofProcess().remove(win, comm);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclCommWindowDeregister);

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr) {
  return guard("ncclWinGetUserPtr", [&] {
    TUTTI_REQUIRE(outUserPtr, "outUserPtr is null");
    NcclHandles::ofProcess().find(comm);
    *outUserPtr = WindowHandles::ofProcess().find(win, comm)->window.buffer();
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclWinGetUserPtr);

ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer,
                                       void** outPtr) {
  return guard("ncclGetPeerDevicePointer", [&] {
    TUTTI_REQUIRE(outPtr, "outPtr is null");
    *outPtr = addressIn(window, offset, peer);
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclGetPeerDevicePointer);

ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int lsaRank,
                                      void** outPtr) {
  return guard("ncclGetLsaDevicePointer", [&] {
    TUTTI_REQUIRE(outPtr, "outPtr is null");
    const ncclComm_t comm = WindowHandles::ofProcess().find(window)->comm;
    const ncclTeam_t team = pncclTeamLsa(comm);
    TUTTI_REQUIRE(lsaRank >= 0 && lsaRank < team.nRanks, "lsaRank ", lsaRank,
                  " is not a rank of 0..", team.nRanks - 1);
    *outPtr = addressIn(window, offset, pncclTeamRankToWorld(comm, team, lsaRank));
    return ncclSuccess;
  });
}
TUTTI_NCCL_NAME(ncclGetLsaDevicePointer);

ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t, void** outPtr) {
  return noMulticast("ncclGetLsaMultimemDevicePointer", window, outPtr);
}
TUTTI_NCCL_NAME(ncclGetLsaMultimemDevicePointer);

ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t, ncclMultimemHandle_t,
                                           void** outPtr) {
  return noMulticast("ncclGetMultimemDevicePointer", window, outPtr);
}
TUTTI_NCCL_NAME(ncclGetMultimemDevicePointer);
