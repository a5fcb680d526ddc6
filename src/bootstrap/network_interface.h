#pragma once

// The interface by which other hosts reach this one.

#include <optional>
#include <string>

#include "src/bootstrap/address.h"

namespace tutti::bootstrap {

struct NetworkInterface {
  std::string name;  ///< "eth0"
  Address address;   ///< port 0: the kernel chooses
};

/// What TUTTI_INTERFACE names; else the one with `used`, an address that is in use already; else
/// the one of the default route; else the first that is up and is not the loopback. Nothing when
/// there is none. Throws InvalidArgument when TUTTI_INTERFACE names none that is up.
std::optional<NetworkInterface> networkInterface(const std::optional<Address>& used = {});

}  // namespace tutti::bootstrap
