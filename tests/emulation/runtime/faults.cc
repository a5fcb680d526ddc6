#include "tests/emulation/runtime/faults.h"

#include <csignal>
#include <cstdio>
#include <map>
#include <string>

#include "tests/emulation/emulation.h"
#include "tests/emulation/sanitizers.h"

namespace tutti::emulation {
namespace {

std::map<const char*, Allocation>& freed() {
  static auto* const all = new std::map<const char*, Allocation>;
  return *all;
}

std::string explain(const char* address) {
  auto above = freed().upper_bound(address);
  if (above != freed().begin()) {
    const Allocation& before = (--above)->second;
    if (address < before.mapping + before.mappedBytes)
      return "touches memory that was freed or unmapped, " +
             std::to_string(address - before.start) + " bytes into it";
  }
  // The lock may be held by who faulted; the table is only read, and the process ends.
  for (const char* const near : {address - kPageBytes, address + kPageBytes})
    if (const Allocation* const found = findAllocation(near))
      return "touches " + std::to_string(address - found->start) + " bytes from an allocation of " +
             std::to_string(found->bytes);
  return {};
}

void handle(int signal, siginfo_t* info, void*) {
  const std::string text = explain(static_cast<const char*>(info->si_addr));
  if (!text.empty()) fail(text);
  std::signal(signal, SIG_DFL);  // and the instruction faults again
}

}  // namespace

void watchFaults() {
  static bool isWatching = false;
  if (isWatching || kAddressSanitizer || kThreadSanitizer) return;
  isWatching = true;
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

void rememberFreed(const Allocation& allocation) { freed()[allocation.mapping] = allocation; }

}  // namespace tutti::emulation
