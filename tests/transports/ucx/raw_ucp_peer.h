#pragma once

// A UCP worker that is no transport of ours: it connects to an address and sends whatever it is
// told, well-formed or not.

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "src/base/bytes.h"
#include "transports/ucx/endpoint.h"

namespace tutti::tests {

class RawUcpPeer {
 public:
  RawUcpPeer(const transports::ucx::WorkerOptions& options, const base::Bytes& workerAddress);
  ~RawUcpPeer();
  RawUcpPeer(const RawUcpPeer&) = delete;
  RawUcpPeer& operator=(const RawUcpPeer&) = delete;

  /// `flags` as ucp_am_send_nbx has them. Header and data are copied.
  void send(unsigned id, base::Bytes header, base::Bytes data, unsigned flags = 0);
  void progress();
  /// Everything that was sent is on its way.
  bool idle() const { return underWay_.empty(); }

 private:
  struct Message {
    base::Bytes header, data;
    void* request = nullptr;
  };
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  std::vector<std::unique_ptr<Message>> underWay_;
};

}  // namespace tutti::tests
