/* What NCCL has from 2.29 on, on GPUs. */

#include "gpu.h"

#include <nccl_device.h>

static void configured_calls_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  cudaEvent_t launched;
  CUDA(cudaEventCreateWithFlags(&launched, cudaEventDisableTiming));
  static const int policies[] = {NCCL_CONFIG_UNDEF_INT, NCCL_CTA_POLICY_DEFAULT,
                                 NCCL_CTA_POLICY_EFFICIENCY, NCCL_CTA_POLICY_ZERO};
  static const int blocks[] = {NCCL_CONFIG_UNDEF_INT, 1, 2, 1000};
  static const char* const algorithms[] = {NULL, "ring", "tree", ""};
  put(&g, ncclFloat32, kCount);
  for (int i = 0; i < 4; ++i) {
    ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
    c.CTAPolicy = policies[i];
    c.maxCTAs = blocks[i];
    c.algSelection = algorithms[i];
    c.launchCompletionEvent = i % 2 ? launched : NULL;
    c.userProfilerTag = (uint64_t)i;
    OK(ncclAllReduceConfig(g.in, cleared(&g), kCount, ncclFloat32, ncclSum, g.comm, g.stream, &c));
    check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
    c.forceAlgSelection = 0;
    OK(ncclGroupStart());
    OK(ncclAllGatherConfig(g.in, cleared(&g), kCount, ncclFloat32, g.comm, g.stream, &c));
    OK(ncclGroupEnd());
    for (int from = 0; from < g.size; ++from)
      check_block(&g, ncclFloat32, (size_t)from, from, 0, kCount);
  }
  CUDA(cudaEventSynchronize(launched));
  CUDA(cudaEventDestroy(launched));
  end_gpu(&g);
}
static void configured_calls(void) { run_threads(2, configured_calls_of_rank); }

static void wait_for_release(void* flag) {
  while (atomic_load((atomic_int*)flag) == 0) nap(1);
}

/* The event is there when what was on the stream has ended, and before the other rank has come. */
static void launch_event_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  put(&g, ncclFloat32, kCount);
  CUDA(cudaStreamSynchronize(g.stream));
  if (rank->rank == 0) {
    atomic_int release = 0;
    cudaEvent_t launched;
    CUDA(cudaEventCreateWithFlags(&launched, cudaEventDisableTiming));
    ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
    c.launchCompletionEvent = launched;
    CUDA(cudaLaunchHostFunc(g.stream, wait_for_release, &release));
    OK(ncclAllReduceConfig(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream, &c));
    CHECK_EQ(cudaEventQuery(launched), cudaErrorNotReady);
    atomic_store(&release, 1);
    CUDA(cudaEventSynchronize(launched));
    CHECK_EQ(cudaStreamQuery(g.stream), cudaErrorNotReady);
    raise_flag(rank->shared, 0);
    CUDA(cudaStreamSynchronize(g.stream));
    CUDA(cudaEventDestroy(launched));
  } else {
    await_flag(rank->shared, 0, 1);
    OK(ncclAllReduceConfig(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream, NULL));
  }
  check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
  end_gpu(&g);
}
static void launch_event(void) { run_threads(2, launch_event_of_rank); }

/* In a graph it is recorded by each replay, for streams outside of it. */
static void launch_event_in_a_graph_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  put(&g, ncclFloat32, kCount);
  cudaEvent_t launched;
  CUDA(cudaEventCreateWithFlags(&launched, cudaEventDisableTiming));
  ncclCollConfig_t c = NCCL_COLLCONFIG_INITIALIZER;
  c.launchCompletionEvent = launched;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal));
  OK(ncclAllReduceConfig(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream, &c));
  CUDA(cudaStreamEndCapture(g.stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int turn = 0; turn < 2; ++turn) {
    cleared(&g);
    CUDA(cudaGraphLaunch(exec, g.stream));
    CUDA(cudaEventSynchronize(launched));
    check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
  }
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaEventDestroy(launched));
  end_gpu(&g);
}
static void launch_event_in_a_graph(void) { run_threads(2, launch_event_in_a_graph_of_rank); }

/* What the emulation counts as free, or a GPU. */
static size_t free_bytes(void) {
  size_t available = 0, all = 0;
  CUDA(cudaMemGetInfo(&available, &all));
  return available;
}

