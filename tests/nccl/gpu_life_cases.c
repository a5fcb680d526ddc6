/* Communicators on GPUs from their beginning to their end: without blocking, aborted, split,
 * shrunk, revoked, and of ranks that die. */

#include <signal.h>

#include <cuda_runtime_api.h>

#include "gpu.h"

/* Rank 1 comes when rank 0's call has returned. */
static void nonblocking_of_rank(const Rank* rank) {
  const int device = rank->rank % device_count();
  CUDA(cudaSetDevice(device));
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  if (rank->rank == 1) await_flag(rank->shared, 0, 1);
  const ncclResult_t begun =
      ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config);
  if (rank->rank == 0) {
    CHECK_EQ(begun, ncclInProgress);
    raise_flag(rank->shared, 0);
  }
  CHECK(begun == ncclSuccess || begun == ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  Gpu g = make_gpu(rank->rank, rank->size, device, comm);
  put(&g, ncclFloat32, kCount);
  const ncclResult_t called =
      ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, comm, g.stream);
  CHECK(called == ncclSuccess || called == ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
  const ncclResult_t finalized = ncclCommFinalize(comm);
  CHECK(finalized == ncclSuccess || finalized == ncclInProgress);
  CHECK_EQ(settle(comm), ncclSuccess);
  end_gpu(&g);
}
static void nonblocking_calls(void) { run_threads(2, nonblocking_of_rank); }

/* Rank 1 never calls; rank 0's kernel spins until it is aborted from another thread. */
static void abort_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  put(&g, ncclFloat32, kCount);
  if (rank->rank == 0) {
    OK(ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream));
    nap(50);
    CHECK_EQ(cudaStreamQuery(g.stream), cudaErrorNotReady);
    OK(ncclCommAbort(g.comm));
    CUDA(cudaStreamSynchronize(g.stream));
    raise_flag(rank->shared, 0);
  } else {
    await_flag(rank->shared, 0, 1);
    OK(ncclCommAbort(g.comm));
  }
}
static void abort_spinning(void) { run_threads(2, abort_of_rank); }

static void disagreeing_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  OK(ncclAllReduce(g.in, g.out, kCount - (size_t)rank->rank, ncclFloat32, ncclSum, g.comm,
                   g.stream));
  CUDA(cudaStreamSynchronize(g.stream));
  ncclResult_t error = ncclSuccess;
  while (error == ncclSuccess) {
    OK(ncclCommGetAsyncError(g.comm, &error));
    nap(1);
  }
  CHECK_EQ(error, ncclInvalidUsage);
  OK(ncclCommAbort(g.comm));
}
static void disagreement(void) { run_threads(2, disagreeing_rank); }

static void memory_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  float* block = NULL;
  OK(ncclMemAlloc((void**)&block, 4 * kCount));
  struct cudaPointerAttributes place;
  CUDA(cudaPointerGetAttributes(&place, block));
  CHECK_EQ(place.type, cudaMemoryTypeDevice);
  CHECK_EQ(place.device, g.device);
  void* handle = NULL;
  OK(ncclCommRegister(g.comm, block, 4 * kCount, &handle));
  put(&g, ncclFloat32, kCount);
  OK(ncclAllReduce(g.in, block, kCount, ncclFloat32, ncclSum, g.comm, g.stream));
  check_reduced(&g, block, ncclFloat32, ncclSum, 0, kCount);
  OK(ncclCommDeregister(g.comm, handle));
  float host = 1;
  OK(ncclAllReduce(&host, &host, 1, ncclFloat32, ncclSum, g.comm, NULL));
  CHECK(host == (float)rank->size);
  FAILS(ncclAllReduce(&host, &host, 1, ncclFloat32, ncclSum, g.comm, g.stream), ncclInvalidArgument,
        "ordinary memory of the host");
  FAILS(ncclAllReduce(&host, g.out, 1, ncclFloat32, ncclSum, g.comm, NULL), ncclInvalidArgument,
        "recv is memory of a GPU");
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  OK(ncclMemFree(block));
  end_gpu(&g);
}
static void memory(void) { run_threads(2, memory_of_rank); }

static void split_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  const int color = rank->rank % 2, members[] = {color, color + 2};
  ncclComm_t half = NULL;
  OK(ncclCommSplit(g.comm, color, rank->rank, &half, NULL));
  Gpu h = part_of(&g, half, members, 2);
  every_collective(&h);
  meet(rank, 0);
  OK(ncclCommDestroy(half));
  end_gpu(&g);
}
static void split(void) { run_threads(4, split_of_rank); }

