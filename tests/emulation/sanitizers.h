#pragma once

// What the emulation tells the sanitizers. It is itself compiled without -fsanitize, so that they
// see only what is said here. Which of them the program has comes from the build, to sanitizers.cc
// alone, as TUTTI_EMULATION_ADDRESS or TUTTI_EMULATION_THREAD. Without either, all of this is
// nothing.

#include <cstddef>
#include <cstdint>

namespace tutti::emulation {

extern const bool kThreadSanitizer, kAddressSanitizer;

/// ThreadSanitizer's idea of a thread: a CUDA thread is one, and so is each asynchronous proxy.
using ThreadContext = void*;
ThreadContext newThreadContext(const char* name);
ThreadContext currentThreadContext();
/// Continues as another thread, without an edge between the two.
void switchThreadContext(ThreadContext to);

/// Around a switch of stacks, for AddressSanitizer: `keep` of the fiber that is left, the other's
/// stack; then in the fiber that goes on.
void beginStackSwitch(void** keep, const void* stack, size_t bytes);
void finishStackSwitch(void* kept);

/// While one lives, ThreadSanitizer ignores what this thread touches: the emulation's own data,
/// which it would see in malloc and memcpy.
class Ignored {
 public:
  Ignored();
  ~Ignored();
  Ignored(const Ignored&) = delete;
  Ignored& operator=(const Ignored&) = delete;
};

/// While one lives, this OS thread is another one to ThreadSanitizer.
class ActingAs {
 public:
  explicit ActingAs(ThreadContext context);
  ~ActingAs();
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;

 private:
  ThreadContext previous_;
};

/// Whether AddressSanitizer forbids any of the bytes.
bool isForbidden(const void* from, size_t bytes);

// Atomic accesses of kernels, which ThreadSanitizer must know for such. `order` is one of
// __ATOMIC_*.
uint32_t atomicLoad(const uint32_t* from, int order);
uint64_t atomicLoad(const uint64_t* from, int order);
void atomicStore(uint32_t* to, uint32_t value, int order);
void atomicStore(uint64_t* to, uint64_t value, int order);
bool atomicCompareExchange(uint32_t* at, uint32_t* expected, uint32_t value, int order);
bool atomicCompareExchange(uint64_t* at, uint64_t* expected, uint64_t value, int order);

/// Replaces the word by update(word); returns what it was.
template <class Word, class Update>
Word atomicUpdate(Word* at, int order, Update update) {
  Word old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!atomicCompareExchange(at, &old, update(old), order)) {
  }
  return old;
}

}  // namespace tutti::emulation
