/* device_pointers DRIVER: in a program that has loaded a CUDA driver, device memory is refused with
 * a sentence; other memory is used. */

#include <dlfcn.h>
#include <stdint.h>

#include "fake_driver.h"
#include "harness.h"

int main(int argc, char** argv) {
  CHECK_EQ(argc, 2);
  ncclComm_t comm = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(ncclCommDestroy(comm));
  if (!dlopen(argv[1], RTLD_NOW)) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  OK(ncclCommInitAll(&comm, 1, NULL));
  float x = 3, y = 0, *device = (float*)(uintptr_t)FAKE_DEVICE_ADDRESS;
  OK(ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, NULL));
  CHECK(y == 3);
  FAILS(ncclAllReduce(device, &y, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidArgument, "a GPU");
  FAILS(ncclBroadcast(&x, device, 1, ncclFloat, 0, comm, NULL), ncclInvalidArgument, "a GPU");
  FAILS(ncclSend(device, 1, ncclFloat, 0, comm, NULL), ncclInvalidArgument, "a GPU");
  FAILS(ncclRecv(device, 1, ncclFloat, 0, comm, NULL), ncclInvalidArgument, "a GPU");
  void* handle = NULL;
  FAILS(ncclCommRegister(comm, device, 4, &handle), ncclInvalidArgument, "a GPU");
  ncclRedOp_t op = ncclSum;
  FAILS(ncclRedOpCreatePreMulSum(&op, device, ncclFloat, ncclScalarDevice, comm),
        ncclInvalidArgument, "a GPU");
  OK(ncclCommRegister(comm, (void*)(uintptr_t)FAKE_MANAGED_ADDRESS, 4, &handle));
  OK(ncclCommDestroy(comm));
  return 0;
}
