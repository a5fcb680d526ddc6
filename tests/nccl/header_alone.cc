// nccl.h in C++, and the struct that the C file has made.

#include <nccl.h>

extern "C" ncclConfig_t made_by_c();

int main() {
  const ncclConfig_t fromC = made_by_c();
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  int version = 0;
  const bool well = ncclGetVersion(&version) == ncclSuccess && version == NCCL_VERSION_CODE &&
                    pncclGetErrorString(ncclSuccess) && fromC.size == config.size &&
                    info.estimatedTime < 0;
  return well ? 0 : 1;
}