static void suspended_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  for (int turn = 0; turn < 2; ++turn) {
    put(&g, ncclFloat32, kCount);
    OK(ncclAllReduce(g.in, cleared(&g), kCount, ncclFloat32, ncclSum, g.comm, g.stream));
    check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
    uint64_t bytes = 0, none = 1;
    OK(ncclCommMemStats(g.comm, ncclStatGpuMemTotal, &bytes));
    const size_t before = free_bytes();
    meet(rank, 2 * turn);
    OK(ncclCommSuspend(g.comm, NCCL_SUSPEND_MEM));
    meet(rank, 2 * turn + 1);
    OK(ncclCommMemStats(g.comm, ncclStatGpuMemTotal, &none));
    CHECK_EQ(none, 0);
    CHECK(bytes > 1 << 16 && free_bytes() >= before + bytes);
    FAILS(ncclAllReduce(g.in, g.out, 1, ncclFloat32, ncclSum, g.comm, g.stream), ncclInvalidUsage,
          "is suspended");
    OK(ncclCommResume(g.comm));
  }
  put(&g, ncclFloat32, kCount);
  OK(ncclAllReduce(g.in, cleared(&g), kCount, ncclFloat32, ncclSum, g.comm, g.stream));
  check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
  end_gpu(&g);
}
static void suspended(void) { run_threads(2, suspended_of_rank); }
static void suspended_processes(void) { run_processes(2, suspended_of_rank, -1); }

/* Each rank puts to the next one, on its stream. A wait holds back what is behind it. */
static void puts_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  const int next = (g.rank + 1) % g.size, before = (g.rank + g.size - 1) % g.size;
  char* inbox = NULL;
  OK(ncclMemAlloc((void**)&inbox, 4 * kCount));
  CUDA(cudaMemset(inbox, 0, 4 * kCount));
  CUDA(cudaDeviceSynchronize()); /* before somebody puts there */
  meet(rank, 0);                 /* and before a wait of another thread is in line on this device */
  ncclWindow_t window = NULL;
  OK(ncclCommWindowRegister(g.comm, inbox, 4 * kCount, &window, NCCL_WIN_COLL_SYMMETRIC));
  void* at = NULL;
  OK(ncclWinGetUserPtr(g.comm, window, &at));
  CHECK(at == inbox);
  OK(ncclGetPeerDevicePointer(window, 8, g.rank, &at));
  CHECK(at == inbox + 8);
  const ncclTeam_t team = ncclTeamLsa(g.comm);
  CHECK(team.nRanks == g.size || team.nRanks == 1);
  OK(ncclGetPeerDevicePointer(window, 0, next, &at));
  CHECK((at != NULL) == (team.nRanks == g.size));
  put(&g, ncclFloat32, kCount);
  ncclWaitSignalDesc_t one = {.opCnt = 1, .peer = before};
  for (int turn = 0; turn < 3; ++turn) {
    OK(ncclPutSignal(g.in, kCount, ncclFloat32, next, window, 0, 0, 0, 0, g.comm, g.stream));
    OK(ncclWaitSignal(1, &one, g.comm, g.stream));
    CUDA(cudaMemcpyAsync(cleared(&g), inbox, 4 * kCount, cudaMemcpyDefault, g.stream));
    OK(ncclSignal(before, 0, 0, 0, g.comm, g.stream)); /* its next put may come */
    ncclWaitSignalDesc_t taken = {.opCnt = 1, .peer = next};
    OK(ncclWaitSignal(1, &taken, g.comm, g.stream));
    CUDA(cudaStreamSynchronize(g.stream));
    check_input(&g, g.out, ncclFloat32, before, 0, kCount);
  }
  FAILS(ncclSignal(next, 1, 0, 0, g.comm, g.stream), ncclInvalidArgument, "numRmaSig");
  meet(rank, 1);
  OK(ncclCommWindowDeregister(g.comm, window));
  OK(ncclMemFree(inbox));
  end_gpu(&g);
}
static void puts_of_threads(void) { run_threads(3, puts_of_rank); }
static void puts_of_processes(void) { run_processes(3, puts_of_rank, -1); }

const Case gpu_today_cases[] = {{"gpu_today/suspended", suspended},
                                {"gpu_today/suspended_processes", suspended_processes},
                                {"gpu_today/configured_calls", configured_calls},
                                {"gpu_today/launch_event", launch_event},
                                {"gpu_today/launch_event_in_a_graph", launch_event_in_a_graph},
                                {"gpu_today/puts_of_threads", puts_of_threads},
                                {"gpu_today/puts_of_processes", puts_of_processes},
                                {NULL, NULL}};
