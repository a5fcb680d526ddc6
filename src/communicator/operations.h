#pragma once

// Making and starting operations: check the arguments, choose a plan, and then number the operation
// and drive it here or hand it to a stream, or leave that to the group that is open. What can be
// refused is refused before the operation has its number. The thread that issues a communicator's
// operations calls these; the state is the owners' and the thread's group's.

#include <memory>
#include <span>

#include <tutti/device.h>

#include "src/communicator/arguments.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/host/short_calls.h"
#include "src/communicator/one_sided/one_sided_work.h"
#include "src/communicator/operation_work.h"
#include "src/communicator/owners.h"

namespace tutti::communicator {

// Each throws InvalidArgument when the call cannot be right.
OperationWork makeCollective(std::shared_ptr<const Owners> owners, executor::CollectiveCall call);
/// Given its sends and receives.
OperationWork makeExchange(std::shared_ptr<const Owners> owners, executor::Exchange transfers);

/// Numbers it and drives it here or hands it to a stream, or leaves that to the group that is open.
void start(OperationWork work, StreamRef stream);

/// What a short call has not done.
struct ShortRest {
  const ShortCall& call;
  const HostBackend::ShortRun& run;
};
/// Drives it here. `owners` keeps the communicator.
void finish(std::shared_ptr<const Owners> owners, const ShortRest& rest);
/// Likewise of sends and receives.
void finish(std::shared_ptr<const Owners> owners, HostBackend::ExchangeRest rest);
/// Runs a few small sends and receives on the host to their end; false where they are not short,
/// and nothing has happened. `share` gives the owners, if they are needed.
template <class Share>
bool ranShort(HostBackend& host, std::span<const executor::Transfer> sends,
              std::span<const executor::Transfer> receives, const Share& share) {
  std::optional<HostBackend::ExchangeRest> rest;
  if (host.runShort(sends, receives, rest)) return true;
  if (!rest) return false;
  finish(share(), std::move(*rest));
  return true;
}

// The group of this thread (group.cc).
bool groupIsOpen();
void addToGroup(OperationWork work, StreamRef stream, bool onGpu);
void addToGroup(OneSidedWork work, StreamRef stream);
/// On the host, without a stream. False: it has to be an operation.
bool addToGroup(Communicator::Impl& c, const executor::Transfer& transfer, bool isSend);

}  // namespace tutti::communicator
