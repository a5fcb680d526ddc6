/* A profiler's way: the program has an ncclAllReduce of its own, which everybody's calls reach, and
 * which calls the library's by its other name. */

#include "harness.h"

static int calls;

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  ++calls;
  return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}

int main(void) {
  ncclComm_t comm = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  float x = 3, y = 0;
  OK(ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, comm, NULL));
  CHECK(calls == 1 && y == 3);
  OK(ncclCommDestroy(comm));
  return 0;
}
