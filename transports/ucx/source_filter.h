#pragma once

// A packet filter of classic BPF (socket(7), SO_ATTACH_FILTER) for a listening socket of TCP: by
// the addresses that its segments come from.

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <vector>

namespace tutti::transports::ucx {

/// An address of IPv6 as the network orders its bytes, or one of IPv4 as "::ffff:10.0.0.1".
using SourceAddress = std::array<std::byte, 16>;

SourceAddress sourceAddress(const in_addr& address);
SourceAddress sourceAddress(const in6_addr& address);
/// Nothing for other families.
std::optional<SourceAddress> sourceAddress(const sockaddr& address);

/// That a host has, of those that it tells others.
inline constexpr size_t kMostSources = 1024;

/// The kernel limits a filter, by net.core.optmem_max: as many ranges of IPv4 and prefixes of IPv6
/// are told apart.
inline constexpr size_t kMostRanges = 192, kMostPrefixes = 48;

/// Passes what comes from `admitted`, and drops the rest. Beyond the limits the closest addresses
/// of IPv4 become one range, and those of IPv6 prefixes, of 96 bits or less.
std::vector<sock_filter> sourceFilter(const std::set<SourceAddress>& admitted);

}  // namespace tutti::transports::ucx
