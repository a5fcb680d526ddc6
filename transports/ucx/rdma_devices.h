#pragma once

// RDMA devices, and which of them UCX may use by its settings.

#include <string>
#include <vector>

namespace tutti::transports::ucx {

/// Those that this process may open and whose link is up. In a container a device may be seen and
/// not be there.
std::vector<std::string> usableRdmaDevices();

/// What is between the commas of a setting; as UCX does, without what is empty.
std::vector<std::string> itemsOf(const std::string& list);
/// Whether UCX_TLS=`tls` lets UCX use RDMA; empty: any.
bool allowsRdma(const std::string& tls);
/// Whether it lets UCX use TCP.
bool allowsTcp(const std::string& tls);
/// Whether UCX_NET_DEVICES=`devices` lets UCX use a port of `device`, "mlx5_0".
bool allowsDevice(const std::string& devices, const std::string& device);

}  // namespace tutti::transports::ucx
