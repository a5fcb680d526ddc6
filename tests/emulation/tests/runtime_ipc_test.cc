// Memory and events of other processes. Each test starts this program again as the other process,
// and the two talk over a socket.

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/emulation/tests/runtime_test.h"

extern char** environ;

namespace tutti::emulation {
namespace {

using cuda::launch;

constexpr int kSocket = 198;  // of the other process
constexpr const char* kVariable = "TUTTI_RUNTIME_TEST_PEER";

template <class Value>
void tell(int socket, const Value& value) {
  ASSERT_EQ(write(socket, &value, sizeof value), ssize_t(sizeof value));
}
template <class Value>
Value hear(int socket) {
  Value value{};
  EXPECT_EQ(read(socket, &value, sizeof value), ssize_t(sizeof value));
  return value;
}

void tellFile(int socket, int file) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof file)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(header), &file, sizeof file);
  ASSERT_EQ(sendmsg(socket, &message, 0), 1);
}
int hearFile(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT_EQ(recvmsg(socket, &message, 0), 1);
  int file = -1;
  std::memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
  return file;
}

/// The other process: this program, that does what PEER says under that name.
class Peer {
 public:
  explicit Peer(const std::string& test) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kSocket);
    std::string program = "/proc/self/exe";
    char* const arguments[] = {program.data(), nullptr};
    setenv(kVariable, test.c_str(), 1);
    EXPECT_EQ(posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    unsetenv(kVariable);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
  }
  ~Peer() {
    int status = -1;
    waitpid(process_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the other process failed";
    close(socket_);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  int socket() const { return socket_; }

 private:
  int socket_ = -1;
  pid_t process_ = 0;
};

class Ipc : public RuntimeTest {};

/// What the other processes do, by the names of the tests that start them.
std::map<std::string, void (*)()>& peers() {
  static std::map<std::string, void (*)()> all;
  return all;
}

/// Ends a process that a Peer has started before it comes to tests of its own.
class EndsAsPeer : public testing::Environment {
 public:
  void SetUp() override {
    const char* const name = std::getenv(kVariable);
    if (name == nullptr) return;
    EXPECT_CUDA(cudaSetDevice(0));
    peers().at(name)();
    EXPECT_CUDA(cudaDeviceSynchronize());
    std::exit(testing::Test::HasFailure() ? 1 : 0);
  }
};
const auto* const kEndsAsPeer = testing::AddGlobalTestEnvironment(new EndsAsPeer);

/// The function behind it is the other process of the test of that name.
#define PEER(name)                                                                         \
  void peer##name();                                                                       \
  [[maybe_unused]] const bool kHasPeer##name = peers().emplace(#name, &peer##name).second; \
  void peer##name()

TEST_F(Ipc, MemoryIsShared) {
  Peer peer("MemoryIsShared");
  int* const memory = allocateZeros<int>(1000);
  cudaIpcMemHandle_t handle{};
  ASSERT_CUDA(cudaIpcGetMemHandle(&handle, memory));
  void* mine = nullptr;
  EXPECT_NE(cudaIpcOpenMemHandle(&mine, handle, cudaIpcMemLazyEnablePeerAccess), cudaSuccess);
  tell(peer.socket(), handle);
  hear<char>(peer.socket());
  EXPECT_EQ(download(memory, 1000), std::vector<int>(1000, 5));
  EXPECT_CUDA(cudaMemset(memory, 0, 4000));
  EXPECT_CUDA(cudaDeviceSynchronize());
  tell(peer.socket(), 'x');
}
PEER(MemoryIsShared) {
  const auto handle = hear<cudaIpcMemHandle_t>(kSocket);
  void *memory = nullptr, *again = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&memory, handle, 0), cudaErrorInvalidValue);
  ASSERT_CUDA(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
  EXPECT_CUDA(launch(addTo, {.grid = {4}, .block = {256}}, static_cast<int*>(memory), 1000, 5));
  EXPECT_CUDA(cudaDeviceSynchronize());
  tell(kSocket, 'x');
  hear<char>(kSocket);
  EXPECT_EQ(download(static_cast<int*>(memory), 1)[0], 0);
  EXPECT_CUDA(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  EXPECT_EQ(again, memory);
  cudaIpcMemHandle_t back{};
  EXPECT_NE(cudaIpcGetMemHandle(&back, memory), cudaSuccess);
  EXPECT_NE(cudaFree(memory), cudaSuccess);
  EXPECT_CUDA(cudaIpcCloseMemHandle(memory));
  EXPECT_CUDA(cudaIpcCloseMemHandle(memory));
  EXPECT_NE(cudaIpcCloseMemHandle(memory), cudaSuccess);
}

TEST_F(Ipc, OnlyDeviceMemoryOfTheProcessHasAHandle) {
  cudaIpcMemHandle_t handle{};
  int onStack = 0;
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, &onStack), cudaErrorInvalidValue);
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, allocatePinned<int>(1)), cudaErrorInvalidValue);
}

