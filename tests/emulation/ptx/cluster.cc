// Clusters; see include/tutti/cuda/ptx/cluster.cuh. Their barrier is in barrier.cc.

#include <cstring>

#include "tests/emulation/shared_memory.h"
#include "tests/emulation/worker.h"

namespace tutti::emulation {
namespace {

template <class Value>
Value load(uint32_t address, Site site) {
  Thread& thread = thisThread("ld.shared::cluster");
  const char* const from = sharedBytes(address, sizeof(Value), sizeof(Value), *thread.block, site);
  touchRead(from, sizeof(Value), "ld.shared::cluster");
  Ignored ignored;
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Value>
void store(uint32_t address, Value value, Site site) {
  Thread& thread = thisThread("st.shared::cluster");
  char* const to = sharedBytes(address, sizeof(Value), sizeof(Value), *thread.block, site);
  touchWrite(to, sizeof(Value), "st.shared::cluster");
  Ignored ignored;
  std::memcpy(to, &value, sizeof value);
}

}  // namespace
}  // namespace tutti::emulation

namespace tutti::cuda::ptx {

using namespace emulation;

uint32_t clusterRank(Site) { return thisThread("%cluster_ctarank").block->rankInCluster; }
uint32_t clusterSize(Site) {
  return static_cast<uint32_t>(thisThread("%cluster_nctarank").block->cluster->blocks.size());
}

uint32_t mapa(uint32_t address, uint32_t rank, Site site) {
  if (rank >= clusterSize(site))
    failAt(site, "mapa to rank " + std::to_string(rank) + " of a cluster of " +
                     std::to_string(clusterSize(site)));
  return offsetOf(address) | (rank + 1) << 24;
}

uint32_t ldCluster32(uint32_t address, Site site) { return load<uint32_t>(address, site); }
uint64_t ldCluster64(uint32_t address, Site site) { return load<uint64_t>(address, site); }
uint4 ldCluster128(uint32_t address, Site site) { return load<uint4>(address, site); }
void stCluster32(uint32_t address, uint32_t value, Site site) { store(address, value, site); }
void stCluster64(uint32_t address, uint64_t value, Site site) { store(address, value, site); }
void stCluster128(uint32_t address, uint4 value, Site site) { store(address, value, site); }

}  // namespace tutti::cuda::ptx
