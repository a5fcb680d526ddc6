#include "src/communicator/operations.h"

#include <utility>
#include <vector>

#include "src/communicator/gpu/gpu_backend.h"
#include "src/communicator/gpu/gpu_work.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/links.h"
#include "src/communicator/membership.h"
#include "src/communicator/settings.h"
#include "src/device/host_stream.h"

namespace tutti::communicator {

OperationWork makeCollective(std::shared_ptr<const Owners> owners, executor::CollectiveCall call) {
  if (call.reduction) {
    call.facts.op = ReduceOp::Sum;  // as far as plans are concerned
    call.facts.reduction = executor::nameWords(call.reduction.name());
  }
  const Membership& who = owners->who;
  const CallPlacement placement =
      placementOf(call, {who.rank(), who.size()}, owners->settings.device);
  ReadyChoice& choice = owners->host.choose(call);
  return OperationWork(std::move(owners), std::move(call), choice, placement);
}

OperationWork makeExchange(std::shared_ptr<const Owners> owners, executor::Exchange transfers) {
  const Device device = owners->settings.device;
  std::vector<CallBuffer> buffers;
  if (device.kind != DeviceKind::Host) {
    for (const executor::Transfer& t : transfers.sends)
      buffers.push_back({"send", t.data, t.bytes});
    for (const executor::Transfer& t : transfers.receives)
      buffers.push_back({"recv", t.data, t.bytes});
  }
  const CallPlacement placement = placementOf("exchange", buffers, device);
  return OperationWork(std::move(owners), std::move(transfers), placement);
}

void start(OperationWork work, StreamRef stream) {
  const bool onGpu = runsOnGpu(work.placement(), work.owners().settings.device, stream);
  if (onGpu && !groupIsOpen()) {
    work.requireComplete();
    launch({work.onGpu(stream)});
    if (!stream) work.owners().gpu.await();
    return;
  }
  if (onGpu) work.onGpu(stream);  // refused now, not when the group ends
  if (groupIsOpen()) return addToGroup(std::move(work), stream, onGpu);
  work.requireComplete();
  if (stream) {
    auto queued = std::make_unique<OperationWork>(std::move(work));
    queued->takeNumber();
    stream.host()->enqueue(std::move(queued));
  } else {
    work.takeNumber();
    drive(work, !work.sharesCores());
  }
}

void finish(std::shared_ptr<const Owners> owners, const ShortRest& rest) {
  const KnownCall& known = *rest.run.known;
  const Recorder::Entry entry = owners->host.lastIssued(known);
  executor::CollectiveCall call{.facts = known.facts(), .in = rest.call.in, .out = rest.call.out};
  OperationWork work(std::move(owners), std::move(call), known.choice(), {});
  work.resume(entry, known);
  drive(work, !work.sharesCores());
}

void finish(std::shared_ptr<const Owners> owners, HostBackend::ExchangeRest rest) {
  OperationWork work(std::move(owners), std::move(rest.exchange), {});
  work.resume(rest.entry);
  drive(work, !work.sharesCores());
}

}  // namespace tutti::communicator
