#pragma once

// The settings of UCX's that choose what it goes by: UCX_TLS and UCX_NET_DEVICES.

#include <optional>
#include <string>
#include <vector>

namespace tutti::transports::ucx {

/// For the end of messages about a peer that is not reached.
inline constexpr const char* kAdvice = "; UCX_NET_DEVICES names others";

/// The value of one; nothing where it is not set, and UCX chooses. One that is set and empty allows
/// nothing.
using Setting = std::optional<std::string>;

/// What the environment says.
Setting usersSetting(const char* variable);
/// What counts: `own`, which the library has chosen, else what the environment says.
Setting effective(const std::string& own, const char* variable);

/// Whether UCX_TCP_PORT_RANGE, "40000-40100", says at which ports UCX listens: those that people
/// open in a firewall, and as many as UCX needs.
bool hasPortRange();

/// What is between the commas of a setting; as UCX does, without what is empty.
std::vector<std::string> itemsOf(const std::string& list);
/// Whether UCX_TLS=`tls` lets UCX use RDMA.
bool allowsRdma(const Setting& tls);
/// Whether it lets UCX use TCP.
bool allowsTcp(const Setting& tls);
/// Whether UCX_NET_DEVICES=`devices` lets UCX use a port of `device`, "mlx5_0".
bool allowsDevice(const Setting& devices, const std::string& device);

}  // namespace tutti::transports::ucx
