#include "parallel/planner/rates.h"

#include <algorithm>

namespace tutti::parallel {

double KernelRate::seconds(const KernelCount& count) const {
  const auto bytes = static_cast<double>(count.bytesRead + count.bytesWritten);
  const double products = flopsPerSecond > 0 ? count.gemmFlops / flopsPerSecond : 0;
  const double moved = bytesPerSecond > 0 ? bytes / bytesPerSecond : 0;
  return std::max(products, moved) + callSeconds * static_cast<double>(count.calls);
}

const KernelRate& DeviceRates::of(const std::string& kernel) const {
  const auto found = byKernel.find(kernel);
  return found == byKernel.end() ? any : found->second;
}

const char* toString(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce: return "AllReduce";
    case CollectiveKind::ReduceScatter: return "ReduceScatter";
    case CollectiveKind::AllGather: return "AllGather";
    case CollectiveKind::AllToAll: return "AllToAll";
    case CollectiveKind::Message: return "message";
  }
  return "?";
}

const CollectiveCount& countOf(const CollectiveCounters& counters, CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce: return counters.allReduce;
    case CollectiveKind::ReduceScatter: return counters.reduceScatter;
    case CollectiveKind::AllGather: return counters.allGather;
    case CollectiveKind::AllToAll: return counters.allToAll;
    case CollectiveKind::Message: break;
  }
  return counters.sent;
}

double NetworkModel::seconds(const MeshShape& mesh, AxisSet axes,
                             const CollectiveCounters& counted) {
  double total = 0;
  for (const CollectiveKind kind : kCollectiveKinds) {
    const CollectiveCount& count = countOf(counted, kind);
    if (count.calls == 0) continue;
    total +=
        count.calls * seconds(mesh, axes, kind, static_cast<double>(count.bytes) / count.calls);
  }
  return total;
}

}  // namespace tutti::parallel