/* By the first of several ids. */
static void scalable_of_rank(const Rank* rank) {
  const int device = rank->rank % device_count();
  ncclUniqueId ids[] = {rank->id, rank->shared->second_id};
  ncclComm_t comm = NULL;
  CUDA(cudaSetDevice(device));
  OK(ncclCommInitRankScalable(&comm, rank->size, rank->rank, 2, ids, NULL));
  Gpu g = make_gpu(rank->rank, rank->size, device, comm);
  every_collective(&g);
  meet(rank, 0);
  end_gpu(&g);
}
static void init_scalable(void) { run_threads(3, scalable_of_rank); }

/* The parent stays usable, for the excluded ranks too. */
static void shrink_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  int excluded[] = {3, 1};
  const int left[] = {0, 2};
  if (rank->rank % 2 == 0) {
    ncclComm_t fewer = NULL;
    OK(ncclCommShrink(g.comm, excluded, 2, &fewer, NULL, NCCL_SHRINK_DEFAULT));
    Gpu h = part_of(&g, fewer, left, 2);
    every_collective(&h);
    OK(ncclCommDestroy(fewer));
  }
  meet(rank, 0); /* for that frees memory */
  every_collective(&g);
  meet(rank, 1);
  end_gpu(&g);
}
static void shrink(void) { run_threads(4, shrink_of_rank); }

/* What the communicator has failed with. */
static ncclResult_t await_failure(ncclComm_t comm) {
  ncclResult_t error = ncclSuccess;
  while (error == ncclSuccess) {
    OK(ncclCommGetAsyncError(comm, &error));
    nap(1);
  }
  return error;
}

/* Ranks 0 and 2 of three go on by themselves. */
static void go_on_without_1(const Rank* rank, Gpu* g, ncclComm_t fewer, int flag) {
  const int left[] = {0, 2};
  Gpu h = part_of(g, fewer, left, 2);
  every_collective(&h);
  reduce_every_type(&h);
  raise_flag(rank->shared, flag);
  await_flag(rank->shared, flag, 2);
  OK(ncclCommDestroy(fewer));
}

/* Rank 1 is killed: the others' calls end, and they go on without it. */
static void death_of_rank(const Rank* rank, int device) {
  Gpu g = enter_on(rank, device);
  int dead = 1;
  ncclComm_t fewer = NULL;
  put(&g, ncclFloat32, kCount);
  OK(ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream));
  check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
  meet(rank, 0);
  if (rank->rank == dead) raise(SIGKILL);
  const ncclResult_t called =
      ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream);
  CHECK(called == ncclSuccess || called == ncclRemoteError);
  CUDA(cudaStreamSynchronize(g.stream));
  CHECK_EQ(await_failure(g.comm), ncclRemoteError);
  HAS(ncclGetLastError(g.comm), "rank 1");
  CHECK_EQ(ncclCommShrink(g.comm, &dead, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT), ncclRemoteError);
  OK(ncclCommShrink(g.comm, &dead, 1, &fewer, NULL, NCCL_SHRINK_ABORT));
  go_on_without_1(rank, &g, fewer, 1);
  OK(ncclCommAbort(g.comm));
}
static void death_on_devices(const Rank* rank) { death_of_rank(rank, rank->rank % device_count()); }
static void death_on_one(const Rank* rank) { death_of_rank(rank, 0); }
static void shrink_after_death(void) {
  run_processes(3, death_on_devices, 1);
  run_processes(3, death_on_one, 1);
}

/* Rank 1 aborts, or makes no call: shrinking ends the calls that wait for it. */
static void shrink_of_waiting_rank(const Rank* rank, int aborts) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  int out = 1;
  ncclComm_t fewer = NULL;
  put(&g, ncclFloat32, kCount);
  meet(rank, 0);
  if (rank->rank != out) {
    OK(ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream));
    nap(50);
    CHECK_EQ(cudaStreamQuery(g.stream), cudaErrorNotReady);
  }
  meet(rank, 1);
  if (rank->rank == out) {
    if (aborts) OK(ncclCommAbort(g.comm));
    await_flag(rank->shared, 2, 2);
    if (!aborts) OK(ncclCommAbort(g.comm));
    return;
  }
  if (aborts) CHECK_EQ(await_failure(g.comm), ncclRemoteError);
  OK(ncclCommShrink(g.comm, &out, 1, &fewer, NULL, NCCL_SHRINK_ABORT));
  CUDA(cudaStreamSynchronize(g.stream));
  go_on_without_1(rank, &g, fewer, 2);
  OK(ncclCommAbort(g.comm));
}
static void shrink_of_aborted_rank(const Rank* rank) { shrink_of_waiting_rank(rank, 1); }
static void shrink_of_busy_rank(const Rank* rank) { shrink_of_waiting_rank(rank, 0); }
static void shrink_ends_calls(void) {
  run_threads(3, shrink_of_aborted_rank);
  run_threads(3, shrink_of_busy_rank);
}

