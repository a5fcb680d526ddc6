/* What NCCL programs do on GPUs: all collectives on device memory, on streams of every kind, in
 * graphs, from one thread, from threads and from processes; and how they end. */

#include <math.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "elements.h"
#include "harness.h"

#define CUDA(call) CHECK_EQ(call, cudaSuccess)

enum { kCount = 1037, kMaxRanks = 4 };

static int device_count(void) {
  int count = 0;
  CUDA(cudaGetDeviceCount(&count));
  return count;
}

/* What a rank works with: on its device a stream, and two buffers that hold a block for every rank.
 */
typedef struct {
  int rank, size, device;
  ncclComm_t comm;
  cudaStream_t stream;
  char *in, *out;
} Gpu;

static Gpu make_gpu(int rank, int size, int device, ncclComm_t comm) {
  Gpu g = {rank, size, device, comm, NULL, NULL, NULL};
  CUDA(cudaSetDevice(device));
  CUDA(cudaStreamCreateWithFlags(&g.stream, cudaStreamNonBlocking));
  CUDA(cudaMalloc((void**)&g.in, kCount * kMaxRanks * 8));
  CUDA(cudaMalloc((void**)&g.out, kCount * kMaxRanks * 8));
  return g;
}

static void end_gpu(Gpu* g) {
  OK(ncclCommDestroy(g->comm));
  CUDA(cudaSetDevice(g->device));
  CUDA(cudaStreamDestroy(g->stream));
  CUDA(cudaFree(g->in));
  CUDA(cudaFree(g->out));
}

/* Element i of a rank's input; sums and products of four ranks are exact in every type. */
static double input(int rank, size_t i) { return 1 + (double)((i + (size_t)rank) % 2); }

static void put(const Gpu* g, ncclDataType_t type, size_t count) {
  char host[kCount * kMaxRanks * 8];
  for (size_t i = 0; i < count; ++i) set_element(type, host, i, input(g->rank, i));
  CUDA(
      cudaMemcpyAsync(g->in, host, count * element_bytes(type), cudaMemcpyHostToDevice, g->stream));
  CUDA(cudaMemsetAsync(g->out, 0, kCount * kMaxRanks * 8, g->stream));
  CUDA(cudaStreamSynchronize(g->stream));
}

/* The copy, to memory that is not pinned, may hold up other threads until it is done. */
static void get(const Gpu* g, const void* from, char* host, size_t bytes) {
  CUDA(cudaStreamSynchronize(g->stream));
  CUDA(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, g->stream));
  CUDA(cudaStreamSynchronize(g->stream));
}

/* `count` elements of `out` are those of all inputs reduced, from element `first` on. */
static void check_reduced(const Gpu* g, const void* out, ncclDataType_t type, ncclRedOp_t op,
                          size_t first, size_t count) {
  char host[kCount * kMaxRanks * 8];
  get(g, out, host, count * element_bytes(type));
  for (size_t i = 0; i < count; ++i) {
    double sum = 0, product = 1, least = INFINITY, most = 0;
    for (int r = 0; r < g->size; ++r) {
      const double x = input(r, first + i);
      sum += x;
      product *= x;
      least = fmin(least, x);
      most = fmax(most, x);
    }
    double want = op == ncclSum ? sum : op == ncclProd ? product : op == ncclMin ? least : most;
    if (op == ncclAvg) want = is_floating(type) ? sum / g->size : trunc(sum / g->size);
    if (op >= ncclNumOps) want = 2 * sum; /* every rank's scalar is 2 */
    const double got = get_element(type, host, i);
    const double tolerance =
        op == ncclAvg && is_floating(type) ? 2 * element_epsilon(type) * want : 0;
    if (fabs(got - want) <= tolerance) continue;
    fprintf(stderr, "rank %d of %d, type %d, op %d, element %zu: %g, not %g\n", g->rank, g->size,
            (int)type, (int)op, first + i, got, want);
    CHECK(0);
  }
}

/* Block `b` of `out` is the input of `rank` from element `first` on. */
static void check_block(const Gpu* g, ncclDataType_t type, size_t b, int rank, size_t first,
                        size_t count) {
  char host[kCount * kMaxRanks * 8];
  get(g, g->out + b * count * element_bytes(type), host, count * element_bytes(type));
  for (size_t i = 0; i < count; ++i) CHECK(get_element(type, host, i) == input(rank, first + i));
}

static void reduce_every_type(Gpu* g) {
  for (int t = 0; t < ncclNumTypes; ++t) {
    const ncclDataType_t type = (ncclDataType_t)t;
    _Alignas(8) char two[8];
    set_element(type, two, 0, 2);
    char* on_device = NULL;
    CUDA(cudaMalloc((void**)&on_device, 8));
    CUDA(cudaMemcpyAsync(on_device, two, 8, cudaMemcpyHostToDevice, g->stream));
    ncclRedOp_t made = ncclSum, read_later = ncclSum;
    OK(ncclRedOpCreatePreMulSum(&made, two, type, ncclScalarHostImmediate, g->comm));
    OK(ncclRedOpCreatePreMulSum(&read_later, on_device, type, ncclScalarDevice, g->comm));
    const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, made, read_later};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; ++o) {
      put(g, type, kCount);
      OK(ncclAllReduce(g->in, g->out, kCount, type, ops[o], g->comm, g->stream));
      check_reduced(g, g->out, type, ops[o], 0, kCount);
    }
    OK(ncclRedOpDestroy(made, g->comm));
    OK(ncclRedOpDestroy(read_later, g->comm));
    CUDA(cudaStreamSynchronize(g->stream));
  }
}

