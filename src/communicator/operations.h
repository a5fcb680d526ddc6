#pragma once

// Making and starting operations: check the arguments, choose a plan, and then number the operation
// and drive it here or hand it to a stream, or leave that to the group that is open. What can be
// refused is refused before the operation has its number. The thread that issues a communicator's
// operations calls these; the state is the owners' and the thread's group's.

#include <memory>

#include <tutti/device.h>

#include "src/communicator/arguments.h"
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

// The group of this thread (group.cc).
bool groupIsOpen();
void addToGroup(OperationWork work, StreamRef stream, bool onGpu);
void addToGroup(OneSidedWork work, StreamRef stream);

}  // namespace tutti::communicator