/* Ranks 0 and 1 are in a call that rank 2 does not make. Rank 0 revokes, which ends both; when all
 * have, there are no calls any more, but children. What has begun has ended then; so the calls get
 * time to begin, on a busy machine, too. */
static void revoke_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  ncclComm_t part = NULL, fewer = NULL;
  put(&g, ncclFloat32, kCount);
  meet(rank, 0);
  if (rank->rank < 2) {
    OK(ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream));
    nap(500);
    CHECK_EQ(cudaStreamQuery(g.stream), cudaErrorNotReady);
  }
  meet(rank, 1);
  if (rank->rank == 1) CHECK_EQ(await_failure(g.comm), ncclRemoteError);
  if (rank->rank == 2) stays_well(g.comm); /* it has no call that could end */
  if (rank->rank == 1) CUDA(cudaStreamSynchronize(g.stream));
  OK(ncclCommRevoke(g.comm, NCCL_REVOKE_DEFAULT));
  CUDA(cudaStreamQuery(g.stream));
  FAILS(ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream),
        ncclInvalidUsage, "revoked");
  meet(rank, 2);
  const int alone[] = {0}, others[] = {1, 2}, first[] = {0, 1};
  OK(ncclCommSplit(g.comm, rank->rank == 0, 0, &part, NULL));
  Gpu h = rank->rank == 0 ? part_of(&g, part, alone, 1) : part_of(&g, part, others, 2);
  every_collective(&h);
  int last = 2;
  if (rank->rank != last) {
    OK(ncclCommShrink(g.comm, &last, 1, &fewer, NULL, NCCL_SHRINK_DEFAULT));
    h = part_of(&g, fewer, first, 2);
    every_collective(&h);
  }
  meet(rank, 3);
  OK(ncclCommDestroy(part));
  OK(ncclCommDestroy(fewer));
  end_gpu(&g);
}
static void revoke(void) { run_threads(3, revoke_of_rank); }

/* Ranks 0 and 1 have a communicator, and the others join it. */
static void grow_of_rank(const Rank* rank) {
  enum { kExisting = 2 };
  const int device = rank->rank % device_count();
  CUDA(cudaSetDevice(device));
  ncclComm_t comm = NULL, grown = NULL;
  if (rank->rank < kExisting) OK(ncclCommInitRank(&comm, kExisting, rank->id, rank->rank));
  if (rank->rank == 0) OK(ncclCommGetUniqueId(comm, &rank->shared->second_id));
  meet(rank, 0);
  const ncclUniqueId* id = rank->rank == 1 ? NULL : &rank->shared->second_id;
  OK(ncclCommGrow(comm, rank->size, id, comm ? -1 : rank->rank, &grown, NULL));
  Gpu g = make_gpu(rank->rank, rank->size, device, grown);
  int said = -1;
  OK(ncclCommCuDevice(grown, &said));
  CHECK_EQ(said, device);
  every_collective(&g);
  meet(rank, 1); /* memory is freed when no kernel waits for a rank any more */
  if (comm) {
    const int members[] = {0, 1};
    Gpu old = part_of(&g, comm, members, kExisting);
    every_collective(&old);
  }
  meet(rank, 2);
  if (comm) OK(ncclCommDestroy(comm));
  end_gpu(&g);
}
static void grow(void) { run_threads(4, grow_of_rank); }

const Case gpu_life_cases[] = {{"gpu/nonblocking", nonblocking_calls},
                               {"gpu/abort_spinning", abort_spinning},
                               {"gpu/disagreement", disagreement},
                               {"gpu/memory", memory},
                               {"gpu/split", split},
                               {"gpu/init_scalable", init_scalable},
                               {"gpu/shrink", shrink},
                               {"gpu/shrink_after_death", shrink_after_death},
                               {"gpu/shrink_ends_calls", shrink_ends_calls},
                               {"gpu/revoke", revoke},
                               {"gpu/grow", grow},
                               {NULL, NULL}};
