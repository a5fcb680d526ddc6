// wgmma; see include/tutti/cuda/ptx/wgmma.cuh.
//
// An operation is complete when all 128 threads have issued it with the same operands. A group,
// once all have committed it, is executed later, outside any thread: only then is shared memory
// read. The accumulators move from the threads' arrays, which become NaN, into a tile at the first
// issue, and back when a thread waits for the last operation that uses them.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/emulation/ptx/matrix_descriptor.h"
#include "tests/emulation/ptx/numbers.h"
#include "tests/emulation/warp.h"
#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

using cuda::ptx::WgmmaIssue;
using cuda::ptx::WgmmaType;

constexpr int kRows = 64;

/// Row and column of a thread's accumulator i; of its A registers too, as pairs.
int rowOf(unsigned thread, int i) {
  return static_cast<int>(thread / 32 * 16 + thread % 32 / 4) + 8 * (i / 2 % 2);
}
int columnOf(unsigned thread, int i) {
  return 8 * (i / 4) + 2 * static_cast<int>(thread % 4) + i % 2;
}

float numberOf(WgmmaType type, uint32_t bits) {
  if (type == WgmmaType::Tf32) return fromTf32(bits);
  return type == WgmmaType::Bf16 ? fromBf16(static_cast<uint16_t>(bits))
                                 : fromF16(static_cast<uint16_t>(bits));
}

/// The elements of 16 bytes, `step` apart.
template <WgmmaType kType>
void widenChunk(const char* from, float* to, int step) {
  using Bits = std::conditional_t<kType == WgmmaType::Tf32, uint32_t, uint16_t>;
  std::array<Bits, 16 / sizeof(Bits)> chunk;
  std::memcpy(chunk.data(), from, sizeof chunk);
  for (const Bits bits : chunk) {
    *to = numberOf(kType, bits);
    to += step;
  }
}

/// How far apart rows of a, or columns of b, are among an operand's values, and numbers along k.
struct Steps {
  int row, k;
};

/// An operand's values: `count` rows of a, or columns of b.
std::vector<float> readShared(const WgmmaOperation& operation, uint64_t descriptor,
                              cuda::ptx::Major major, int count, Steps steps, Block& block) {
  const WgmmaType type = operation.issue.type;
  const int bytes = type == WgmmaType::Tf32 ? 4 : 2, depth = 32 / bytes, perChunk = 16 / bytes;
  const auto widen = type == WgmmaType::Tf32   ? widenChunk<WgmmaType::Tf32>
                     : type == WgmmaType::Bf16 ? widenChunk<WgmmaType::Bf16>
                                               : widenChunk<WgmmaType::F16>;
  const MatrixDescriptor matrix(descriptor, major, operation.site);
  std::vector<float> values(static_cast<size_t>(count) * static_cast<size_t>(depth));
  const bool kMajor = major == cuda::ptx::Major::K;
  const int chunks = count * depth / perChunk;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    // Chunks run along k (K-major) or along rows (MN-major).
    const int along = kMajor ? depth / perChunk : count / perChunk;
    const int first = chunk % along * perChunk, other = chunk / along;
    const char* const from =
        sharedBytes(matrix.chunk(other, first / perChunk), 16, 16, block, operation.site);
    touchRead(from, 16, "wgmma");
    const int row = kMajor ? other : first, k = kMajor ? first : other;
    widen(from, &values[static_cast<size_t>(row * steps.row + k * steps.k)],
          kMajor ? steps.k : steps.row);
  }
  return values;
}

std::vector<float> readRegisters(const WgmmaOperation& operation) {
  const WgmmaType type = operation.issue.type;
  const int depth = type == WgmmaType::Tf32 ? 8 : 16;
  std::vector<float> values(static_cast<size_t>(kRows * depth));
  for (unsigned thread = 0; thread < kWarpgroup; ++thread)
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = operation.aRegisters[thread][static_cast<size_t>(i)];
      if (type == WgmmaType::Tf32) {
        const int row = static_cast<int>(thread / 32 * 16 + thread % 32 / 4) + 8 * (i % 2);
        const int k = static_cast<int>(thread % 4) + 4 * (i / 2);
        values[static_cast<size_t>(row * depth + k)] = numberOf(type, word);
        continue;
      }
      for (int half = 0; half < 2; ++half) {
        const int row = rowOf(thread, 2 * i), k = columnOf(thread, 2 * i + half);
        values[static_cast<size_t>(row * depth + k)] = numberOf(type, word >> 16 * half);
      }
    }
  return values;
}

