// Accesses of global memory: every load with every store that it can be paired with moves the
// words; every read-modify-write does to a word what PTX says, and returns what it was.

#include <gtest/gtest.h>

#include "tests/emulation/conformance/golden.h"
#include "tests/emulation/conformance/memory_device.cuh"

namespace tutti::emulation::conformance {
namespace {

constexpr size_t kThreads = 96;

template <Load kLoad, Store kStore, class T, class Words>
void expectMoved(const char* name, Words) {
  const auto words = randomWords<uint64_t>(kThreads * sizeof(T) / 8, 7);
  std::vector<T> in(kThreads);
  std::memcpy(in.data(), words.data(), kThreads * sizeof(T));
  const auto out = outputOf<T>(kThreads, move<kLoad, kStore, T>, {.block = dim3(kThreads)},
                               DeviceArray<T>(in).get());
  EXPECT_EQ(std::memcmp(out.data(), in.data(), kThreads * sizeof(T)), 0) << name;
  expectGolden(name, out);
}

template <Load kLoad, Store kStore>
void expectWordsMoved(const std::string& name) {
  expectMoved<kLoad, kStore, uint32_t>((name + "_u32").c_str(), 0);
  expectMoved<kLoad, kStore, uint64_t>((name + "_u64").c_str(), 0);
}

template <Load kLoad, Store kStore>
void expectAllMoved(const std::string& name) {
  expectWordsMoved<kLoad, kStore>(name);
  expectMoved<kLoad, kStore, uint4>((name + "_v4").c_str(), 0);
  expectMoved<kLoad, kStore, ulonglong2>((name + "_v2").c_str(), 0);
}

TEST(Memory, IsMovedByEveryLoadAndStore) {
  expectWordsMoved<Load::AcquireGpu, Store::ReleaseGpu>("acquire_release_gpu");
  expectWordsMoved<Load::AcquireSys, Store::ReleaseSys>("acquire_release_sys");
  expectAllMoved<Load::RelaxedGpu, Store::RelaxedGpu>("relaxed_gpu");
  expectAllMoved<Load::RelaxedSys, Store::RelaxedSys>("relaxed_sys");
  expectAllMoved<Load::Volatile, Store::Volatile>("volatile");
  expectAllMoved<Load::Nc, Store::Streaming>("nc_streaming");
  expectAllMoved<Load::Nc, Store::WriteThrough>("nc_write_through");
}

TEST(Memory, IsMovedByLines) {
  const auto words = randomWords<uint64_t>(64, 8);
  const DeviceArray<uint64_t> in(words);
  const auto out = outputOf<ulonglong2>(32, moveLines, {.block = dim3(32)},
                                        reinterpret_cast<const ulonglong2*>(in.get()));
  EXPECT_EQ(std::memcmp(out.data(), words.data(), words.size() * 8), 0);
  expectGolden("lines", out);
}

/// What PTX says that each operation leaves.
template <class T>
T leftBy(Atomic how, T old, T value, T expected) {
  switch (how) {
    case Atomic::RedMaxGpu:
    case Atomic::RedMaxSys:
    case Atomic::MaxGpu:
    case Atomic::MaxSys: return old > value ? old : value;
    case Atomic::ExchGpu:
    case Atomic::ExchSys: return value;
    case Atomic::CasGpu:
    case Atomic::CasSys: return old == expected ? value : old;
    default: return old + value;
  }
}

template <Atomic kAtomic, class T>
void expectAtomic(const std::string& name) {
  auto in = randomWords<T>(3 * kThreads, 9);
  for (size_t i = 0; i < kThreads; i += 2) in[3 * i + 2] = in[3 * i];  // half of them equal
  const auto out = outputOf<T>(2 * kThreads, atomics<kAtomic, T>, {.block = dim3(kThreads)},
                               DeviceArray<T>(in).get());
  for (size_t i = 0; i < kThreads; ++i) {
    const T old = in[3 * i];
    ASSERT_EQ(out[2 * i], leftBy(kAtomic, old, in[3 * i + 1], in[3 * i + 2])) << name << " " << i;
    ASSERT_EQ(out[2 * i + 1], kAtomic <= Atomic::RedMaxSys ? 0 : old) << name << " " << i;
  }
  expectGolden(name, out);
}

template <size_t... kIndex>
void expectAtomics(std::index_sequence<kIndex...>) {
  (expectAtomic<Atomic(kIndex), uint32_t>("atomic_" + std::to_string(kIndex) + "_u32"), ...);
  (expectAtomic<Atomic(kIndex), uint64_t>("atomic_" + std::to_string(kIndex) + "_u64"), ...);
}

TEST(Memory, IsChangedByAtomics) { expectAtomics(std::make_index_sequence<16>{}); }

template <bool kSys>
void expectCounted(const std::string& name) {
  DeviceArray<uint32_t> out(3);
  out.fill(0);
  check(cuda::launch(countWithFences<kSys>, {.grid = dim3(6), .block = dim3(64)}, out.get()));
  check(cudaDeviceSynchronize());
  const uint32_t sum = 6 * 64 * 63 / 2;
  const auto words = out.download();
  EXPECT_EQ(words, (std::vector<uint32_t>{sum, 6 * 64, sum}));
  expectGolden(name, words);
}

TEST(Memory, IsOrderedByFences) {
  expectCounted<false>("fence_gpu");
  expectCounted<true>("fence_sys");
}

}  // namespace
}  // namespace tutti::emulation::conformance
