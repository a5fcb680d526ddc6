// Sums vectors over all GPUs with NCCL: once on streams, once as a CUDA graph.
//   all_reduce       one process for all GPUs
//   all_reduce N     a process for each of N GPUs

#include <cuda_runtime.h>
#include <nccl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define CHECK(call, success, text)                                           \
  do {                                                                       \
    const auto result = (call);                                              \
    if (result != success) {                                                 \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, text(result)); \
      std::exit(1);                                                          \
    }                                                                        \
  } while (0)
#define CUDA(call) CHECK(call, cudaSuccess, cudaGetErrorString)
#define NCCL(call) CHECK(call, ncclSuccess, ncclGetErrorString)

constexpr size_t kCount = 1000;

struct Gpu {
  int device = 0;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;
};

void prepare(Gpu& gpu) {
  CUDA(cudaSetDevice(gpu.device));
  CUDA(cudaStreamCreate(&gpu.stream));
  CUDA(cudaMalloc(&gpu.data, kCount * sizeof(float)));
  const std::vector<float> values(kCount, float(gpu.device + 1));
  CUDA(cudaMemcpy(gpu.data, values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
}

void allReduce(std::vector<Gpu>& gpus) {
  NCCL(ncclGroupStart());
  for (Gpu& gpu : gpus)
    NCCL(ncclAllReduce(gpu.data, gpu.data, kCount, ncclFloat, ncclSum, gpu.communicator,
                       gpu.stream));
  NCCL(ncclGroupEnd());
}

/// The same calls, recorded on each stream and launched as graphs.
void allReduceAsGraph(std::vector<Gpu>& gpus) {
  for (Gpu& gpu : gpus) CUDA(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal));
  allReduce(gpus);
  for (Gpu& gpu : gpus) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CUDA(cudaSetDevice(gpu.device));
    CUDA(cudaStreamEndCapture(gpu.stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphLaunch(executable, gpu.stream));
  }
}

void expect(const Gpu& gpu, float sum) {
  std::vector<float> values(kCount);
  CUDA(cudaSetDevice(gpu.device));
  CUDA(cudaStreamSynchronize(gpu.stream));
  CUDA(cudaMemcpy(values.data(), gpu.data, kCount * sizeof(float), cudaMemcpyDeviceToHost));
  for (const float value : values)
    if (value != sum) {
      std::fprintf(stderr, "GPU %d has %g, which should be %g\n", gpu.device, value, sum);
      std::exit(1);
    }
}

void sumTwice(std::vector<Gpu>& gpus, int count) {
  const float sum = float(count * (count + 1)) / 2;
  allReduce(gpus);
  for (const Gpu& gpu : gpus) expect(gpu, sum);
  allReduceAsGraph(gpus);
  for (const Gpu& gpu : gpus) {
    expect(gpu, sum * float(count));
    std::printf("GPU %d of %d: %g, then %g by a graph\n", gpu.device, count, sum,
                sum * float(count));
  }
  for (Gpu& gpu : gpus) NCCL(ncclCommDestroy(gpu.communicator));
}

int deviceCount() {
  int count = 0;
  CUDA(cudaGetDeviceCount(&count));
  return count;
}

void inOneProcess() {
  const int count = deviceCount();
  std::vector<Gpu> gpus(static_cast<size_t>(count));
  std::vector<ncclComm_t> communicators(gpus.size());
  NCCL(ncclCommInitAll(communicators.data(), count, nullptr));
  for (size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].device = int(i);
    gpus[i].communicator = communicators[i];
    prepare(gpus[i]);
  }
  sumTwice(gpus, count);
}

/// The parent calls no CUDA, because its children could not call it then.
void inProcesses(int count) {
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::vector<pid_t> children;
  bool failed = false;
  const auto fail = [&] {  // the others would wait for the one that is missing
    if (!std::exchange(failed, true))
      for (const pid_t child : children) kill(child, SIGTERM);
  };
  for (int rank = 0; rank < count && !failed; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      std::vector<Gpu> one(1);
      one[0].device = rank;
      CUDA(cudaSetDevice(rank));
      NCCL(ncclCommInitRank(&one[0].communicator, count, id, rank));
      prepare(one[0]);
      sumTwice(one, count);
      std::exit(0);
    }
    if (child < 0) {
      std::perror("fork");
      fail();
    } else {
      children.push_back(child);
    }
  }
  for (int status = 0; wait(&status) > 0;)
    if (status != 0) fail();
  if (failed) std::exit(1);
}

int main(int argc, char** argv) {
  if (argc > 1)
    inProcesses(std::atoi(argv[1]));
  else
    inOneProcess();
}
