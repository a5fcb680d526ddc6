#pragma once

// Runs a test's body on every rank of a mesh, each in a thread of this process.

#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

#include "parallel/kernels/host/blas.h"
#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

/// Whether a rank failed because another one did.
inline bool isConsequence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == ErrorCode::PeerLost;
  } catch (...) {
    return false;
  }
}

/// One call of `rank(mesh)` on each of the mesh's ranks; what they return, if they do, in rank
/// order. Throws what the first of them threw, if it can be something else than that it lost one.
/// Their tensors are on `devices`, or on the host.
template <class Rank>
auto onRanks(const MeshShape& shape, bool deterministic, const Rank& rank,
             const std::vector<Device>& devices = {}) {
  host::setBlasThreads(1);
  using Result = std::invoke_result_t<Rank, DeviceMesh&>;
  constexpr bool kReturns = !std::is_void_v<Result>;
  static_assert(!std::is_same_v<Result, bool>, "in a vector of bool ranks would share words");
  const auto ranks = static_cast<size_t>(shape.ranks());
  std::vector<std::conditional_t<kReturns, Result, char>> results(ranks);
  auto communicators = Communicator::createLocal(
      shape.ranks(), {.deterministic = deterministic, .devices = devices});
  std::vector<std::exception_ptr> failures(ranks);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        DeviceMesh mesh(std::move(communicators[r]), shape);
        if constexpr (kReturns)
          results[r] = rank(mesh);
        else
          rank(mesh);
      } catch (...) {
        failures[r] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const bool consequences : {false, true})
    for (const auto& failure : failures)
      if (failure && isConsequence(failure) == consequences) std::rethrow_exception(failure);
  if constexpr (kReturns) return results;
}
template <class Rank>
auto onRanks(int ranks, bool deterministic, const Rank& rank) {
  return onRanks(MeshShape::along(Axis::Data, ranks), deterministic, rank);
}

}  // namespace tutti::parallel
