#include "parallel/mesh/mesh_communicator.h"

#include <algorithm>
#include <numeric>

#include "parallel/tensor/arena.h"

namespace tutti::parallel {

namespace {
size_t sum(std::span<const size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}
}  // namespace

CollectiveCounters CollectiveCounters::since(const CollectiveCounters& before) const {
  return {allReduce.since(before.allReduce), reduceScatter.since(before.reduceScatter),
          allGather.since(before.allGather), allToAll.since(before.allToAll)};
}

MeshCommunicator::MeshCommunicator(Communicator ranks)
    : ranks_(std::move(ranks)), rank_(ranks_->rank()), size_(ranks_->size()) {}

size_t MeshCommunicator::bytesOfAll(size_t count, DataType type) const {
  return count * static_cast<size_t>(size_) * sizeOf(type);
}

void MeshCommunicator::allReduce(const AllReduceArgs& args, StreamRef stream) {
  counters_.allReduce.add(args.count * sizeOf(args.type));
  if (ranks_) ranks_->allReduce(args, stream);
}

void MeshCommunicator::reduceScatter(const ReduceScatterArgs& args, StreamRef stream) {
  counters_.reduceScatter.add(bytesOfAll(args.count, args.type));
  if (ranks_) ranks_->reduceScatter(args, stream);
}

void MeshCommunicator::reduceScatterV(const ReduceScatterVArgs& args, StreamRef stream) {
  counters_.reduceScatter.add(sum(args.counts) * sizeOf(args.type));
  if (ranks_) ranks_->reduceScatterV(args, stream);
}

void MeshCommunicator::allGather(const AllGatherArgs& args, StreamRef stream) {
  counters_.allGather.add(bytesOfAll(args.count, args.type));
  if (ranks_) ranks_->allGather(args, stream);
}

void MeshCommunicator::allGatherV(const AllGatherVArgs& args, StreamRef stream) {
  counters_.allGather.add(sum(args.counts) * sizeOf(args.type));
  if (ranks_) ranks_->allGatherV(args, stream);
}

void MeshCommunicator::allToAll(const AllToAllArgs& args, StreamRef stream) {
  counters_.allToAll.add(bytesOfAll(args.count, args.type));
  if (ranks_) ranks_->allToAll(args, stream);
}

void MeshCommunicator::allToAllV(const AllToAllVArgs& args, StreamRef stream) {
  counters_.allToAll.add(std::max(sum(args.sendCounts), sum(args.recvCounts)) * sizeOf(args.type));
  if (ranks_) ranks_->allToAllV(args, stream);
}

void MeshCommunicator::barrier() {
  if (ranks_) ranks_->barrier();
}

Memory MeshCommunicator::allocate(size_t bytes) {
  return ranks_ ? ranks_->allocate(bytes) : dryMemory(bytes);
}

MeshCommunicator MeshCommunicator::subset(std::span<const int> ranks) {
  return MeshCommunicator(ranks_->subset(ranks));
}

Memory dryMemory(size_t bytes) { return Memory(dryAddress(), bytes, nullptr); }

}  // namespace tutti::parallel
