#pragma once

// The settings of UCX's that a worker is made with.

#include <ucp/api/ucp.h>

#include <memory>

#include "transports/ucx/endpoint.h"
#include "transports/ucx/library.h"

namespace tutti::transports::ucx {

struct ReleaseConfig {
  void operator()(ucp_config_t* config) const { library().configRelease(config); }
};
using UcxConfig = std::unique_ptr<ucp_config_t, ReleaseConfig>;

/// What the environment says, then the options, then what the transport needs. Throws System naming
/// an option that UCX does not accept.
UcxConfig readConfig(const WorkerOptions& options);

}  // namespace tutti::transports::ucx