TEST_F(Ipc, KernelsOfTwoProcessesMeet) {
  Peer peer("KernelsOfTwoProcessesMeet");
  uint32_t* const flags = allocateZeros<uint32_t>(2);
  cudaIpcMemHandle_t handle{};
  ASSERT_CUDA(cudaIpcGetMemHandle(&handle, flags));
  tell(peer.socket(), handle);
  EXPECT_CUDA(launch(meet, {}, flags, flags + 1, 1u));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(download(flags, 2), (std::vector<uint32_t>{1, 1}));
  hear<char>(peer.socket());
}
PEER(KernelsOfTwoProcessesMeet) {
  // Another device, where there is one: kernels of two processes on one take turns on a GPU.
  EXPECT_CUDA(cudaSetDevice(deviceCount() > 1 ? 1 : 0));
  void* memory = nullptr;
  ASSERT_CUDA(cudaIpcOpenMemHandle(&memory, hear<cudaIpcMemHandle_t>(kSocket),
                                   cudaIpcMemLazyEnablePeerAccess));
  auto* const flags = static_cast<uint32_t*>(memory);
  EXPECT_CUDA(launch(meet, {}, flags + 1, flags, 1u));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaIpcCloseMemHandle(memory));
  tell(kSocket, 'x');
}

TEST_F(Ipc, EventsOrderProcesses) {
  Peer peer("EventsOrderProcesses");
  cudaStream_t const stream = makeStream();
  cudaEvent_t const event = makeEvent(cudaEventDisableTiming | cudaEventInterprocess);
  int* const memory = allocateZeros<int>(1);
  cudaIpcMemHandle_t memoryHandle{};
  cudaIpcEventHandle_t eventHandle{};
  ASSERT_CUDA(cudaIpcGetMemHandle(&memoryHandle, memory));
  ASSERT_CUDA(cudaIpcGetEventHandle(&eventHandle, event));
  EXPECT_NE(cudaIpcGetEventHandle(&eventHandle, makeEvent()), cudaSuccess);
  cudaEvent_t mine = nullptr;
  EXPECT_NE(cudaIpcOpenEventHandle(&mine, eventHandle), cudaSuccess);
  Gate gate(stream);
  EXPECT_CUDA(launch(addTo, {.stream = stream}, memory, 1, 5));
  EXPECT_CUDA(cudaEventRecord(event, stream));
  tell(peer.socket(), memoryHandle);
  tell(peer.socket(), eventHandle);
  hear<char>(peer.socket());  // it has looked, and waits now
  gate.open();
  EXPECT_CUDA(cudaEventSynchronize(event));
  hear<char>(peer.socket());
}
PEER(EventsOrderProcesses) {
  void* memory = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_CUDA(cudaIpcOpenMemHandle(&memory, hear<cudaIpcMemHandle_t>(kSocket),
                                   cudaIpcMemLazyEnablePeerAccess));
  ASSERT_CUDA(cudaIpcOpenEventHandle(&event, hear<cudaIpcEventHandle_t>(kSocket)));
  cudaStream_t const stream = makeStream();
  int* const seen = allocatePinned<int>(1);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  EXPECT_CUDA(cudaMemcpyAsync(seen, memory, sizeof(int), cudaMemcpyDeviceToHost, stream));
  tell(kSocket, 'x');
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(*seen, 5);
  EXPECT_CUDA(cudaEventQuery(event));
  EXPECT_CUDA(cudaEventDestroy(event));
  EXPECT_CUDA(cudaIpcCloseMemHandle(memory));
  tell(kSocket, 'x');
}