static void every_collective(Gpu* g) {
  const ncclDataType_t type = ncclFloat32;
  const size_t all = kCount * (size_t)g->size;
  const int root = g->size - 1;
  put(g, type, all);
  OK(ncclReduceScatter(g->in, g->out, kCount, type, ncclSum, g->comm, g->stream));
  check_reduced(g, g->out, type, ncclSum, kCount * (size_t)g->rank, kCount);
  OK(ncclReduce(g->in, g->out, kCount, type, ncclMax, root, g->comm, g->stream));
  if (g->rank == root) check_reduced(g, g->out, type, ncclMax, 0, kCount);
  OK(ncclAllGather(g->in, g->out, kCount, type, g->comm, g->stream));
  for (int r = 0; r < g->size; ++r) check_block(g, type, (size_t)r, r, 0, kCount);
  OK(ncclAlltoAll(g->in, g->out, kCount, type, g->comm, g->stream));
  for (int r = 0; r < g->size; ++r)
    check_block(g, type, (size_t)r, r, kCount * (size_t)g->rank, kCount);
  OK(ncclGather(g->in, g->rank == root ? g->out : NULL, kCount, type, root, g->comm, g->stream));
  for (int r = 0; r < g->size && g->rank == root; ++r)
    check_block(g, type, (size_t)r, r, 0, kCount);
  OK(ncclScatter(g->rank == root ? g->in : NULL, g->out, kCount, type, root, g->comm, g->stream));
  check_block(g, type, 0, root, kCount * (size_t)g->rank, kCount);
  OK(ncclBroadcast(g->rank == root ? g->in : NULL, g->out, kCount, type, root, g->comm, g->stream));
  check_block(g, type, 0, root, 0, kCount);
  OK(ncclAllReduce(g->in, g->in, kCount, type, ncclSum, g->comm, g->stream));
  check_reduced(g, g->in, type, ncclSum, 0, kCount);
  OK(ncclAllReduce(g->in, g->out, 0, type, ncclSum, g->comm, g->stream));
}

static Gpu enter_on(const Rank* rank, int device) {
  CUDA(cudaSetDevice(device));
  Gpu g = make_gpu(rank->rank, rank->size, device, join(rank));
  int said = -1;
  OK(ncclCommCuDevice(g.comm, &said));
  CHECK_EQ(said, device);
  return g;
}

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
  for (int peer = 0; peer < g.size; ++peer) {
    char host[4 * kCount];
    get(&g, g.out + 4 * kCount * (size_t)peer, host, 4 * (kCount / 2 + (size_t)g.rank));
    for (size_t i = 0; i < kCount / 2 + (size_t)g.rank; ++i)
      CHECK(get_element(ncclFloat32, host, i) == input(peer, i));
  }
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
  CHECK_EQ(blocks > 3, processors >= 16);
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

static void nonblocking_of_rank(const Rank* rank) {
  const int device = rank->rank % device_count();
  CUDA(cudaSetDevice(device));
  ncclConfig_t config = nonblocking();
  ncclComm_t comm = NULL;
  const ncclResult_t begun =
      ncclCommInitRankConfig(&comm, rank->size, rank->id, rank->rank, &config);
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
  ncclComm_t half = NULL;
  OK(ncclCommSplit(g.comm, rank->rank % 2, rank->rank, &half, NULL));
  Gpu h = g;
  h.comm = half;
  h.rank = rank->rank / 2;
  h.size = 2;
  put(&h, ncclFloat32, kCount);
  OK(ncclAllReduce(h.in, h.out, kCount, ncclFloat32, ncclSum, half, h.stream));
  check_reduced(&h, h.out, ncclFloat32, ncclSum, 0, kCount);
  /* Memory is given back when no kernel of the other half spins any more. */
  raise_flag(rank->shared, 0);
  await_flag(rank->shared, 0, rank->size);
  OK(ncclCommDestroy(half));
  end_gpu(&g);
}
static void split(void) { run_threads(4, split_of_rank); }

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
                          {"gpu/policies", policies},
                          {"gpu/most_blocks", most_blocks},
                          {"gpu/most_blocks_by_variable", most_blocks_by_variable},
                          {"gpu/nonblocking", nonblocking_calls},
                          {"gpu/abort_spinning", abort_spinning},
                          {"gpu/disagreement", disagreement},
                          {"gpu/memory", memory},
                          {"gpu/split", split},
                          {NULL, NULL}};
