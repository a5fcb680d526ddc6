/* Somebody else's program, written for NCCL. */

#include <nccl.h>
#include <stdio.h>

#define TRY(call)                                                             \
  do {                                                                        \
    const ncclResult_t result = call;                                         \
    if (result != ncclSuccess) {                                              \
      printf("%s: %s\n", ncclGetErrorString(result), ncclGetLastError(NULL)); \
      return 1;                                                               \
    }                                                                         \
  } while (0)

int main(int unused, char** none) {
  ncclComm_t comms[3];
  float x[3] = {1, 2, 3};
  TRY(ncclCommInitAll(comms, 3, NULL));
  TRY(ncclGroupStart());
  for (int r = 0; r < 3; ++r)
    TRY(ncclAllReduce(&x[r], &x[r], 1, ncclFloat, ncclSum, comms[r], NULL));
  TRY(ncclGroupEnd());
  for (int r = 0; r < 3; ++r) TRY(ncclCommDestroy(comms[r]));
  printf("NCCL %d: sum %g\n", NCCL_VERSION_CODE, x[2]);
  return 0;
}
