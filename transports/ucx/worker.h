#pragma once

// One UCP worker with its connections: the only place that calls UCX. Endpoints register doors, at
// which their peers' messages come in. All calls but the constructor's need the worker's lock; with
// it held, messages and completions come back, on the caller's thread or on the worker's own.
// Nothing here waits, but for awaitRoom() and the destructor.

#include <ucp/api/ucp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/at_exit.h"
#include "src/base/bytes.h"
#include "src/base/file_descriptor.h"
#include "src/base/process.h"
#include "src/base/service_thread.h"
#include "transports/ucx/admission.h"
#include "transports/ucx/endpoint.h"
#include "transports/ucx/message.h"
#include "transports/ucx/probe_responder.h"

namespace tutti::transports::ucx {

class Connection;

/// Something that UCX does for us. It must stay where it is until it is done.
class UcxOperation {
 public:
  /// Called once. `status` is UCS_OK, or why it failed. Must not throw.
  virtual void done(ucs_status_t status) noexcept = 0;

 protected:
  ~UcxOperation() = default;

 private:
  friend class Worker;
  Worker* worker_ = nullptr;
  Connection* connection_ = nullptr;  // of what is sent
};

/// Where the messages of one peer of one endpoint come in.
class MessageSink {
 public:
  virtual void onData(const DataHeader& header, const Arrived& data) noexcept = 0;
  virtual void onNotice(const NoticeHeader& header,
                        std::span<const CreditEntry> credits) noexcept = 0;
  /// A message that is none of these.
  virtual void onGarbage() noexcept = 0;

 protected:
  ~MessageSink() = default;
};

/// Memory that UCX may still read or write after its endpoint is gone.
class UcxLink {
 public:
  virtual ~UcxLink() = default;
  bool busy() const { return underWay_ > 0; }

 protected:
  uint32_t underWay_ = 0;
};

/// A UCP endpoint; lives as long as its worker.
class Connection {
 public:
  explicit Connection(Worker& worker) : worker_(worker) {}
  bool lost() const { return status_ != UCS_OK; }
  bool made() const { return made_; }              ///< UCX has got through to the peer
  ucs_status_t status() const { return status_; }  ///< why it was lost

 private:
  friend class Worker;
  static void onError(void* connection, ucp_ep_h endpoint, ucs_status_t status);

  Worker& worker_;
  ucp_ep_h endpoint_ = nullptr;  // null when it was closed
  ucs_status_t status_ = UCS_OK;
  bool made_ = false;  // something was sent
};

class Worker {
 public:
  explicit Worker(const WorkerOptions& options);
  /// Gives what was sent a moment to leave.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// After a fork the parent's worker is nobody's.
  bool inForkedChild() const { return guard_.inForkedChild(); }
  const base::Bytes& address() const { return address_; }
  bool reachesGpus() const { return reachesGpus_; }
  /// Called by the worker's own thread before it does anything else; does not throw.
  void enterOnThread(std::function<void()> enter) { enter_ = std::move(enter); }
  /// For messages: the devices that it goes by, and which variables have chosen them.
  const std::string& devices() const { return devices_; }
  /// Where others can ask whether these lead here.
  const ProbeAddress& responder() const { return responder_.address(); }
  /// From which it may connect to others.
  const std::vector<SourceAddress>& sources() const { return sources_; }

  /// A random number, so that whoever was not told it cannot send to this sink.
  uint64_t addSink(MessageSink* sink);
  void removeSink(uint64_t number);

  /// A peer of an endpoint, with its worker's address: it may connect to this one at any time, from
  /// its `sources`, and connection() leaves it a descriptor, as far as it knows: other workers of
  /// the process, and what the program opens later, are not counted. Nobody else may connect; who
  /// was a peer once still may. Throws System.
  void addPeer(const base::Bytes& address, const std::vector<SourceAddress>& sources);
  void removePeer(const base::Bytes& address);

