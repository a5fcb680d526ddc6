#pragma once

// What a warpgroup has under way in wgmma, and its registers. See ptx/wgmma.cc and
// ptx/registers.cc.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <tutti/cuda/ptx.cuh>

namespace tutti::emulation {

struct Thread;

constexpr int kWarpgroup = 128;  // threads

/// The accumulators of one or several wgmmas in a row, from the first's issue to the wait for the
/// last. The threads' own arrays hold NaN meanwhile.
struct AccumulatorTile {
  std::array<float*, kWarpgroup> registers{};  // null until the thread has issued
  std::array<bool, kWarpgroup> delivered{};    // back to the thread
  int deliveries = 0;
  std::vector<float> values;  // 64 rows by `columns`
  int columns = 0;
  uint64_t endOfOperations = 0;  // one more than the number of the last that uses it
};

struct WgmmaOperation {
  cuda::ptx::WgmmaIssue issue;
  cuda::Site site;
  AccumulatorTile* tile = nullptr;
  std::array<std::array<uint32_t, 4>, kWarpgroup> aRegisters{};
  int issued = 0;  // by so many threads
};

struct WgmmaGroup {
  uint64_t endOfOperations = 0;
  int committed = 0;  // by so many threads
  char tag = 0;       // its reads of shared memory, for those who wait for it
};

struct RegisterChange {  // a setmaxnreg
  int registers;
  bool increases;
  cuda::Site site;
  int executed = 0;  // by so many threads
};

/// Operations, groups and changes are numbered from 0 on; each thread issues, commits and executes
/// all of them.
struct Warpgroup {
  std::deque<std::unique_ptr<WgmmaOperation>> operations;  // not executed yet
  uint64_t executedOperations = 0;                         // number of operations.front()
  std::deque<std::unique_ptr<WgmmaGroup>> groups;          // all of them
  uint64_t executedGroups = 0;
  std::vector<std::unique_ptr<AccumulatorTile>> tiles;
  std::array<uint64_t, kWarpgroup> issued{}, committed{}, waited{};  // operations, groups, groups
  std::array<uint64_t, kWarpgroup> issuedAtCommit{};
  std::array<bool, kWarpgroup> fenced{};
  std::vector<RegisterChange> registerChanges;
  std::array<size_t, kWarpgroup> changed{};  // so many of them
  Thread* waiting = nullptr;
};

}  // namespace tutti::emulation
