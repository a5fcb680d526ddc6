// setmaxnreg; see include/tutti/cuda/ptx/warp.cuh. A thread's registers are numbers here, which a
// block's threads take from what all of them had at its beginning.

#include "tests/emulation/warp.h"
#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

constexpr int kRegistersOfProcessor = 65536, kMostOfThread = 256;

std::string nameOf(const RegisterChange& change) {
  return std::string("setmaxnreg.") + (change.increases ? "inc to " : "dec to ") +
         std::to_string(change.registers);
}

void requireFull(void**, unsigned lanes) { requireFullWarp(lanes, "setmaxnreg"); }

/// Fails where a thread has exited that did not execute the warpgroup's change of that number.
void expectNoneLeftBefore(const RegisterChange& change, size_t number, unsigned first,
                          const Block& block) {
  const Warpgroup& all = block.warpgroups[first / kWarpgroup];
  for (unsigned i = 0; i < kWarpgroup; ++i) {
    const bool hasExited = (block.warps[(first + i) / 32].exited >> i % 32 & 1) != 0;
    if (hasExited && all.changed[i] <= number)
      failAt(change.site, nameOf(change) + ", but thread " + std::to_string(first + i) +
                              " of the warpgroup has exited");
  }
}

/// Notes that this thread executes it as its warpgroup's next one, the same as all others.
void note(const RegisterChange& change, Thread& thread) {
  Warpgroup& all = warpgroupOf(thread, "setmaxnreg", change.site);
  const unsigned self = thread.linear % kWarpgroup;
  const size_t number = all.changed[self]++;
  expectNoneLeftBefore(change, number, thread.linear - self, *thread.block);
  if (number == all.registerChanges.size()) {
    if (number > 0 && all.registerChanges.back().executed < kWarpgroup)
      failAt(change.site, nameOf(change) + " before all threads of the warpgroup have executed " +
                              nameOf(all.registerChanges.back()));
    all.registerChanges.push_back(change);
  }
  RegisterChange& same = all.registerChanges[number];
  if (same.registers != change.registers || same.increases != change.increases)
    failAt(change.site, nameOf(change) + ", but others of the warpgroup execute " + nameOf(same));
  ++same.executed;
  // How many a compiler gave the kernel at first is not known here.
  const bool isWrongWay =
      change.increases ? change.registers < thread.registers : change.registers > thread.registers;
  if (number > 0 && isWrongWay)
    failAt(change.site,
           nameOf(change) + " by threads that have " + std::to_string(thread.registers));
}

void changeRegisters(RegisterChange change) {
  Ignored ignored;
  Thread& thread = thisThread("setmaxnreg");
  note(change, thread);
  meetInWarp(kFullWarp, nullptr, requireFull, false, change.site);
  Block& block = *thread.block;
  while (change.increases && block.freeRegisters < change.registers - thread.registers) {
    thread.next = block.waitingForRegisters;
    block.waitingForRegisters = &thread;
    thread.worker->wait("setmaxnreg.inc", change.site);
  }
  block.freeRegisters += thread.registers - change.registers;
  thread.registers = change.registers;
  thread.worker->wake(block.waitingForRegisters);
}

}  // namespace

int registersAtFirst(unsigned threads) {
  return std::min(kMostOfThread, kRegistersOfProcessor / static_cast<int>(threads) / 8 * 8);
}

}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

void increaseRegisters(int registers, Site site) { changeRegisters({registers, true, site}); }
void decreaseRegisters(int registers, Site site) { changeRegisters({registers, false, site}); }

}  // namespace tutti::cuda::ptx
