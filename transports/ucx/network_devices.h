#pragma once

// The network devices that UCX has, and what errors say of them.

#include <ucp/api/ucp.h>

#include <optional>
#include <string>
#include <vector>

#include "transports/ucx/endpoint.h"
#include "transports/ucx/source_filter.h"

namespace tutti::transports::ucx {

/// The network devices of a context, as UCX_NET_DEVICES has them. Nothing where UCX does not tell.
std::optional<std::vector<std::string>> networkDevices(ucp_context_h context);
/// From which a process of this host may connect to others, when it goes by `devices`: all of
/// interfaces that are up, without those of loopback, unless one of the devices is that. Nothing
/// for `devices`: any may be.
std::vector<SourceAddress> sourcesFor(const std::optional<std::vector<std::string>>& devices);
/// All addresses of IPv4, as the network orders their bytes, of interfaces that are up.
std::vector<uint32_t> ownAddresses();
/// Of each of `devices` its first, by which UCX goes; none where one has none, as one of RDMA.
std::vector<uint32_t> addressesOf(const std::vector<std::string>& devices);
/// "172.17.0.1"
std::string describeAddress(uint32_t address);
/// For messages: the devices of a worker with these options, and which variables have chosen them,
/// "lo (UCX_NET_DEVICES=lo)".
std::string describeDevices(const WorkerOptions& options,
                            const std::optional<std::vector<std::string>>& devices);
/// Throws System: that UCX finds no device `wanted`, " that leads to other hosts" or "", for these
/// settings, and which network devices it has without any.
[[noreturn]] void failWithoutDevice(const WorkerOptions& options, const char* wanted);

}  // namespace tutti::transports::ucx
