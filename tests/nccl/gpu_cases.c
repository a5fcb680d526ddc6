/* What NCCL programs do on GPUs: all collectives on device memory, on streams of every kind, in
 * graphs, from one thread, from threads and from processes. */

#include <stdint.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "gpu.h"

static void types_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  reduce_every_type(&g);
  end_gpu(&g);
}

static void collectives_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  every_collective(&g);
  end_gpu(&g);
}

/* Freed at its end: memory is not given back while other ranks' kernels wait on the same device. */
static void collectives_on_one(const Rank* rank) {
  Gpu g = enter_on(rank, 0);
  every_collective(&g);
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  end_gpu(&g);
}

static void types(void) { run_threads(2, types_of_rank); }
static void threads(void) { run_threads(3, collectives_of_rank); }
static void threads_on_one(void) { run_threads(4, collectives_on_one); }

/* On devices of their own, where there are two; else they share one, and copies do the work. */
static void processes(void) { run_processes(2, collectives_of_rank, -1); }
static void process_on_one(const Rank* rank) {
  Gpu g = enter_on(rank, 0);
  every_collective(&g);
  end_gpu(&g);
}
static void processes_on_one(void) { run_processes(3, process_on_one, -1); }

/* One thread that has all devices. */
static void all_devices(void) {
  ncclComm_t comms[kMaxRanks];
  Gpu g[kMaxRanks];
  const int size = device_count() < kMaxRanks ? device_count() : kMaxRanks;
  OK(ncclCommInitAll(comms, size, NULL));
  for (int r = 0; r < size; ++r) g[r] = make_gpu(r, size, r, comms[r]);
  CUDA(cudaSetDevice(0));
  for (int turn = 0; turn < 3; ++turn) {
    for (int r = 0; r < size; ++r) put(&g[r], ncclFloat32, kCount);
    OK(ncclGroupStart());
    for (int r = 0; r < size; ++r)
      OK(ncclAllReduce(g[r].in, g[r].out, kCount, ncclFloat32, ncclSum, comms[r], g[r].stream));
    for (int r = 0; r < size; ++r)
      OK(ncclAllReduce(g[r].in, g[r].in, kCount, ncclFloat32, ncclMax, comms[r], g[r].stream));
    OK(ncclGroupEnd());
    for (int r = 0; r < size; ++r) {
      check_reduced(&g[r], g[r].out, ncclFloat32, ncclSum, 0, kCount);
      check_reduced(&g[r], g[r].in, ncclFloat32, ncclMax, 0, kCount);
    }
  }
  int current = -1;
  CUDA(cudaGetDevice(&current));
  CHECK_EQ(current, 0);
  for (int r = 0; r < size; ++r) end_gpu(&g[r]);
}

/* A ring, and everybody with everybody, in pieces of different sizes. */
static void exchanges_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  const int right = (g.rank + 1) % g.size, left = (g.rank + g.size - 1) % g.size;
  put(&g, ncclFloat32, kCount);
  OK(ncclGroupStart());
  OK(ncclSend(g.in, kCount, ncclFloat32, right, g.comm, g.stream));
  OK(ncclRecv(g.out, kCount, ncclFloat32, left, g.comm, g.stream));
  OK(ncclGroupEnd());
  check_block(&g, ncclFloat32, 0, left, 0, kCount);
  OK(ncclGroupStart());
  for (int peer = 0; peer < g.size; ++peer) {
    OK(ncclSend(g.in, kCount / 2 + (size_t)peer, ncclFloat32, peer, g.comm, g.stream));
    OK(ncclRecv(g.out + 4 * kCount * (size_t)peer, kCount / 2 + (size_t)g.rank, ncclFloat32, peer,
                g.comm, g.stream));
  }
  OK(ncclGroupEnd());
  for (int peer = 0; peer < g.size; ++peer)
    check_input(&g, g.out + 4 * kCount * (size_t)peer, ncclFloat32, peer, 0,
                kCount / 2 + (size_t)g.rank);
  end_gpu(&g);
}
static void exchanges(void) { run_threads(3, exchanges_of_rank); }

/* The thread's, null and the legacy stream's name: each is the communicator's own device's. Of
 * ranks that share a device only the first is each one's own. */
