/* nccl.h, included first and alone: strict C11 here, C++ in header_alone.cc. */

#include <nccl.h>

ncclConfig_t made_by_c(void);
ncclConfig_t made_by_c(void) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return config;
}