TEST_F(Ipc, PhysicalMemoryAndPoolsAreSharedAsFiles) {
  Peer peer("PhysicalMemoryAndPoolsAreSharedAsFiles");
  constexpr size_t kBytes = 2 << 20;
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(DRIVER(cuMemCreate)(&handle, kBytes, &wanted, 0), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  ASSERT_EQ(DRIVER(cuMemAddressReserve)(&address, kBytes, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemMap)(address, kBytes, 0, handle, 0), CUDA_SUCCESS);
  const CUmemAccessDesc access{wanted.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(DRIVER(cuMemSetAccess)(address, kBytes, &access, 1), CUDA_SUCCESS);
  auto* const physical = reinterpret_cast<int*>(address);
  EXPECT_CUDA(cudaMemset(physical, 0, kBytes));
  EXPECT_CUDA(cudaDeviceSynchronize());
  int file = -1;
  ASSERT_EQ(DRIVER(cuMemExportToShareableHandle)(&file, handle,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  tellFile(peer.socket(), file);

  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  props.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA(cudaMemPoolCreate(&pool, &props));
  void* pooled = nullptr;
  ASSERT_CUDA(cudaMallocFromPoolAsync(&pooled, 4096, pool, nullptr));
  EXPECT_CUDA(cudaMemset(pooled, 0, 4096));
  EXPECT_CUDA(cudaDeviceSynchronize());
  ASSERT_CUDA(
      cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  cudaMemPoolPtrExportData data{};
  ASSERT_CUDA(cudaMemPoolExportPointer(&data, pooled));
  tellFile(peer.socket(), file);
  tell(peer.socket(), data);
  hear<char>(peer.socket());
  EXPECT_EQ(download(physical, 1)[0], 5);
  EXPECT_EQ(download(static_cast<int*>(pooled), 1)[0], 6);
}
PEER(PhysicalMemoryAndPoolsAreSharedAsFiles) {
  constexpr size_t kBytes = 2 << 20;
  const auto type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const int file = hearFile(kSocket);
  CUmemGenericAllocationHandle handle = 0;
  const auto import = DRIVER(cuMemImportFromShareableHandle);
  EXPECT_NE(import(&handle, reinterpret_cast<void*>(intptr_t(kSocket)), type), CUDA_SUCCESS);
  ASSERT_EQ(import(&handle, reinterpret_cast<void*>(intptr_t(file)), type), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  ASSERT_EQ(DRIVER(cuMemAddressReserve)(&address, kBytes, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(DRIVER(cuMemMap)(address, kBytes, 0, handle, 0), CUDA_SUCCESS);
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(DRIVER(cuMemSetAccess)(address, kBytes, &access, 1), CUDA_SUCCESS);
  EXPECT_CUDA(launch(addTo, {}, reinterpret_cast<int*>(address), 1, 5));
  const int poolFile = hearFile(kSocket);
  auto data = hear<cudaMemPoolPtrExportData>(kSocket);
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA(cudaMemPoolImportFromShareableHandle(
      &pool, reinterpret_cast<void*>(intptr_t(poolFile)), cudaMemHandleTypePosixFileDescriptor, 0));
  void* pooled = nullptr;
  EXPECT_NE(cudaMallocFromPoolAsync(&pooled, 16, pool, nullptr), cudaSuccess);
  ASSERT_CUDA(cudaMemPoolImportPointer(&pooled, pool, &data));
  EXPECT_CUDA(launch(addTo, {}, static_cast<int*>(pooled), 1, 6));
  EXPECT_CUDA(cudaDeviceSynchronize());
  tell(kSocket, 'x');
}

TEST_F(Ipc, AForkedChildHasNoCuda) {
  EXPECT_CUDA(cudaDeviceSynchronize());
  const pid_t child = fork();
  if (child == 0) {
    void* memory = nullptr;
    _exit(cudaMalloc(&memory, 16) == cudaErrorInitializationError ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tutti::emulation
