#pragma once

// What a job runs on, as far as a prediction needs it: how fast one rank computes, and what takes a
// collective. Who knows the machine gives both: rates of a data sheet with a network that is only
// described, or what was measured.

#include <map>
#include <string>

#include "parallel/kernels/dry/dry_kernels.h"
#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

/// A kernel takes as long as its products or its bytes take, whichever is longer, and what each
/// call takes in any case.
struct KernelRate {
  double flopsPerSecond = 0;  ///< of KernelCount::gemmFlops; 0: they cost nothing
  double bytesPerSecond = 0;  ///< read and written; 0: they cost nothing
  double callSeconds = 0;

  double seconds(const KernelCount& count) const;
};

struct DeviceRates {
  KernelRate any = {};
  std::map<std::string, KernelRate> byKernel = {};  ///< those that have others, by their names
  /// Or GPUs, that the ranks of a host share, each of which has all of one while it computes; 0:
  /// every rank has a device of its own.
  int cores = 0;
  /// Whether collectives that are started beside computation really go on beside it.
  bool overlaps = true;

  const KernelRate& of(const std::string& kernel) const;
  double seconds(const std::string& kernel, const KernelCount& count) const {
    return of(kernel).seconds(count);
  }
};

enum class CollectiveKind : uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll, Message };
const char* toString(CollectiveKind kind);  ///< "AllReduce", ..., "message"
const CollectiveCount& countOf(const CollectiveCounters& counters, CollectiveKind kind);
inline constexpr CollectiveKind kCollectiveKinds[] = {
    CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather,
    CollectiveKind::AllToAll, CollectiveKind::Message};

class NetworkModel {
 public:
  virtual ~NetworkModel() = default;
  /// One call among the ranks of `mesh` along `axes`, while all others make the same; a message
  /// goes to the next of them. `bytes` is the larger side on a rank, as counters count it.
  virtual double seconds(const MeshShape& mesh, AxisSet axes, CollectiveKind kind,
                         double bytes) = 0;

  /// All that were counted: each as long as one of their mean size, which is the same where a
  /// call's time is a constant and a rate.
  double seconds(const MeshShape& mesh, AxisSet axes, const CollectiveCounters& counted);
};

}  // namespace tutti::parallel
