// Bulk copies and their groups; see include/tutti/cuda/ptx/bulk.cuh.
//
// For ThreadSanitizer the asynchronous proxy is two threads. The one that writes shared memory, and
// touches global memory, knows what the issuing thread knew. The one that reads shared memory knows
// only what was fenced before the issue, and copies whose mbarrier somebody has waited for: without
// a fence.proxy.async, what a thread has just written races with it.

#include <cstring>

#include "tests/emulation/ptx/global.h"
#include "tests/emulation/ptx/mbarrier.h"
#include "tests/emulation/ptx/proxy.h"
#include "tests/emulation/ptx/reduce.h"

namespace tutti::emulation {

void deferLoad(ProxyLoad load, Site site) {
  Ignored ignored;
  requireBarrier(load.barrier, *load.block, site);
  Worker& worker = thisWorker();
  const auto issued = std::make_shared<Tag>();
  release(issued.get());
  const ThreadContext self = thisBlock().loader;
  worker.defer(load.block, [load = std::move(load), issued, self, site] {
    char* const to = sharedBytes(load.to.address, load.to.bytes, 16, *load.block, site);
    {
      ActingAs loader(self);
      acquire(issued.get());
      load.touch();
      touchWrite(to, load.to.bytes, load.what);
    }
    load.move();
    ActingAs loader(self);
    completeBytes(load.barrier, load.to.bytes, *load.block, site);
  });
}

namespace {

/// The second half of a store: what was read is written.
void deferWrite(const std::shared_ptr<ProxyStore>& store, std::vector<char> bytes,
                const std::shared_ptr<BulkGroup>& group, const std::shared_ptr<Tag>& issued,
                LaunchState& launch, ThreadContext self, Worker& worker) {
  worker.defer(nullptr, [store, bytes = std::move(bytes), group, issued, &launch, self] {
    {
      ActingAs loader(self);
      acquire(issued.get());
      store->touch();
    }
    store->move(bytes.data());
    ActingAs loader(self);
    release(&group->writtenTag);
    release(&launch.endTag);
    --group->unwritten;
  });
}

}  // namespace

void deferStore(ProxyStore given, Site site) {
  Ignored ignored;
  Thread& thread = thisThread(given.what);
  Worker& worker = *thread.worker;
  Block& block = *thread.block;
  const auto store = std::make_shared<ProxyStore>(std::move(given));
  const auto issued = std::make_shared<Tag>();
  release(issued.get());
  if (kThreadSanitizer) {
    ActingAs reader(block.reader);
    acquire(&block.proxyTag);
  }
  if (thread.bulkGroup == nullptr) thread.bulkGroup = std::make_shared<BulkGroup>();
  const auto group = thread.bulkGroup;
  group->used = true;
  ++group->unread;
  ++group->unwritten;
  worker.defer(&block, [store, issued, group, &block, &worker, site] {
    const char* const from = sharedBytes(store->from.address, store->from.bytes, 16, block, site);
    {
      ActingAs reader(block.reader);
      touchRead(from, store->from.bytes, store->what);
      release(&group->readTag);
    }
    --group->unread;
    deferWrite(store, std::vector<char>(from, from + store->from.bytes), group, issued,
               launchOf(block), block.loader, worker);
  });
}

namespace {

void requireSizes(uint32_t shared, const void* global, uint32_t bytes, const char* what,
                  Site site) {
  if (offsetOf(shared) % 16 != 0 || bytes % 16 != 0 || bytes == 0)
    failAt(site, std::string(what) + ": shared address and size must be multiples of 16");
  requireAligned(global, 16, what, site);
}

void load(Block& block, uint32_t to, const void* from, uint32_t bytes, uint32_t barrier,
          Site site) {
  constexpr const char* kWhat = "cp.async.bulk to shared memory";
  requireSizes(to, from, bytes, kWhat, site);
  deferLoad({&block,
             {offsetOf(to), bytes},
             offsetOf(barrier),
             [from, bytes] { touchRead(from, bytes, kWhat); },
             [from, bytes, to, &block, site] {
               std::memcpy(sharedBytes(offsetOf(to), bytes, 16, block, site), from, bytes);
             },
             kWhat},
            site);
}

void reduceAdd(CUtensorMapDataType type, void* to, uint32_t from, uint32_t bytes, Site site) {
  constexpr const char* kWhat = "cp.reduce.async.bulk";
  requireSizes(from, to, bytes, kWhat, site);
  auto* const target = static_cast<char*>(to);
  // The additions are atomic accesses, and touch by themselves, as the proxy.
  const ThreadContext self = thisBlock().loader;
  deferStore({{from, bytes},
              [target, bytes] {
                if (isForbidden(target, bytes)) touchWrite(target, bytes, kWhat);
              },
              [=](const char* values) {
                ActingAs loader(self);
                addElements(type, target, values, bytes, site);
              },
              kWhat},
             site);
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

void bulkLoad(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier, Site site) {
  Block& block = *thisThread("cp.async.bulk").block;
  load(blockOf(to, block, site), to, from, bytes, barrier, site);
}

void bulkLoadMulticast(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier,
                       uint16_t blocks, Site site) {
  const auto& all = thisThread("cp.async.bulk").block->cluster->blocks;
  if (blocks == 0 || blocks >> all.size() != 0)
    failAt(site, "a multicast to blocks that the cluster does not have, or to none");
  for (size_t rank = 0; rank < all.size(); ++rank)
    if ((blocks >> rank & 1) != 0) load(*all[rank], to, from, bytes, barrier, site);
}

void bulkCopyCluster(uint32_t to, uint32_t from, uint32_t bytes, uint32_t barrier, Site site) {
  constexpr const char* kWhat = "cp.async.bulk between blocks";
  Block& source = *thisThread(kWhat).block;
  Block& target = blockOf(to, source, site);
  if (&blockOf(barrier, source, site) != &target)
    failAt(site, "a copy to another block counts at an mbarrier of a third");
  const char* const bytesFrom = sharedBytes(from, bytes, 16, source, site);
  requireSizes(to, bytesFrom, bytes, kWhat, site);
  if (kThreadSanitizer) {
    ActingAs reader(source.reader);
    acquire(&source.proxyTag);
  }
  deferLoad({&target,
             {offsetOf(to), bytes},
             offsetOf(barrier),
             [bytesFrom, bytes, &source] {
               ActingAs reader(source.reader);
               touchRead(bytesFrom, bytes, kWhat);
             },
             [=, &target] {
               std::memcpy(sharedBytes(offsetOf(to), bytes, 16, target, site), bytesFrom, bytes);
             },
             kWhat},
            site);
}

void bulkStore(void* to, uint32_t from, uint32_t bytes, Site site) {
  constexpr const char* kWhat = "cp.async.bulk to global memory";
  requireSizes(from, to, bytes, kWhat, site);
  deferStore({{from, bytes},
              [to, bytes] { touchWrite(to, bytes, kWhat); },
              [to, bytes](const char* values) { std::memcpy(to, values, bytes); },
              kWhat},
             site);
}

#define TUTTI_REDUCE(Name, type)                                                 \
  void bulkReduceAdd##Name(void* to, uint32_t from, uint32_t bytes, Site site) { \
    reduceAdd(CU_TENSOR_MAP_DATA_TYPE_##type, to, from, bytes, site);            \
  }
TUTTI_REDUCE(F32, FLOAT32)
TUTTI_REDUCE(F16, FLOAT16)
TUTTI_REDUCE(Bf16, BFLOAT16)
TUTTI_REDUCE(S32, INT32)
TUTTI_REDUCE(U64, UINT64)

void bulkCommit(Site) {
  Ignored ignored;
  Thread& thread = thisThread("cp.async.bulk.commit_group");
  if (thread.bulkGroup == nullptr) thread.bulkGroup = std::make_shared<BulkGroup>();
  thread.bulkGroups.push_back(std::move(thread.bulkGroup));
  thread.bulkGroup.reset();
}

void bulkWaitAllBut(int groups, bool onlyRead, Site site) {
  Ignored ignored;
  Thread& thread = thisThread("cp.async.bulk.wait_group");
  const size_t keep = static_cast<size_t>(groups);
  for (size_t i = 0; i + keep < thread.bulkGroups.size(); ++i) {
    const auto group = thread.bulkGroups[i];
    while ((onlyRead ? group->unread : group->unwritten) > 0)
      thread.worker->poll("cp.async.bulk.wait_group", site);
    acquire(&group->readTag);  // what is written has been read
    if (!onlyRead) acquire(&group->writtenTag);
    group->waitedFor = true;
  }
  while (!onlyRead && thread.bulkGroups.size() > keep) thread.bulkGroups.pop_front();
}

}  // namespace tutti::cuda::ptx
