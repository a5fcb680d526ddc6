#pragma once

/// \file
/// The names of CUDA C++, for compilers other than nvcc: indices, barriers, warp collectives and
/// atomics. Only device.cuh includes it. tests/emulation defines the functions of namespace
/// emulated and the templates without a body.

#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __noinline__  // libstdc++ uses it as the attribute's name; kernels do not use it
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__ TUTTI_ERROR_shared_memory_is_TUTTI_SHARED_or_dynamicShared
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

#define TUTTI_DEVICE inline
#define TUTTI_ONLY_SITE ::tutti::cuda::Site site = ::tutti::cuda::Site::here()
#define TUTTI_SITE , TUTTI_ONLY_SITE
#define TUTTI_ONLY_HERE site
#define TUTTI_HERE , site

#define TUTTI_SHARED(type, name, ...)                                                   \
  using name##_type = type __VA_ARGS__;                                                 \
  static const char name##_key = 0;                                                     \
  name##_type& name = *static_cast<name##_type*>(::tutti::cuda::emulated::staticShared( \
      &name##_key, sizeof(name##_type), alignof(name##_type)))

namespace tutti::cuda {

/// A place in a kernel's source, for the emulation's reports.
struct Site {
  const char* file = "";
  int line = 0;
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

namespace emulated {

enum class Vote { Ballot, Any, All };
enum class ShuffleKind { Index, Xor, Up, Down };
enum class Redux { Add, Min, Max, And, Or, Xor };
enum class BlockVote { None, Count, And, Or };

void* staticShared(const void* key, size_t bytes, size_t alignment);
void* dynamicShared();
void gridSync(Site site);
void spinHint(Site site);
int syncThreads(BlockVote vote, bool predicate, Site site);
void syncWarp(unsigned mask, Site site);
void threadFence();
uint64_t shuffle(unsigned mask, uint64_t value, ShuffleKind lane, unsigned operand, int width,
                 Site site);
unsigned vote(unsigned mask, bool predicate, Vote how, Site site);
unsigned matchAny(unsigned mask, uint64_t value, Site site);
uint32_t redux(unsigned mask, uint32_t value, Redux how, bool isSigned, Site site);
uint64_t clock();
[[noreturn]] void trap(Site site);

template <class T>
T shuffle(unsigned mask, T value, ShuffleKind lane, unsigned operand, int width, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = shuffle(mask, bits, lane, operand, width, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulated
}  // namespace tutti::cuda

// The emulation sets these variables when it switches threads. They are no macros, because fields
// of cudaLaunchConfig_t have the same names.
extern thread_local constinit uint3 threadIdx, blockIdx;
extern thread_local constinit dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

inline void __syncthreads(TUTTI_ONLY_SITE) {
  tutti::cuda::emulated::syncThreads(tutti::cuda::emulated::BlockVote::None, false, site);
}
inline int __syncthreads_count(int predicate TUTTI_SITE) {
  using tutti::cuda::emulated::BlockVote;
  return tutti::cuda::emulated::syncThreads(BlockVote::Count, predicate != 0, site);
}
inline int __syncthreads_and(int predicate TUTTI_SITE) {
  using tutti::cuda::emulated::BlockVote;
  return tutti::cuda::emulated::syncThreads(BlockVote::And, predicate != 0, site);
}
inline int __syncthreads_or(int predicate TUTTI_SITE) {
  using tutti::cuda::emulated::BlockVote;
  return tutti::cuda::emulated::syncThreads(BlockVote::Or, predicate != 0, site);
}
inline void __syncwarp(unsigned mask = ~0u TUTTI_SITE) {
  tutti::cuda::emulated::syncWarp(mask, site);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32 TUTTI_SITE) {
  using tutti::cuda::emulated::ShuffleKind;
  return tutti::cuda::emulated::shuffle(mask, value, ShuffleKind::Index, unsigned(source), width,
                                        site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32 TUTTI_SITE) {
  using tutti::cuda::emulated::ShuffleKind;
  return tutti::cuda::emulated::shuffle(mask, value, ShuffleKind::Xor, unsigned(bits), width, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32 TUTTI_SITE) {
  using tutti::cuda::emulated::ShuffleKind;
  return tutti::cuda::emulated::shuffle(mask, value, ShuffleKind::Up, distance, width, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32 TUTTI_SITE) {
  using tutti::cuda::emulated::ShuffleKind;
  return tutti::cuda::emulated::shuffle(mask, value, ShuffleKind::Down, distance, width, site);
}

inline unsigned __ballot_sync(unsigned mask, int predicate TUTTI_SITE) {
  using tutti::cuda::emulated::Vote;
  return tutti::cuda::emulated::vote(mask, predicate != 0, Vote::Ballot, site);
}
inline int __any_sync(unsigned mask, int predicate TUTTI_SITE) {
  using tutti::cuda::emulated::Vote;
  return int(tutti::cuda::emulated::vote(mask, predicate != 0, Vote::Any, site));
}
inline int __all_sync(unsigned mask, int predicate TUTTI_SITE) {
  using tutti::cuda::emulated::Vote;
  return int(tutti::cuda::emulated::vote(mask, predicate != 0, Vote::All, site));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value TUTTI_SITE) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return tutti::cuda::emulated::matchAny(mask, bits, site);
}
template <class T>
T __reduce_add_sync(unsigned mask, T value TUTTI_SITE) {
  using tutti::cuda::emulated::Redux;
  return T(tutti::cuda::emulated::redux(mask, uint32_t(value), Redux::Add, false, site));
}
template <class T>
T __reduce_max_sync(unsigned mask, T value TUTTI_SITE) {
  using tutti::cuda::emulated::Redux;
  const bool isSigned = std::is_signed_v<T>;
  return T(tutti::cuda::emulated::redux(mask, uint32_t(value), Redux::Max, isSigned, site));
}
template <class T>
T __reduce_min_sync(unsigned mask, T value TUTTI_SITE) {
  using tutti::cuda::emulated::Redux;
  const bool isSigned = std::is_signed_v<T>;
  return T(tutti::cuda::emulated::redux(mask, uint32_t(value), Redux::Min, isSigned, site));
}

// Relaxed atomics at device scope, for int, unsigned, unsigned long long, float and double. float
// and double have only add and exchange.
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value);
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value);
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value);
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value);
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value);

inline void __threadfence_block() { tutti::cuda::emulated::threadFence(); }
inline void __threadfence() { tutti::cuda::emulated::threadFence(); }
inline void __threadfence_system() { tutti::cuda::emulated::threadFence(); }
inline void __nanosleep(unsigned TUTTI_SITE) { tutti::cuda::emulated::spinHint(site); }
[[noreturn]] inline void __trap(TUTTI_ONLY_SITE) { tutti::cuda::emulated::trap(site); }
inline long long clock64() { return static_cast<long long>(tutti::cuda::emulated::clock()); }

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return std::countl_zero(unsigned(bits)); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
/// As the CUDA programming guide defines it: 0 for divisors beyond 2^126, because a GPU has no
/// reciprocal for them.
inline float __fdividef(float a, float b) {
  const float size = b < 0 ? -b : b;
  return size > 0x1p126f && size <= 0x1.fffffep127f ? a * 0 : a / b;
}
// Each rounds once; nvcc never merges them into an fma.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
constexpr T min(T a, std::type_identity_t<T> b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, std::type_identity_t<T> b) {
  return a < b ? b : a;
}
