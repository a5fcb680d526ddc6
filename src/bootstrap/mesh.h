#pragma once

// The mesh: a socket between every two ranks. Each rank listens, connects to all ranks below its
// own, and is connected to by all above; every connection passes the handshake.

#include <map>

#include "src/bootstrap/doorway.h"
#include "src/bootstrap/meeting_client.h"

namespace tutti::bootstrap {

class Mesh {
 public:
  /// Starts to listen, at an address of its own.
  Mesh(const Credentials& credentials, int rank, int size);
  const Address& listening() const { return address_; }

  /// Connects as the meeting point's table says. The sockets by rank; the own one is empty. Throws
  /// what the meeting point reports meanwhile, Timeout, Refused, or System.
  std::vector<base::FileDescriptor> connect(MeetingClient& meeting);

 private:
  void startOutgoing(const Table& table);
  void advance(const PollSet& set, const Table& table);
  void accept(SetupConnection connection, const Table& table);
  void keep(int rank, SetupConnection connection, const Table& table);
  void noteProcess(int rank, int socket, const Table& table) const;
  std::string missing(const Table& table) const;

  Credentials credentials_;
  int rank_, size_;
  Address address_;
  Doorway door_;
  int next_ = 0;  // the lowest rank that has not been connected to
  std::map<int, SetupConnection> outgoing_;
  std::vector<base::FileDescriptor> sockets_;
  int connected_ = 0;
};

}  // namespace tutti::bootstrap