static void default_streams_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  const cudaStream_t streams[] = {cudaStreamPerThread, NULL, cudaStreamLegacy};
  for (int s = 0; s < (rank->size > device_count() ? 1 : 3); ++s) {
    put(&g, ncclFloat32, kCount);
    OK(ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, streams[s]));
    CUDA(cudaStreamSynchronize(streams[s]));
    check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
  }
  end_gpu(&g);
}
static void default_streams(void) { run_threads(2, default_streams_of_rank); }

/* Both ranks are one thread's, on device 0: their calls are on one stream, and in one group. */
static void shared_default_streams_of_both(const Rank* thread) {
  ncclComm_t comms[2];
  Gpu g[2];
  CUDA(cudaSetDevice(0));
  OK(ncclGroupStart());
  for (int r = 0; r < 2; ++r) OK(ncclCommInitRank(&comms[r], 2, thread->id, r));
  OK(ncclGroupEnd());
  for (int r = 0; r < 2; ++r) g[r] = make_gpu(r, 2, 0, comms[r]);
  const cudaStream_t streams[] = {cudaStreamPerThread, NULL, cudaStreamLegacy};
  for (int s = 0; s < 3; ++s) {
    for (int r = 0; r < 2; ++r) put(&g[r], ncclFloat32, kCount);
    OK(ncclGroupStart());
    for (int r = 0; r < 2; ++r)
      OK(ncclAllReduce(g[r].in, g[r].out, kCount, ncclFloat32, ncclSum, comms[r], streams[s]));
    OK(ncclGroupEnd());
    CUDA(cudaStreamSynchronize(streams[s]));
    for (int r = 0; r < 2; ++r) check_reduced(&g[r], g[r].out, ncclFloat32, ncclSum, 0, kCount);
  }
  for (int r = 0; r < 2; ++r) end_gpu(&g[r]);
}
static void shared_default_streams(void) { run_threads(1, shared_default_streams_of_both); }

static void graph_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CUDA(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal));
  OK(ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream));
  OK(ncclAllGather(g.out, g.in, kCount, ncclFloat32, g.comm, g.stream));
  CUDA(cudaStreamEndCapture(g.stream, &graph));
  CUDA(cudaGraphInstantiate(&ready, graph, 0));
  for (int replay = 0; replay < 5; ++replay) {
    put(&g, ncclFloat32, kCount);
    CUDA(cudaGraphLaunch(ready, g.stream));
    check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
    check_reduced(&g, g.in + 4 * kCount, ncclFloat32, ncclSum, 0, kCount);
  }
  CUDA(cudaGraphExecDestroy(ready));
  CUDA(cudaGraphDestroy(graph));
  end_gpu(&g);
}
static void graph(void) { run_threads(2, graph_of_rank); }

/* A scalar that was on the device is read by the call, behind what is on its stream: each time. */
static void graph_of_scaled_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  int64_t* scalar = NULL;
  CUDA(cudaMalloc((void**)&scalar, 8));
  ncclRedOp_t op;
  OK(ncclRedOpCreatePreMulSum(&op, scalar, ncclInt64, ncclScalarDevice, g.comm));
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CUDA(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal));
  OK(ncclAllReduce(g.in, g.out, kCount, ncclInt64, op, g.comm, g.stream));
  CUDA(cudaStreamEndCapture(g.stream, &graph));
  CUDA(cudaGraphInstantiate(&ready, graph, 0));
  OK(ncclRedOpDestroy(op, g.comm));
  for (int64_t replay = 0; replay < 3; ++replay) {
    const int64_t own = g.rank == 0 ? 1 : replay; /* what the other one has is taken as it is */
    put(&g, ncclInt64, kCount);
    CUDA(cudaMemcpyAsync(scalar, &own, 8, cudaMemcpyHostToDevice, g.stream));
    CUDA(cudaGraphLaunch(ready, g.stream));
    int64_t got[kCount];
    get(&g, g.out, (char*)got, sizeof got);
    for (size_t i = 0; i < kCount; ++i)
      CHECK_EQ(got[i], (int64_t)(input(ncclInt64, g.number[0], i) +
                                 (double)replay * input(ncclInt64, g.number[1], i)));
  }
  CUDA(cudaGraphExecDestroy(ready));
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaFree(scalar));
  end_gpu(&g);
}
static void graph_of_a_scalar(void) { run_threads(2, graph_of_scaled_rank); }