/// d += a b, with a as [row][k] and b as [k][column]. One rounding per product, k from 0 on.
[[gnu::target_clones("default", "arch=x86-64-v3")]] void multiply(float* d, const float* a,
                                                                  const float* b, int columns,
                                                                  int depth) {
  for (int row = 0; row < kRows; ++row)
    for (int k = 0; k < depth; ++k)
      for (int column = 0; column < columns; ++column)
        d[row * columns + column] += a[row * depth + k] * b[k * columns + column];
}

void execute(const WgmmaOperation& operation, Block& block) {
  const WgmmaIssue& issue = operation.issue;
  AccumulatorTile& tile = *operation.tile;
  const int depth = issue.type == WgmmaType::Tf32 ? 8 : 16;
  const std::vector<float> a =
      issue.aRegisters != nullptr
          ? readRegisters(operation)
          : readShared(operation, issue.a, issue.aMajor, kRows, {.row = depth, .k = 1}, block);
  const std::vector<float> b = readShared(operation, issue.b, issue.bMajor, issue.columns,
                                          {.row = 1, .k = issue.columns}, block);
  if (!issue.accumulate) std::fill(tile.values.begin(), tile.values.end(), 0.0f);
  multiply(tile.values.data(), a.data(), b.data(), issue.columns, depth);
}

void executeNextGroup(Warpgroup& all, Block& block, Worker& worker) {
  WgmmaGroup& group = *all.groups[all.executedGroups];
  {
    ActingAs reader(block.reader);
    while (all.executedOperations < group.endOfOperations) {
      execute(*all.operations.front(), block);
      all.operations.pop_front();
      ++all.executedOperations;
    }
    release(&group.tag);
  }
  ++all.executedGroups;
  worker.wake(all.waiting);
}

AccumulatorTile& tileOf(Warpgroup& all, unsigned thread, const WgmmaIssue& issue) {
  for (auto& tile : all.tiles)
    if (tile->registers[thread] == issue.d && !tile->delivered[thread]) return *tile;
  all.tiles.push_back(std::make_unique<AccumulatorTile>());
  AccumulatorTile& tile = *all.tiles.back();
  tile.columns = issue.columns;
  tile.values.resize(static_cast<size_t>(kRows * issue.columns));
  return tile;
}

/// Takes the thread's accumulators into the tile, unless they are there already.
void capture(Warpgroup& all, AccumulatorTile& tile, unsigned thread, const WgmmaIssue& issue,
             Site site) {
  if (tile.columns != issue.columns ||
      (tile.registers[thread] != nullptr &&
       (tile.registers[thread] != issue.d || tile.delivered[thread])))
    failAt(site,
           "wgmma: not all threads of the warpgroup use the same accumulators, or not as "
           "the wgmmas under way do");
  if (tile.registers[thread] != nullptr) return;
  if (!all.fenced[thread])
    failAt(site, "wgmma without wgmma.fence after its accumulators were touched");
  tile.registers[thread] = issue.d;
  for (int i = 0; i < issue.columns / 2; ++i) {
    tile.values[static_cast<size_t>(rowOf(thread, i) * tile.columns + columnOf(thread, i))] =
        issue.d[i];
    issue.d[i] = std::numeric_limits<float>::quiet_NaN();
  }
}

void deliver(AccumulatorTile& tile, unsigned thread) {
  float* const d = tile.registers[thread];
  for (int i = 0; i < tile.columns / 2; ++i)
    d[i] = tile.values[static_cast<size_t>(rowOf(thread, i) * tile.columns + columnOf(thread, i))];
  tile.delivered[thread] = true;
  ++tile.deliveries;
}

