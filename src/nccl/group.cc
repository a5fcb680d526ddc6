#include "src/nccl/group.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/device/cuda.h"

namespace tutti::nccl {
namespace {

void requireOneKind(bool othersAbsent) {
  if (!othersAbsent)
    base::fail(ErrorCode::InvalidUsage,
               "a group has either communicators to make or calls on communicators, not both");
}

}  // namespace

NcclGroup& NcclGroup::ofThread() {
  thread_local NcclGroup instance;
  return instance;
}

void NcclGroup::add(Call call) {
  requireOneKind(collected_.makings.empty());
  collected_.calls.push_back(std::move(call));
}

void NcclGroup::add(Making making) {
  try {
    requireOneKind(collected_.calls.empty());
  } catch (...) {
    takeBack(making);
    throw;
  }
  collected_.makings.push_back(std::move(making));
}

void NcclGroup::spoil(ncclResult_t result) {
  if (open() && collected_.failure == ncclSuccess) collected_.failure = result;
}

std::optional<NcclGroup::Collected> NcclGroup::close() {
  if (!open()) base::fail(ErrorCode::InvalidUsage, "no group is open on this thread");
  if (--depth_ > 0) return std::nullopt;
  return std::exchange(collected_, {});
}

ncclResult_t NcclGroup::end() {
  auto collected = close();
  if (!collected) return ncclSuccess;
  if (collected->failure != ncclSuccess) {
    for (const Making& making : collected->makings) takeBack(making);
    return collected->failure;
  }
  if (!collected->makings.empty()) return run(std::move(collected->makings));
  return make(std::move(collected->calls));
}

// A call is started under the eyes of abort() and revoke(); those of communicators with blocking =
// 0 only until they are on their stream.
ncclResult_t NcclGroup::make(std::vector<Call> calls) {
  std::vector<Comm*> seen;
  std::vector<Comm::Use> uses;
  for (const Call& call : calls)
    if (std::ranges::find(seen, call.comm.get()) == seen.end()) {
      seen.push_back(call.comm.get());
      uses.emplace_back(call.comm);
    }
  const auto useOf = [&](const Call& call) -> const Comm::Use& {
    return uses[static_cast<size_t>(std::ranges::find(seen, call.comm.get()) - seen.begin())];
  };
  return Comm::make(uses, [&] {
    tutti::Group group;
    for (Call& call : calls) {
      if (call.launched) device::recordCudaEvent(call.launched, call.stream);
      call.call.start(call.stream ? call.stream : useOf(call).stream());
    }
    group.end();
  });
}

ncclResult_t NcclGroup::simulateEnd(std::optional<double>& microseconds) {
  auto collected = close();
  if (!collected) return ncclSuccess;
  for (const Making& making : collected->makings) takeBack(making);
  if (!collected->makings.empty())
    base::fail(ErrorCode::InvalidUsage, "making communicators cannot be simulated");
  if (collected->failure != ncclSuccess) return collected->failure;
  tutti::Group group;
  for (Call& call : collected->calls) call.call.start(call.stream);
  microseconds = group.predict().count();
  return ncclSuccess;
}

ncclResult_t makeOrCollect(Making making) {
  NcclGroup& group = NcclGroup::ofThread();
  if (group.open()) {
    group.add(std::move(making));
    return ncclSuccess;
  }
  std::vector<Making> one;
  one.push_back(std::move(making));
  return run(std::move(one));
}

}  // namespace tutti::nccl
