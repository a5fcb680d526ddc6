#include "transports/ucx/locked_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "src/base/check.h"
#include "src/base/rdma_devices.h"

namespace tutti::transports::ucx {
namespace {

/// The limit does not hold for who has CAP_IPC_LOCK.
bool limited() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return true;
  return (sets[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) == 0;
}

}  // namespace

void requireLockableMemory(const Setting& devices, const Setting& tls) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= kLeastLockedBytes ||
      !limited() || !allowsRdma(tls))
    return;
  for (const std::string& device : base::usableRdmaDevices())
    if (allowsDevice(devices, device))
      base::fail(ErrorCode::System, "RDMA device ", device, " needs memory that can be locked, ",
                 kLeastLockedBytes, " bytes and more, and this process may lock ", limit.rlim_cur,
                 " (RLIMIT_MEMLOCK): raise the limit (ulimit -l unlimited), or do without RDMA "
                 "(UCX_TLS=tcp,self)");
}

}  // namespace tutti::transports::ucx
