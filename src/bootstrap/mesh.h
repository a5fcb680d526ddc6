#pragma once

// The mesh: a socket between every two ranks, of Unix on one host and TCP between hosts. Each rank
// listens, connects to all ranks below its own, and is connected to by all above; every connection
// passes the handshake.

#include <map>

#include "src/bootstrap/network_interface.h"
#include "src/bootstrap/rendezvous_client.h"
#include "src/bootstrap/socket_control_plane.h"
#include "src/wire/handshake_listener.h"

namespace tutti::bootstrap {

class Mesh {
 public:
  /// Starts to listen, at an address of its own, and on the interface for other hosts if there is
  /// one.
  Mesh(const wire::Credentials& credentials, int rank, int size,
       const std::optional<LocalInterface>& network);
  Arrival arrival() const { return arrival_; }
  /// The rendezvous's table with addresses as this host reaches them: see wire::seenFrom().
  Table seenFromHere(Table table) const;

  /// Connects as the rendezvous's table says. The sockets by rank; the own one is empty. Throws
  /// what the rendezvous reports meanwhile, Timeout, Refused, or System.
  std::vector<PeerSocket> connect(RendezvousClient& rendezvous);

 private:
  void hear(RendezvousClient& rendezvous, const wire::PollSet& set, const Table& table) const;
  void startOutgoing(const Table& table);
  void advance(const wire::PollSet& set, const Table& table);
  void accept(wire::HandshakeConnection connection, const Table& table);
  void keep(int rank, wire::HandshakeConnection connection, const Table& table);
  void noteProcess(int rank, int socket, const Table& table) const;
  void requireWays(const Table& table) const;
  void requireFamily(int rank, const Table& table, const std::vector<InterfaceEntry>& own) const;
  [[noreturn]] void failToConnect(int rank, int error, const Table& table) const;
  [[noreturn]] void failToConnectHere(int rank, const Table& table) const;
  [[noreturn]] void cannotReach(int rank, const Table& table, ErrorCode code,
                                const std::string& why) const;
  bool onThisHost(const Arrival& peer) const { return peer.info.bootId == arrival_.info.bootId; }
  std::string describe(int rank, const Table& table) const;
  std::vector<base::FileDescriptor> listen(const std::optional<LocalInterface>& network);
  std::string missing(const Table& table) const;

  wire::Credentials credentials_;
  int rank_, size_;
  Arrival arrival_;  // this rank's own
  wire::HandshakeListener listener_;
  int next_ = 0;  // the lowest rank that has not been connected to
  std::map<int, wire::HandshakeConnection> outgoing_;
  std::vector<PeerSocket> sockets_;
  int connected_ = 0;
};

}  // namespace tutti::bootstrap
