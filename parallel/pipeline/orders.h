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
/// A message is sent right behind what makes it. Its receive stands where its rank is at that time,
/// in a walk with these costs: it is posted before the message is there, and holds nothing up that
/// its rank would send earlier. What is made when the next computation has begun is a group of its
/// own, for which it does not wait. The walk is an order in which all meet, so nothing needs
/// a buffer, whatever computations really take.
void setActions(Schedule& schedule, const Orders& orders, const Costs& costs);

}  // namespace tutti::parallel
