#include "tests/emulation/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>

#include "tests/emulation/emulation.h"

// Pushes the registers that a function must keep, changes stacks, pops the other's.
extern "C" void tuttiSwitchStack(void** save, void* load);
asm(R"(
.text
.globl tuttiSwitchStack
.hidden tuttiSwitchStack
.type tuttiSwitchStack, @function
tuttiSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tuttiSwitchStack, .-tuttiSwitchStack
)");

namespace tutti::emulation {
namespace {

constexpr size_t kGuardBytes = 4096;
constexpr int kSavedRegisters = 6;

/// How far below its end a stack begins. If all began at the end of a page, what threads touch most
/// would be in the same few lines of the cache.
size_t aside(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) / kGuardBytes % 16 * 256;
}

}  // namespace

void makeFiber(Fiber& fiber, size_t stackBytes, void (*entry)()) {
  void* const memory = mmap(nullptr, stackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0)
    fail("no memory for the stacks of so many threads");
  fiber.stack = static_cast<char*>(memory) + kGuardBytes;
  fiber.stackBytes = stackBytes;
  // The address of `entry` is what the switch returns to, with %rsp a multiple of 16 less 8, as
  // after a call.
  void** top = reinterpret_cast<void**>(fiber.stack + stackBytes - aside(memory));
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = nullptr;
  fiber.stackPointer = top;
  fiber.context = newThreadContext(nullptr);
}

void adoptThread(Fiber& fiber) {
  fiber.context = currentThreadContext();
  pthread_attr_t attributes;
  void* lowest = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) fail("no attributes of a thread");
  pthread_attr_getstack(&attributes, &lowest, &fiber.stackBytes);
  pthread_attr_destroy(&attributes);
  fiber.stack = static_cast<char*>(lowest);
}

void switchFiber(Fiber& from, Fiber& to) {
  beginStackSwitch(&from.fakeStack, to.stack, to.stackBytes);
  switchThreadContext(to.context);
  tuttiSwitchStack(&from.stackPointer, to.stackPointer);
  finishStackSwitch(from.fakeStack);
}

void beginFiber() { finishStackSwitch(nullptr); }

}  // namespace tutti::emulation
