#pragma once

// Rings between ranks whose hosts a network joins: over whatever UCX finds, InfiniBand and RoCE as
// well as TCP. Each published message is one UCP active message from the sender's slot to the
// receiver's. One worker serves all endpoints of a process.

#include <memory>
#include <string>

#include "transports/connection.h"

namespace tutti::transports::ucx {

class Worker;

struct WorkerOptions {
  std::string devices;  ///< as UCX_NET_DEVICES has them, "mlx5_0:1,eth0"; empty: UCX chooses
  std::string tls;      ///< as UCX_TLS has them, "tcp,self"; empty: UCX chooses
  /// As UCX_RNDV_THRESH has it: bytes from which the receiver fetches a message. Empty: UCX chooses
  /// where there is RDMA; over TCP nobody fetches, which costs a round trip more and a third of the
  /// bandwidth of a link of 1 Gbit/s.
  std::string rendezvous = {};
  /// Refuse, where UCX finds no device that leads to other hosts, and be there to be probed.
  bool betweenHosts = false;
  /// For messages, which setting has chosen `devices`: "TUTTI_INTERFACE=eth1". Empty: none.
  std::string chosenBy = {};
};

/// One UCP worker, which may be used by several threads. It keeps one connection for each worker
/// that its endpoints exchange messages with, made when the first ring between the two is used.
/// Throws Unsupported when libucp cannot be loaded, System naming what UCX reports.
std::shared_ptr<Worker> makeWorker(const WorkerOptions& options = {});

/// UCX was built with CUDA and has found it: it sends from GPUs' memory, and to it. Where it has no
/// other way it goes through the host's by itself.
bool reachesGpus(const Worker& worker);

/// One rank's end. Its progress() moves what all endpoints of the worker have sent, and throws
/// PeerLost, once for each peer, when the connection with a peer whose rings are used was lost, and
/// Refused when a peer sent what cannot be. Throws InvalidArgument for an impossible layout.
std::unique_ptr<Endpoint> makeUcxEndpoint(std::shared_ptr<Worker> worker, int rank, int size,
                                          const RingLayout& layout);

}  // namespace tutti::transports::ucx
