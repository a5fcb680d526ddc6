#include "tests/emulation/sanitizers.h"

#include "tests/emulation/emulation.h"

#ifdef TUTTI_EMULATION_THREAD
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_set_fiber_name(void* fiber, const char* name);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
uint32_t __tsan_atomic32_load(const volatile uint32_t* from, int order);
uint64_t __tsan_atomic64_load(const volatile uint64_t* from, int order);
void __tsan_atomic32_store(volatile uint32_t* to, uint32_t value, int order);
void __tsan_atomic64_store(volatile uint64_t* to, uint64_t value, int order);
int __tsan_atomic32_compare_exchange_strong(volatile uint32_t* at, uint32_t* expected,
                                            uint32_t value, int order, int failureOrder);
int __tsan_atomic64_compare_exchange_strong(volatile uint64_t* at, uint64_t* expected,
                                            uint64_t value, int order, int failureOrder);
}
#endif
#ifdef TUTTI_EMULATION_ADDRESS
extern "C" {
void __sanitizer_start_switch_fiber(void** keep, const void* stack, size_t bytes);
void __sanitizer_finish_switch_fiber(void* kept, const void** oldStack, size_t* oldBytes);
void __asan_poison_memory_region(const volatile void* from, size_t bytes);
void __asan_unpoison_memory_region(const volatile void* from, size_t bytes);
void* __asan_region_is_poisoned(void* from, size_t bytes);
}
#endif

namespace tutti::emulation {

#ifdef TUTTI_EMULATION_THREAD
const bool kThreadSanitizer = true;
#else
const bool kThreadSanitizer = false;
#endif
#ifdef TUTTI_EMULATION_ADDRESS
const bool kAddressSanitizer = true;
#else
const bool kAddressSanitizer = false;
#endif

#ifdef TUTTI_EMULATION_THREAD
namespace {
constexpr unsigned kNoEdge = 1;  // of __tsan_switch_to_fiber()
}

ThreadContext newThreadContext(const char* name) {
  void* const context = __tsan_create_fiber(0);
  if (name != nullptr) __tsan_set_fiber_name(context, name);
  return context;
}
ThreadContext currentThreadContext() { return __tsan_get_current_fiber(); }
void switchThreadContext(ThreadContext to) { __tsan_switch_to_fiber(to, kNoEdge); }
void release(const void* tag) { __tsan_release(const_cast<void*>(tag)); }
void acquire(const void* tag) { __tsan_acquire(const_cast<void*>(tag)); }
Ignored::Ignored() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
Ignored::~Ignored() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
ActingAs::ActingAs(ThreadContext context) : previous_(currentThreadContext()) {
  switchThreadContext(context);
}
ActingAs::~ActingAs() { switchThreadContext(previous_); }

uint32_t atomicLoad(const uint32_t* from, int order) { return __tsan_atomic32_load(from, order); }
uint64_t atomicLoad(const uint64_t* from, int order) { return __tsan_atomic64_load(from, order); }
void atomicStore(uint32_t* to, uint32_t value, int order) {
  __tsan_atomic32_store(to, value, order);
}
void atomicStore(uint64_t* to, uint64_t value, int order) {
  __tsan_atomic64_store(to, value, order);
}
bool atomicCompareExchange(uint32_t* at, uint32_t* expected, uint32_t value, int order) {
  return __tsan_atomic32_compare_exchange_strong(at, expected, value, order, __ATOMIC_RELAXED) != 0;
}
bool atomicCompareExchange(uint64_t* at, uint64_t* expected, uint64_t value, int order) {
  return __tsan_atomic64_compare_exchange_strong(at, expected, value, order, __ATOMIC_RELAXED) != 0;
}
#else
ThreadContext newThreadContext(const char*) { return nullptr; }
ThreadContext currentThreadContext() { return nullptr; }
void switchThreadContext(ThreadContext) {}
void release(const void*) {}
void acquire(const void*) {}
Ignored::Ignored() {}
Ignored::~Ignored() {}
ActingAs::ActingAs(ThreadContext) : previous_(nullptr) { static_cast<void>(previous_); }
ActingAs::~ActingAs() {}

uint32_t atomicLoad(const uint32_t* from, int order) { return __atomic_load_n(from, order); }
uint64_t atomicLoad(const uint64_t* from, int order) { return __atomic_load_n(from, order); }
void atomicStore(uint32_t* to, uint32_t value, int order) { __atomic_store_n(to, value, order); }
void atomicStore(uint64_t* to, uint64_t value, int order) { __atomic_store_n(to, value, order); }
bool atomicCompareExchange(uint32_t* at, uint32_t* expected, uint32_t value, int order) {
  return __atomic_compare_exchange_n(at, expected, value, false, order, __ATOMIC_RELAXED);
}
bool atomicCompareExchange(uint64_t* at, uint64_t* expected, uint64_t value, int order) {
  return __atomic_compare_exchange_n(at, expected, value, false, order, __ATOMIC_RELAXED);
}
#endif

#ifdef TUTTI_EMULATION_ADDRESS
void beginStackSwitch(void** keep, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(keep, stack, bytes);
}
void finishStackSwitch(void* kept) { __sanitizer_finish_switch_fiber(kept, nullptr, nullptr); }
void forbid(const void* from, size_t bytes) { __asan_poison_memory_region(from, bytes); }
void allow(const void* from, size_t bytes) { __asan_unpoison_memory_region(from, bytes); }
bool isForbidden(const void* from, size_t bytes) {
  return __asan_region_is_poisoned(const_cast<void*>(from), bytes) != nullptr;
}
#else
void beginStackSwitch(void**, const void*, size_t) {}
void finishStackSwitch(void*) {}
void forbid(const void*, size_t) {}
void allow(const void*, size_t) {}
bool isForbidden(const void*, size_t) { return false; }
#endif

void touchRead(const void* from, size_t bytes, const char* what) {
  if (bytes == 0) return;
  if (isForbidden(from, bytes))
    fail(std::string(what) + ": reads " + std::to_string(bytes) +
         " bytes beyond what is allocated");
#ifdef TUTTI_EMULATION_THREAD
  __tsan_read_range(const_cast<void*>(from), bytes);
#endif
}

void touchWrite(void* to, size_t bytes, const char* what) {
  if (bytes == 0) return;
  if (isForbidden(to, bytes))
    fail(std::string(what) + ": writes " + std::to_string(bytes) +
         " bytes beyond what is allocated");
#ifdef TUTTI_EMULATION_THREAD
  __tsan_write_range(to, bytes);
#endif
}

}  // namespace tutti::emulation
