#pragma once

// The interface by which other hosts reach this one.

#include <optional>
#include <string>
#include <vector>

#include "src/wire/address.h"

namespace tutti::bootstrap {

struct LocalInterface {
  std::string name;       ///< "eth0"
  wire::Address address;  ///< port 0: the kernel chooses
};

/// What TUTTI_INTERFACE names; else, of those that NCCL_SOCKET_IFNAME allows, the one with `used`,
/// an address that is in use already, or the one of the default route, or the first that is up and
/// is not the loopback. A link-local address of IPv6 is taken where nothing else is named, or where
/// it is in use. Nothing when there is none. Throws InvalidArgument when either variable
/// names none that is up.
std::optional<LocalInterface> networkInterface(const std::optional<wire::Address>& used = {});
/// Which of the two variables has a say in that: its name. Empty: neither is set.
std::string interfaceVariable();
/// For messages: "interface eth0, chosen by TUTTI_INTERFACE".
std::string describeInterface(const std::string& name, const std::string& variable);

/// An address that is up.
struct InterfaceEntry {
  LocalInterface interface;
  bool loopback = false;
};
/// Those of this host, in the kernel's order.
std::vector<InterfaceEntry> interfacesUp();
/// The name of the interface that has an address; empty: none is up that has it.
std::string interfaceWith(const wire::Address& address, const std::vector<InterfaceEntry>& up);
/// Whether an address leads from this host to itself, which makes it useless for another's.
bool leadsHere(const wire::Address& address, const std::vector<InterfaceEntry>& up);
/// Why no address of that family can be reached from this host, as a clause; empty: it has its own
/// one.
std::string lackOf(wire::Family family, const std::vector<InterfaceEntry>& up);
/// What the two variables say; each may be empty.
struct WantedInterface {
  std::string one;   ///< TUTTI_INTERFACE: a name or an address
  std::string list;  ///< NCCL_SOCKET_IFNAME; see isListed()
};
/// The same choice among `up`; `route` leads to others.
std::optional<LocalInterface> chooseInterface(std::vector<InterfaceEntry> up,
                                              const WantedInterface& wanted,
                                              const std::optional<wire::Address>& used,
                                              const std::optional<wire::Address>& route);
/// Whether a list as NCCL reads it allows an interface: "eth,ib" all whose names begin so, "=eth0"
/// those of these names, "^docker" and "^=lo" all but such.
bool isListed(const std::string& list, const std::string& name);
/// This host's address towards the rest of the world. Nothing is sent.
std::optional<wire::Address> towardsDefaultRoute();

}  // namespace tutti::bootstrap
