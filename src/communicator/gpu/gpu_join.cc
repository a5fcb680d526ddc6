#include "src/communicator/gpu/gpu_join.h"

#include "src/base/check.h"

namespace tutti::communicator {
namespace {

constexpr size_t kMostFaultBytes = 1024;

}  // namespace

base::Bytes GpuState::write() const {
  base::ByteWriter out;
  out.put(blocks).put(byCopies).put(address).put(static_cast<uint32_t>(faults.size()));
  for (const auto& [peer, fault] : faults)
    out.put(static_cast<int32_t>(peer)).put(fault.substr(0, kMostFaultBytes));
  return out.take();
}

GpuState GpuState::read(const base::Bytes& bytes, int size) {
  base::ByteReader in(bytes);
  GpuState state;
  state.blocks = in.get<uint32_t>("blocks");
  state.byCopies = in.getFlag("by copies");
  state.address = in.getBytes("address for copies");
  const auto count = in.get<uint32_t>("number of faults");
  for (uint32_t i = 0; i < count; ++i) {
    const auto peer = in.get<int32_t>("peer of a fault");
    if (peer < 0 || peer >= size)
      base::fail(ErrorCode::Refused, "a fault with rank ", peer, " of ", size);
    state.add(peer, in.getString("fault", kMostFaultBytes));
  }
  in.requireEnd();
  return state;
}

}  // namespace tutti::communicator