  /// The connection with the worker of that address; made if need be. Throws ConnectionLost of
  /// `peer` when nobody is reached there, and System when it cannot be made; `who` begins the
  /// message, "rank 0 cannot reach rank 1", and `ways`, how both go, ends it.
  Connection& connection(const base::Bytes& address, int peer, const std::string& who,
                         const std::string& ways);
  /// How many there are, of all endpoints of this worker; those that were lost not among them.
  size_t connections() const { return connections_.size(); }
  /// Header and data stay until `operation` is done, which may be before this returns. `isDirect`:
  /// the payload is fetched, whatever its size.
  void sendData(Connection& connection, const DataHeader& header, const void* payload,
                bool isDirect, UcxOperation& operation);
  void sendNotice(Connection& connection, const NoticeHeader& header,
                  std::span<const CreditEntry> credits, UcxOperation& operation);
  /// `operation` is done when all that was sent before has reached the peer's host.
  void flush(Connection& connection, UcxOperation& operation);
  /// As Endpoint::abandon(): this worker is not destroyed.
  void abandon() { broken_ = true; }
  /// Before disconnect(), which over TCP closes sockets that have room or are stuck: gives those of
  /// this worker that are full and move a moment to have room. False where one stays full.
  bool awaitRoom();
  /// Everything that is under way to the peer ends, and who uses the connection hears of its loss;
  /// so do other peers over TCP that have taken nothing for half a second.
  void disconnect(Connection& connection);
  /// Without the lock: until `condition` holds, which is looked at with it, for as long as
  /// messages get through, a minute at most, and until `hasFailed`, which is looked at likewise.
  /// False when it does not hold.
  bool awaitWhileMoving(const std::function<bool()>& condition,
                        const std::function<bool()>& hasFailed);
  /// Fetches the data of a message with rendezvous. Within MessageSink::onData() only.
  void fetch(const Arrived& data, void* to, UcxOperation& operation);
  /// Keeps `link` until UCX is through with it.
  void keep(std::unique_ptr<UcxLink> link);
  /// True when something moved. While nobody calls it, the worker's own thread sees to what comes
  /// and to what is still under way: connections are made and long messages fetched while this
  /// process computes.
  bool progress();

 private:
  friend class Connection;
  void initialise(const WorkerOptions& options);
  void makeGuarded();
  void listen(Kind kind, ucp_am_recv_callback_t callback);
  void send(Connection& connection, Kind kind, std::span<const std::byte> header,
            std::span<const std::byte> data, unsigned flags, UcxOperation& operation);
  void settle(ucs_status_ptr_t result, UcxOperation& operation);
  static void onSent(void* request, ucs_status_t status, void* operation);
  static void onFetched(void* request, ucs_status_t status, size_t bytes, void* operation);
  void finish(UcxOperation& operation, ucs_status_t status);
  void lose(Connection& connection, ucs_status_t status);
  void closeLost();
  void close(Connection& connection);
  void shutDown(bool (*those)(int socket));  // sockets, so that UCX can close their connections
  bool closed();                             // all that close() began
  bool leave();
  ucp_request_param_t paramsFor(UcxOperation& operation, Connection* connection);
  static ucs_status_t onData(void* worker, const void* header, size_t headerBytes, void* data,
                             size_t bytes, const ucp_am_recv_param_t* param);
  static ucs_status_t onNotice(void* worker, const void* header, size_t headerBytes, void* data,
                               size_t bytes, const ucp_am_recv_param_t* param);
  MessageSink* sinkOf(const void* header, size_t headerBytes);

  bool advance();
  // The worker's own thread.
  void stopThread();
  void serve();
  bool serveOnce();
  void rest(bool forEvents, int forMs);

  const base::ProcessGuard guard_;
  std::optional<base::AtExit> atExit_;  // UCX does things at the exit, too
  std::mutex mutex_;
  std::atomic<uint64_t> calls_{0};  // of progress()
  std::atomic<bool> stopping_{false};
  base::FileDescriptor stop_;  // readable when the thread shall end
  int events_ = -1;            // UCX's descriptor: readable when something comes
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  bool reachesGpus_ = false;
  std::function<void()> enter_;
  base::Bytes address_;
  std::string devices_;
  ProbeResponder responder_;  // answered by the worker's own thread
  std::vector<SourceAddress> sources_;
  Admission admission_;  // to UCX's ports and the responder's
  std::unordered_map<uint64_t, MessageSink*> sinks_;
  std::unordered_map<std::string, size_t> peers_;  // by address, which endpoints share
  std::unordered_map<std::string, std::unique_ptr<Connection>> connections_;  // by address
  std::vector<std::unique_ptr<Connection>> replaced_;  // lost, and asked for again
  uint64_t underWay_ = 0;                              // operations
  uint64_t messages_ = 0;                              // that came, or were got rid of
  bool broken_ = false;                                // a connection, or what an endpoint did
  std::vector<Connection*> lost_;                      // to be closed
  std::vector<void*> closing_;                         // UCX's requests
  std::vector<std::unique_ptr<UcxLink>> kept_;
  std::vector<pollfd> waiting_;  // the thread's own
  base::ServiceThread thread_;
};

}  // namespace tutti::transports::ucx