/* A communicator of all ranks with this config. */
static Gpu enter_with(const Rank* rank, ncclConfig_t config) {
  const int device = rank->rank % device_count();
  CUDA(cudaSetDevice(device));
  ncclComm_t comm = NULL;
  OK(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config));
  return make_gpu(rank->rank, rank->size, device, comm);
}

/* A kernel of the library's own runtime is none of this program's: the driver knows it. */
static unsigned blocks_by_driver(cudaGraphNode_t node) {
  void* found = NULL;
  enum cudaDriverEntryPointQueryResult result;
  CUDA(cudaGetDriverEntryPointByVersion("cuGraphKernelNodeGetParams", &found, 12000,
                                        cudaEnableDefault, &result));
  CHECK(found != NULL);
  CUresult (*get_params)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*);
  memcpy(&get_params, &found, sizeof found);
  CUDA_KERNEL_NODE_PARAMS params;
  CHECK_EQ(get_params(node, &params), CUDA_SUCCESS);
  return params.gridDimX;
}

/* The kernels of a graph: how many they are, and the blocks of the last one. */
typedef struct {
  size_t count;
  unsigned blocks;
} Kernels;

static Kernels kernels_of(cudaGraph_t graph) {
  cudaGraphNode_t nodes[256];
  size_t count = 256;
  Kernels kernels = {0, 0};
  CUDA(cudaGraphGetNodes(graph, NULL, &count));
  CHECK(count <= 256);
  CUDA(cudaGraphGetNodes(graph, nodes, &count));
  for (size_t i = 0; i < count; ++i) {
    enum cudaGraphNodeType type;
    const cudaError_t found = cudaGraphNodeGetType(nodes[i], &type);
    if (found == cudaErrorUnknown) { /* the runtime has no name for memory operations of streams */
      cudaGetLastError();
      continue;
    }
    CUDA(found);
    if (type != cudaGraphNodeTypeKernel) continue;
    struct cudaKernelNodeParams kernel;
    const cudaError_t known = cudaGraphKernelNodeGetParams(nodes[i], &kernel);
    ++kernels.count;
    if (known == cudaErrorInvalidDeviceFunction) {
      cudaGetLastError();
      kernels.blocks = blocks_by_driver(nodes[i]);
      continue;
    }
    CUDA(known);
    kernels.blocks = kernel.gridDim.x;
  }
  CUDA(cudaGraphDestroy(graph));
  return kernels;
}

/* What is captured of an AllGather on a communicator with that policy: how many kernels. */
static size_t kernels_by_policy(const Rank* rank, int policy) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = policy;
  Gpu g = enter_with(rank, config);
  cudaGraph_t graph;
  CUDA(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal));
  OK(ncclAllGather(g.in, g.out, kCount, ncclFloat32, g.comm, g.stream));
  CUDA(cudaStreamEndCapture(g.stream, &graph));
  const size_t kernels = kernels_of(graph).count;
  end_gpu(&g);
  return kernels;
}
static void default_policy_of_rank(const Rank* rank) {
  CHECK_EQ(kernels_by_policy(rank, NCCL_CTA_POLICY_DEFAULT), 1);
}
static void zero_policy_of_rank(const Rank* rank) {
  CHECK_EQ(kernels_by_policy(rank, NCCL_CTA_POLICY_ZERO), 0);
}
static void policies(void) {
  run_threads(2, default_policy_of_rank);
  run_threads(2, zero_policy_of_rank);
}

/* With that maximum: the blocks of the kernel that is captured of an AllReduce, which is large
 * enough for many of them; another one is made. */
