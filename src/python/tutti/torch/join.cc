#include "join.h"

namespace tutti_torch {

tutti::Communicator join(const tutti::UniqueId& id, const JoinPlace& place, const Limits& limits,
                         std::stop_token stop) {
  tutti::CommunicatorOptions options;
  options.id = id;
  options.rank = place.rank;
  options.size = place.size;
  options.device = place.device;
  options.setupTimeout = limits.setup;
  options.timeout = limits.operation;
  options.straggler = limits.straggler;
  options.stop = std::move(stop);
  return tutti::Communicator::create(options);
}

}  // namespace tutti_torch
