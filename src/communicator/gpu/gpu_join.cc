#include "src/communicator/gpu/gpu_join.h"

#include "src/base/check.h"

namespace tutti::communicator {
namespace {

constexpr size_t kMostFaultBytes = 1024;

void put(base::ByteWriter& out, const std::map<int, std::string>& byPeer) {
  out.put(static_cast<uint32_t>(byPeer.size()));
  for (const auto& [peer, why] : byPeer)
    out.put(static_cast<int32_t>(peer)).put(why.substr(0, kMostFaultBytes));
}

/// What there is of a peer first.
std::map<int, std::string> get(base::ByteReader& in, int size, const char* what) {
  std::map<int, std::string> byPeer;
  const auto count = in.get<uint32_t>("number of faults");
  for (uint32_t i = 0; i < count; ++i) {
    const auto peer = in.get<int32_t>("peer of a fault");
    if (peer < 0 || peer >= size)
      base::fail(ErrorCode::Refused, what, " with rank ", peer, " of ", size);
    byPeer.try_emplace(peer, in.getString("fault", kMostFaultBytes));
  }
  return byPeer;
}

}  // namespace

base::Bytes GpuState::write() const {
  base::ByteWriter out;
  out.put(blocks).put(byCopies).put(address);
  put(out, apart);
  put(out, faults);
  return out.take();
}

GpuState GpuState::read(const base::Bytes& bytes, int size) {
  base::ByteReader in(bytes);
  GpuState state;
  state.blocks = in.get<uint32_t>("blocks");
  state.byCopies = in.getFlag("by copies");
  state.address = in.getBytes("address for copies");
  state.apart = get(in, size, "a pair apart");
  state.faults = get(in, size, "a fault");
  in.requireEnd();
  return state;
}

}  // namespace tutti::communicator