static unsigned blocks_with(const Rank* rank, int most) {
  enum { kLarge = 1 << 18 };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.maxCTAs = most;
  Gpu g = enter_with(rank, config);
  float* values = NULL;
  CUDA(cudaMalloc((void**)&values, 4 * kLarge));
  CUDA(cudaMemsetAsync(values, 0, 4 * kLarge, g.stream));
  CUDA(cudaStreamSynchronize(g.stream)); /* not the device: another rank's stream is captured */
  cudaGraph_t graph;
  CUDA(cudaStreamBeginCapture(g.stream, cudaStreamCaptureModeThreadLocal));
  OK(ncclAllReduce(values, values, kLarge, ncclFloat32, ncclSum, g.comm, g.stream));
  CUDA(cudaStreamEndCapture(g.stream, &graph));
  const unsigned blocks = kernels_of(graph).blocks;
  put(&g, ncclFloat32, kCount);
  OK(ncclAllReduce(g.in, g.out, kCount, ncclFloat32, ncclSum, g.comm, g.stream));
  check_reduced(&g, g.out, ncclFloat32, ncclSum, 0, kCount);
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  CUDA(cudaFree(values));
  end_gpu(&g);
  return blocks;
}
/* Many where nothing bounds them, of a device that has room for them. */
static void unbounded_blocks_of_rank(const Rank* rank) {
  int processors = 0;
  CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  const unsigned blocks = blocks_with(rank, NCCL_CONFIG_UNDEF_INT);
  printf("rank %d: %u blocks on a device of %d multiprocessors\n", rank->rank, blocks, processors);
  CHECK(blocks > 3 || processors < 16);
}
static void bounded_blocks_of_rank(const Rank* rank) { CHECK(blocks_with(rank, 3) <= 3); }
/* The least of all ranks holds for all. */
static void differently_bounded_blocks_of_rank(const Rank* rank) {
  CHECK(blocks_with(rank, rank->rank == 0 ? 5 : 2) <= 2);
}
static void misbounded_blocks_of_rank(const Rank* rank) {
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.maxCTAs = 0;
  FAILS(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config),
        ncclInvalidArgument, "maxCTAs is 0");
  config.maxCTAs = 3;
  config.minCTAs = 4;
  FAILS(ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config),
        ncclInvalidArgument, "minCTAs, 4, is more than its maxCTAs, 3");
}
static void most_blocks(void) {
  run_threads(2, unbounded_blocks_of_rank);
  run_threads(2, bounded_blocks_of_rank);
  run_threads(2, differently_bounded_blocks_of_rank);
  run_threads(1, misbounded_blocks_of_rank);
}
/* The variable goes before the config, which says 5 and 2. */
static void variable_bounded_blocks_of_rank(const Rank* rank) {
  CHECK_EQ(blocks_with(rank, rank->rank == 0 ? 5 : 2), 1);
}
static void most_blocks_by_variable(void) {
  setenv("NCCL_MAX_CTAS", "1", 1);
  run_threads(2, variable_bounded_blocks_of_rank);
}

/* Large enough for kernels that address the other ranks' buffers; in pieces of kCount. */
enum { kPieces = 24, kPieceBytes = 4 * kCount };

static void put_pieces(Gpu* g, char* to) {
  for (size_t p = 0; p < kPieces; ++p) {
    char host[kPieceBytes];
    for (size_t i = 0; i < kCount; ++i)
      set_element(ncclFloat32, host, i, input(ncclFloat32, g->number[g->rank], p * kCount + i));
    CUDA(cudaMemcpyAsync(to + p * kPieceBytes, host, sizeof host, cudaMemcpyHostToDevice,
                         g->stream));
    CUDA(cudaStreamSynchronize(g->stream));
  }
}

static void reduce_pieces(Gpu* g, char* in, char* out) {
  CUDA(cudaMemsetAsync(out, 0, kPieces * kPieceBytes, g->stream));
  OK(ncclAllReduce(in, out, kPieces * kCount, ncclFloat32, ncclSum, g->comm, g->stream));
  for (size_t p = 0; p < kPieces; ++p)
    check_reduced(g, out + p * kPieceBytes, ncclFloat32, ncclSum, p * kCount, kCount);
}

