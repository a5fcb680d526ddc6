// run(): a launch over OS threads of the emulation; kernels by their host address.

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <tutti/cuda/launch.h>

#include "tests/emulation/quiet.h"
#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

/// OS threads that run blocks. They live for ever and serve one launch after the other, as their
/// fibers outlast these; whoever calls run() may come and go.
class Helpers {
 public:
  static Helpers& ofProcess() {
    static auto* const helpers = new Helpers;
    return *helpers;
  }

  void help(LaunchState& launch) {
    launch.helpers.fetch_add(1);
    Helper* helper = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        helper = idle_.back();
        idle_.pop_back();
      }
    }
    if (helper == nullptr) {
      helper = new Helper;
      std::thread([this, helper] { serve(*helper); }).detach();
    }
    {
      std::lock_guard lock(helper->mutex);
      helper->launch = &launch;
    }
    helper->wake.notifyAll();
  }

  void waitUntilDone(LaunchState& launch) {
    std::lock_guard lock(mutex_);
    while (launch.helpers.load() > 0) done_.wait(mutex_);
  }

 private:
  struct Helper {
    QuietMutex mutex;
    QuietCondition wake;
    LaunchState* launch = nullptr;
  };

  void serve(Helper& helper) {
    Ignored ignored;
    while (true) {
      LaunchState* launch = nullptr;
      {
        std::lock_guard lock(helper.mutex);
        while (helper.launch == nullptr) helper.wake.wait(helper.mutex);
        launch = std::exchange(helper.launch, nullptr);
      }
      Worker::ofThisThread().run(*launch);
      bool isLast = false;
      {
        std::lock_guard lock(mutex_);
        idle_.push_back(&helper);
        isLast = launch->helpers.fetch_sub(1) == 1;
      }
      if (isLast) done_.notifyAll();
    }
  }

  QuietMutex mutex_;
  QuietCondition done_;
  std::vector<Helper*> idle_;
};

uint64_t volume(dim3 shape) { return uint64_t(shape.x) * shape.y * shape.z; }

void check(const Launch& launch) {
  const dim3 g = launch.grid, c = launch.cluster;
  if (volume(g) == 0 || volume(launch.block) == 0 || volume(launch.block) > 1024)
    fail("a launch of no blocks, or of none or more than 1024 threads each");
  if (volume(c) == 0 || volume(c) > 16 || g.x % c.x != 0 || g.y % c.y != 0 || g.z % c.z != 0)
    fail("a cluster that does not divide the grid or has more than 16 blocks");
  if (launch.dynamicSharedBytes > kMaxDynamicSharedBytes)
    fail("more dynamic shared memory than a block can have");
  if (launch.residentBlocks > 0 && launch.residentBlocks < volume(c))
    fail("a cluster of more blocks than may live at a time");
  if (!launch.body) fail("a launch without a kernel");
}

struct Kernels {
  QuietMutex mutex;
  std::map<const void*, Kernel> byAddress;
};
Kernels& kernels() {
  static auto* const all = new Kernels;
  return *all;
}

std::string nameOf(const void* address) {
  Dl_info symbol{};
  if (dladdr(address, &symbol) != 0 && symbol.dli_sname != nullptr && symbol.dli_saddr == address) {
    int status = 0;
    char* const plain = abi::__cxa_demangle(symbol.dli_sname, nullptr, nullptr, &status);
    const std::string name = status == 0 ? plain : symbol.dli_sname;
    std::free(plain);
    return name;
  }
  std::ostringstream text;
  text << "at " << address;
  return text.str();
}

}  // namespace

void run(const Launch& launch) {
  Ignored ignored;
  if (currentThread != nullptr) fail("a launch from a kernel");
  check(launch);
  static std::atomic<uint64_t> launches{0};
  LaunchState state;
  state.launch = &launch;
  state.number = ++launches;
  state.blocksPerCluster = static_cast<unsigned>(volume(launch.cluster));
  state.clusterCount = volume(launch.grid) / state.blocksPerCluster;
  state.threadsPerBlock = static_cast<unsigned>(volume(launch.block));
  release(&state.beginTag);
  for (int i = 0; i < environment().workers && uint64_t(i) < state.clusterCount; ++i)
    Helpers::ofProcess().help(state);
  Helpers::ofProcess().waitUntilDone(state);
  acquire(&state.endTag);
}

void registerKernel(const void* address, Bind bind) {
  Ignored ignored;
  Kernels& all = kernels();
  std::lock_guard lock(all.mutex);
  const auto [at, isNew] = all.byAddress.try_emplace(address);
  if (isNew) at->second.name = nameOf(address);
  at->second.bind = bind;
}

std::optional<Kernel> findKernel(const void* address) {
  Ignored ignored;
  Kernels& all = kernels();
  std::lock_guard lock(all.mutex);
  const auto at = all.byAddress.find(address);
  if (at == all.byAddress.end()) return std::nullopt;
  return at->second;
}

}  // namespace tutti::emulation

namespace tutti::cuda::emulated {

void registerKernel(const void* kernel, Bind bind) { emulation::registerKernel(kernel, bind); }

}  // namespace tutti::cuda::emulated
