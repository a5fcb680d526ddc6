#pragma once

// The parts of which builders make schedules. Private to this folder.

#include "parallel/pipeline/builders.h"

namespace tutti::parallel {

/// By rank, computations alone; slots are not set.
using Orders = std::vector<std::vector<Action>>;

/// The order of ZB-V that is fastest with these costs, of the paper's and those that a walk in time
/// finds. `schedule` says all but byRank.
Orders vShapedOrders(const Schedule& schedule, const ScheduleOptions& options);

/// Sets byRank to these computations with the transfers that they need between them, and gives
/// everything its slot.
///
/// A receive stands as late as it can, right before what needs it, where that cannot block; where
/// it would, because ranks wait for each other in a ring when nothing is buffered, the receive of
/// a message that is waited for moves up to what its rank does at the time.
void setActions(Schedule& schedule, const Orders& orders);

}  // namespace tutti::parallel