static void windows_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  char *in = NULL, *out = NULL;
  ncclWindow_t windows[3] = {NULL};
  OK(ncclMemAlloc((void**)&in, kPieces * kPieceBytes));
  OK(ncclMemAlloc((void**)&out, kPieces * kPieceBytes));
  OK(ncclGroupStart());
  OK(ncclCommWindowRegister(g.comm, in, kPieces * kPieceBytes, &windows[0],
                            NCCL_WIN_COLL_SYMMETRIC));
  OK(ncclCommWindowRegister(g.comm, out, kPieces * kPieceBytes, &windows[1],
                            NCCL_WIN_COLL_SYMMETRIC));
  OK(ncclGroupEnd());
  OK(ncclCommWindowRegister(g.comm, g.in, 4 * kCount, &windows[2], NCCL_WIN_DEFAULT));
  CHECK(windows[0] && windows[1] && windows[2] && windows[0] != windows[1]);
  ncclWindow_t none = NULL;
  FAILS(ncclCommWindowRegister(g.comm, in, 4, &none, 16), ncclInvalidArgument, "winFlags is 16");
  put_pieces(&g, in);
  reduce_pieces(&g, in, out);
  every_collective(&g);
  for (int w = 0; w < 3; ++w) OK(ncclCommWindowDeregister(g.comm, windows[w]));
  FAILS(ncclCommWindowDeregister(g.comm, windows[0]), ncclInvalidArgument, "no window");
  reduce_pieces(&g, in, out);
  meet(rank, 0);
  OK(ncclMemFree(in));
  OK(ncclMemFree(out));
  end_gpu(&g);
}
static void windows(void) { run_threads(2, windows_of_rank); }

/* Nothing of it is launched, and the calls that are made are those that the other rank makes. */
static void simulation_of_rank(const Rank* rank) {
  Gpu g = enter_on(rank, rank->rank % device_count());
  const size_t counts[] = {1, kCount * kMaxRanks, kCount};
  float times[3];
  put(&g, ncclFloat32, kCount);
  for (int k = 0; k < 3 && rank->rank == 0; ++k) {
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    OK(ncclGroupStart());
    if (k < 2)
      OK(ncclAllReduce(g.in, g.out, counts[k], ncclFloat32, ncclSum, g.comm, g.stream));
    else
      OK(ncclSend(g.in, counts[k], ncclFloat32, 1, g.comm, g.stream));
    OK(ncclGroupSimulateEnd(&info));
    CUDA(cudaStreamQuery(g.stream));
    times[k] = info.estimatedTime;
    CHECK(times[k] > 0);
  }
  if (rank->rank == 0) {
    CHECK(times[1] > times[0]);
    char host[4 * kCount];
    get(&g, g.out, host, sizeof host);
    for (size_t i = 0; i < kCount; ++i) CHECK(get_element(ncclFloat32, host, i) == 0);
  }
  every_collective(&g);
  meet(rank, 0);
  end_gpu(&g);
}
static void simulation(void) { run_threads(2, simulation_of_rank); }

/* An AllReduce by `g`, and one call of another communicator of the same ranks, in one group: an
 * AllGather, or a ring of sends and receives. That one's stream and buffer are its own. */
static void group_of_two(Gpu* g, Gpu* other, int gathers, int other_first) {
  const ncclDataType_t type = ncclFloat32;
  const int right = (other->rank + 1) % g->size, left = (other->rank + g->size - 1) % g->size;
  put(g, type, kCount);
  cleared(other);
  CUDA(cudaStreamSynchronize(other->stream));
  OK(ncclGroupStart());
  for (int k = 0; k < 2; ++k) {
    if (k != other_first) {
      OK(ncclAllReduce(g->in, g->out, kCount, type, ncclSum, g->comm, g->stream));
    } else if (gathers) {
      OK(ncclAllGather(g->in, other->out, kCount, type, other->comm, other->stream));
    } else {
      OK(ncclSend(g->in, kCount, type, right, other->comm, other->stream));
      OK(ncclRecv(other->out, kCount, type, left, other->comm, other->stream));
    }
  }
  OK(ncclGroupEnd());
  check_reduced(g, g->out, type, ncclSum, 0, kCount);
  if (!gathers) check_block(other, type, 0, left, 0, kCount);
  for (int r = 0; r < g->size && gathers; ++r) check_block(other, type, (size_t)r, r, 0, kCount);
}

/* The other communicator is a split, with the ranks the other way round, or has an id of its own.
 * Where both are on one stream all ranks name the same one first. */