bool sameOperands(const WgmmaIssue& one, const WgmmaIssue& other) {
  return one.columns == other.columns && one.type == other.type && one.a == other.a &&
         one.b == other.b && one.aMajor == other.aMajor && one.bMajor == other.bMajor &&
         one.accumulate == other.accumulate &&
         (one.aRegisters == nullptr) == (other.aRegisters == nullptr);
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

void wgmmaFence(Site site) {
  Thread& thread = thisThread("wgmma.fence");
  warpgroupOf(thread, "wgmma", site).fenced[thread.linear % kWarpgroup] = true;
}

void wgmmaIssue(const WgmmaIssue& issue, Site site) {
  Ignored ignored;
  Thread& thread = thisThread("wgmma");
  Warpgroup& all = warpgroupOf(thread, "wgmma", site);
  const unsigned self = thread.linear % kWarpgroup;
  const uint64_t number = all.issued[self]++;
  const size_t at = number - all.executedOperations;
  if (at == all.operations.size()) {
    all.operations.push_back(std::make_unique<WgmmaOperation>());
    all.operations.back()->issue = issue;
    all.operations.back()->site = site;
    all.operations.back()->tile = &tileOf(all, self, issue);
    all.operations.back()->tile->endOfOperations = number + 1;
  }
  WgmmaOperation& operation = *all.operations[at];
  if (!sameOperands(operation.issue, issue))
    failAt(site, "wgmma: operands of thread " + std::to_string(thread.linear) +
                     " differ from those of the rest of its warpgroup");
  capture(all, *operation.tile, self, issue, site);
  if (issue.aRegisters != nullptr)
    std::copy_n(issue.aRegisters, 4, operation.aRegisters[self].begin());
  if (++operation.issued == kWarpgroup) {
    ActingAs reader(thread.block->reader);
    acquire(&thread.block->proxyTag);
  }
}

void wgmmaCommit(Site site) {
  Ignored ignored;
  Thread& thread = thisThread("wgmma.commit_group");
  Warpgroup& all = warpgroupOf(thread, "wgmma", site);
  const unsigned self = thread.linear % kWarpgroup;
  const uint64_t number = all.committed[self]++;
  if (number == all.groups.size()) {
    all.groups.push_back(std::make_unique<WgmmaGroup>());
    all.groups.back()->endOfOperations = all.issued[self];
  }
  WgmmaGroup& group = *all.groups[number];
  if (group.endOfOperations != all.issued[self])
    failAt(site,
           "wgmma.commit_group: threads of a warpgroup have issued different numbers of wgmmas");
  all.issuedAtCommit[self] = all.issued[self];
  if (++group.committed < kWarpgroup) return;
  Block& block = *thread.block;
  Worker& worker = *thread.worker;
  worker.defer(&block, [&all, &block, &worker] { executeNextGroup(all, block, worker); });
}

void wgmmaWaitAllBut(int groups, Site site) {
  Ignored ignored;
  Thread& thread = thisThread("wgmma.wait_group");
  Warpgroup& all = warpgroupOf(thread, "wgmma", site);
  const unsigned self = thread.linear % kWarpgroup;
  const auto left = static_cast<uint64_t>(groups);
  const uint64_t target = all.committed[self] > left ? all.committed[self] - left : 0;
  while (all.executedGroups < target) {
    thread.next = all.waiting;
    all.waiting = &thread;
    thread.worker->wait("wgmma.wait_group", site);
  }
  for (uint64_t i = all.waited[self]; i < target; ++i) acquire(&all.groups[i]->tag);
  all.waited[self] = std::max(all.waited[self], target);
  const uint64_t operations = target > 0 ? all.groups[target - 1]->endOfOperations : 0;
  for (auto& tile : all.tiles) {
    if (tile->registers[self] == nullptr || tile->delivered[self]) continue;
    if (tile->endOfOperations > operations) continue;
    deliver(*tile, self);
    all.fenced[self] = false;
  }
  std::erase_if(all.tiles, [](const auto& tile) { return tile->deliveries == kWarpgroup; });
}

}  // namespace tutti::cuda::ptx