static void groups_by_policy(const Rank* rank, int policy) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = policy;
  Gpu g = enter_with(rank, config);
  ncclComm_t others[2];
  OK(ncclCommSplit(g.comm, 0, rank->size - rank->rank, &others[0], NULL));
  OK(ncclCommInitRankConfig(&others[1], rank->size, rank->shared->second_id, rank->rank, &config));
  const int members[2][3] = {{2, 1, 0}, {0, 1, 2}};
  Gpu buffers = make_gpu(rank->rank, rank->size, g.device, NULL);
  for (int o = 0; o < 2; ++o)
    for (int shares_stream = 0; shares_stream < 2; ++shares_stream)
      for (int gathers = 0; gathers < 2; ++gathers) {
        Gpu other = part_of(&g, others[o], members[o], 3);
        other.stream = shares_stream ? g.stream : buffers.stream;
        other.out = buffers.out;
        group_of_two(&g, &other, gathers, shares_stream ? gathers : rank->rank % 2);
      }
  meet(rank, 0);
  for (int o = 0; o < 2; ++o) OK(ncclCommDestroy(others[o]));
  end_gpu(&buffers);
  end_gpu(&g);
}
static void groups_by_kernels(const Rank* rank) { groups_by_policy(rank, NCCL_CTA_POLICY_DEFAULT); }
static void groups_by_copies(const Rank* rank) { groups_by_policy(rank, NCCL_CTA_POLICY_ZERO); }
static void groups(void) {
  run_threads(3, groups_by_kernels);
  run_threads(3, groups_by_copies);
}

/* One thread that has all ranks of both; of each device both are on one stream, and the odd ones
 * name them the other way round. */
static void groups_of_one_thread(void) {
  ncclComm_t comms[2][kMaxRanks];
  Gpu g[kMaxRanks], buffers[kMaxRanks];
  const ncclDataType_t type = ncclFloat32;
  const int size = device_count() < kMaxRanks ? device_count() : kMaxRanks;
  for (int c = 0; c < 2; ++c) OK(ncclCommInitAll(comms[c], size, NULL));
  for (int r = 0; r < size; ++r) {
    g[r] = make_gpu(r, size, r, comms[0][r]);
    buffers[r] = make_gpu(r, size, r, comms[1][r]);
    put(&g[r], type, kCount);
    put(&buffers[r], type, kCount);
  }
  OK(ncclGroupStart());
  for (int r = 0; r < size; ++r)
    for (int k = 0; k < 2; ++k) {
      if (k == r % 2)
        OK(ncclAllReduce(g[r].in, g[r].out, kCount, type, ncclSum, comms[0][r], g[r].stream));
      else
        OK(ncclAllGather(g[r].in, buffers[r].out, kCount, type, comms[1][r], g[r].stream));
    }
  OK(ncclGroupEnd());
  for (int r = 0; r < size; ++r) {
    check_reduced(&g[r], g[r].out, type, ncclSum, 0, kCount);
    for (int from = 0; from < size; ++from)
      check_block(&buffers[r], type, (size_t)from, from, 0, kCount);
  }
  for (int r = 0; r < size; ++r) {
    end_gpu(&buffers[r]);
    end_gpu(&g[r]);
  }
}

const Case gpu_cases[] = {{"gpu/all_devices", all_devices},
                          {"gpu/types", types},
                          {"gpu/threads", threads},
                          {"gpu/threads_on_one", threads_on_one},
                          {"gpu/processes", processes},
                          {"gpu/processes_on_one", processes_on_one},
                          {"gpu/exchanges", exchanges},
                          {"gpu/default_streams", default_streams},
                          {"gpu/shared_default_streams", shared_default_streams},
                          {"gpu/graph", graph},
                          {"gpu/graph_of_a_scalar", graph_of_a_scalar},
                          {"gpu/policies", policies},
                          {"gpu/most_blocks", most_blocks},
                          {"gpu/most_blocks_by_variable", most_blocks_by_variable},
                          {"gpu/windows", windows},
                          {"gpu/simulation", simulation},
                          {"gpu/groups", groups},
                          {"gpu/groups_of_one_thread", groups_of_one_thread},
                          {NULL, NULL}};
