#include "transports/ucx/worker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "src/base/backoff.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/printable.h"
#include "transports/ring_layout.h"
#include "transports/ucx/configuration.h"
#include "transports/ucx/library.h"
#include "transports/ucx/locked_memory.h"
#include "transports/ucx/network_devices.h"
#include "transports/ucx/settings.h"
#include "transports/ucx/worker_sockets.h"

namespace tutti::transports::ucx {
namespace {

// While somebody calls progress(), the worker's own thread looks only so often whether he still
// does.
constexpr int kAttendedMs = 1;
// UCX's timers, keep-alive among them, want progress also when nothing comes.
constexpr int kPatrolMs = 100;
// How long a rank that leaves waits while no message gets through, and at most.
constexpr std::chrono::seconds kStuck{8}, kLongestDrain{60};
// How long sockets that move are given to have room, with the lock held.
constexpr std::chrono::milliseconds kRoom{50};
// How long the destructor gives to what was sent, and then to the closing of connections.
constexpr std::chrono::milliseconds kFarewell{1000};
// A connection over TCP has one descriptor, and a few more while it is made.
constexpr uint64_t kConnectionDescriptors = 8;
// Of all descriptors that there may be: so much at most is left to connections that peers begin,
// one for each that is not connected to from here.
constexpr uint64_t kPeersShare = 4;

struct Descriptors {
  uint64_t open = 0, limit = 0;
};

Descriptors descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  std::error_code ignored;
  const auto open =
      std::distance(std::filesystem::directory_iterator("/proc/self/fd", ignored), {});
  return {static_cast<uint64_t>(open), limit.rlim_cur};
}

std::string describe(const Descriptors& d) {
  if (d.open == 0) return "/proc cannot be read here, which UCX may need";
  return base::message("this process has ", d.open, " descriptors of at most ", d.limit,
                       " (ulimit -n)");
}

/// "the environment has UCX_TCP_PORT_RANGE=, UCX_TLS=tcp; ", or nothing where it has none of UCX's.
std::string environmentOfUcx() {
  std::string text;
  for (char** each = environ; *each; ++each)
    if (const std::string_view setting = *each; setting.starts_with("UCX_"))
      text += (text.empty() ? "the environment has " : ", ") + base::printable(setting);
  return text.empty() ? text : text + "; ";
}

bool has(Quirk quirk) { return has(library().version, quirk); }

void require(ucs_status_t status, const char* what) {
  if (status != UCS_OK)
    base::fail(ErrorCode::System, "UCX cannot ", what, ": ", library().statusString(status), "; ",
               status == UCS_ERR_INVALID_PARAM ? environmentOfUcx() : "", describe(descriptors()),
               "; TUTTI_LOG=info shows what UCX says itself");
}

template <class Header>
std::span<const std::byte> bytesOf(const Header& header) {
  return std::as_bytes(std::span(&header, 1));
}

template <class Condition>
void await(const base::Deadline& deadline, const Condition& holds) {
  base::Backoff backoff(false);
  while (!holds() && !deadline.passed()) backoff.idle();
}

}  // namespace

std::shared_ptr<Worker> makeWorker(const WorkerOptions& options) {
  return std::make_shared<Worker>(options);
}

bool reachesGpus(const Worker& worker) { return worker.reachesGpus(); }

// ---- the worker's life

Worker::Worker(const WorkerOptions& options) {
  try {
    initialise(options);
  } catch (...) {
    if (worker_) library().workerDestroy(worker_);
    if (context_) library().cleanup(context_);
    throw;
  }
}

void Worker::initialise(const WorkerOptions& options) {
  requireLockableMemory(effective(options.devices, "UCX_NET_DEVICES"),
                        effective(options.tls, "UCX_TLS"));
  const UcxLibrary& ucp = library();
  const UcxConfig config = readConfig(options);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "tutti";
  const ucs_status_t status =
      ucp.initVersion(UCP_API_MAJOR, UCP_API_MINOR, &params, config.get(), &context_);
  if (status == UCS_ERR_NO_DEVICE || status == UCS_ERR_NO_ELEM) failWithoutDevice(options, "");
  require(status, "be initialised");
  const auto devices = networkDevices(context_);
  if (options.betweenHosts && devices && devices->empty())
    failWithoutDevice(options, " that leads to other hosts");
  devices_ = describeDevices(options, devices);
  if (devices && options.betweenHosts) responder_ = ProbeResponder(addressesOf(*devices));
  sources_ = sourcesFor(devices);
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  require(ucp.contextQuery(context_, &attributes), "tell what memory it can use");
  reachesGpus_ = (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  makeGuarded();
  listen(Kind::Data, &Worker::onData);
  listen(Kind::Notice, &Worker::onNotice);
  require(ucp.workerGetEfd(worker_, &events_), "tell when something comes");
  stop_ = base::FileDescriptor(TUTTI_SYSCALL(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  admission_.cutOff();
  atExit_.emplace([this](const base::Deadline&) { stopThread(); });
  thread_.start("tutti-ucx", [this] { serve(); });
}

// UCX listens from the moment on in which it makes the worker. What others make meanwhile could not
// be told from that.
void Worker::makeGuarded() {
  static std::mutex making;
  const std::lock_guard lock(making);
  const UcxLibrary& ucp = library();
  const std::vector<Listener> before = tcpListeners();
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  require(ucp.workerCreate(context_, &params, &worker_), "make a worker");
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  require(ucp.workerGetAddress(worker_, &address, &bytes), "tell its address");
  const auto* begin = reinterpret_cast<const std::byte*>(address);
  address_.assign(begin, begin + bytes);
  ucp.workerReleaseAddress(worker_, address);
  std::vector<Listener> listeners = listenersOf(address_, before);
  responder_.addListeners(listeners);
  admission_ = Admission(std::move(listeners));
}

void Worker::listen(Kind kind, ucp_am_recv_callback_t callback) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = static_cast<unsigned>(kind);
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.cb = callback;
  params.arg = this;
  require(library().workerSetAmRecvHandler(worker_, &params), "take in active messages");
}

// Connections may be half made that peers make: this side knows nothing of them before something
// comes by them. Where UCX does not survive that, such a worker stays, without its thread.
Worker::~Worker() {
  if (inForkedChild()) return;
  atExit_.reset();
  stopThread();
  if (!leave()) {
    for (auto& link : kept_) static_cast<void>(link.release());
    static auto& left = *new std::vector<ucp_worker_h>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    left.push_back(worker_);  // so that leaks are told from it
    return;
  }
  library().workerDestroy(worker_);
  library().cleanup(context_);
}

void Worker::stopThread() {
  stopping_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t told = ::write(stop_.get(), &one, sizeof one);
  thread_.finish();
}

// Connections are closed by force: the orderly way waits for the peers. What was sent has been
// given to the network before, unless a peer does not take it.
//
// False when UCX must be left as it is, with what it may still read and write: over InfiniBand or
// RoCE as soon as a peer has died before it answered the first request.
bool Worker::leave() {
  const bool survives = !has(Quirk::AbortsOnHalfMadeConnections);
  if (connections_.empty() && replaced_.empty()) return survives || !broken_;
  await(base::Deadline::after(kFarewell), [&] {
    advance();
    return underWay_ == 0;
  });
  shutDown(isFull);
  bool all = true;
  for (const auto& entry : connections_) {
    Connection& connection = *entry.second;
    if (connection.made_ || connection.lost() || survives)
      close(connection);
    else
      all = false;
  }
  await(base::Deadline::after(kFarewell), [&] {
    advance();
    return closed();
  });
  return all && closed() && (survives || !broken_);
}

// ---- connections

namespace {

std::string keyOf(const base::Bytes& address) {
  return {reinterpret_cast<const char*>(address.data()), address.size()};
}

}  // namespace

void Worker::addPeer(const base::Bytes& address, const std::vector<SourceAddress>& sources) {
  ++peers_[keyOf(address)];
  admission_.admit(sources_);  // ranks of this host
  admission_.admit(sources);
}

void Worker::removePeer(const base::Bytes& address) {
  if (const auto found = peers_.find(keyOf(address)); --found->second == 0) peers_.erase(found);
}

void Connection::onError(void* connection, ucp_ep_h, ucs_status_t status) {
  auto* const self = static_cast<Connection*>(connection);
  self->worker_.lose(*self, status);
}

Connection& Worker::connection(const base::Bytes& address, int peer, const std::string& who,
                               const std::string& ways) {
  const std::string key = keyOf(address);
  if (const auto found = connections_.find(key); found != connections_.end()) {
    if (!found->second->lost()) return *found->second;
    replaced_.push_back(std::move(found->second));  // peers know it
    connections_.erase(found);
  }
  const Descriptors d = descriptors();
  const auto strangers = static_cast<uint64_t>(std::ranges::count_if(
      peers_, [&](const auto& known) { return !connections_.contains(known.first); }));
  const uint64_t forPeers =
      has(Quirk::AbortsWithoutDescriptors) ? std::min(strangers, d.limit / kPeersShare) : 0;
  if (d.open + kConnectionDescriptors + forPeers > d.limit)
    base::fail(ErrorCode::System, who, ": a connection needs up to ", kConnectionDescriptors,
               " descriptors, and those that peers begin up to ", forPeers, "; ", describe(d));
  auto made = std::make_unique<Connection>(*this);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&Connection::onError, made.get()};
  const ucs_status_t status = library().epCreate(worker_, &params, &made->endpoint_);
  if (status == UCS_ERR_UNREACHABLE)  // also because its process has just died
    throw ConnectionLost(peer, base::message("it cannot be reached: UCX reports \"",
                                             library().statusString(status), "\"", ways));
  if (status != UCS_OK)
    base::fail(ErrorCode::System, who, ": UCX reports \"", library().statusString(status), "\"",
               ways, "; ", describe(d));
  return *connections_.emplace(key, std::move(made)).first->second;
}

void Worker::lose(Connection& connection, ucs_status_t status) {
  if (connection.lost()) return;
  broken_ |= !connection.made();
  connection.status_ = status;
  lost_.push_back(&connection);
}

// UCX sends nothing meanwhile, so that a socket that moves has room soon. Which one is whose it
// does not tell.
bool Worker::awaitRoom() {
  if (!has(Quirk::RepeatsItsLastWord)) return true;
  std::vector<int> moving = tcpSocketsOf(events_);
  std::erase_if(moving, isStuck);
  await(base::Deadline::after(kRoom), [&] {
    std::erase_if(moving, [](int socket) { return !isFull(socket); });
    return moving.empty();
  });
  return moving.empty();
}

void Worker::disconnect(Connection& connection) {
  if (connection.lost()) return;
  shutDown(isStuck);
  lose(connection, UCS_ERR_CANCELED);
  closeLost();
}

// Not within UCX's callbacks.
void Worker::closeLost() {
  for (Connection* connection : std::exchange(lost_, {})) close(*connection);
}

// UCX tells the peer over TCP that a connection closes, and tries until there is room for that: for
// as long as the peer stands still, or the kernel hopes to reach it again, which is a quarter of an
// hour. Where the socket is shut down it does not try.
void Worker::shutDown(bool (*those)(int socket)) {
  if (!has(Quirk::RepeatsItsLastWord)) return;
  for (const int socket : tcpSocketsOf(events_))
    if (those(socket)) ::shutdown(socket, SHUT_RDWR);
}

void Worker::close(Connection& connection) {
  if (!connection.endpoint_) return;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = library().epCloseNbx(std::exchange(connection.endpoint_, nullptr), &params);
  if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
}

bool Worker::closed() {
  std::erase_if(closing_, [](void* request) {
    if (library().requestCheckStatus(request) == UCS_INPROGRESS) return false;
    library().requestFree(request);
    return true;
  });
  return closing_.empty();
}

// ---- sending

void Worker::sendData(Connection& connection, const DataHeader& header, const void* payload,
                      bool isDirect, UcxOperation& operation) {
  send(connection, Kind::Data, bytesOf(header),
       {static_cast<const std::byte*>(payload), header.bytes},
       isDirect ? unsigned{UCP_AM_SEND_FLAG_RNDV} : 0, operation);
}

void Worker::sendNotice(Connection& connection, const NoticeHeader& header,
                        std::span<const CreditEntry> credits, UcxOperation& operation) {
  send(connection, Kind::Notice, bytesOf(header), std::as_bytes(credits), UCP_AM_SEND_FLAG_EAGER,
       operation);
}

void Worker::send(Connection& connection, Kind kind, std::span<const std::byte> header,
                  std::span<const std::byte> data, unsigned flags, UcxOperation& operation) {
  ucp_request_param_t params = paramsFor(operation, &connection);
  params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = flags;
  ++underWay_;
  if (connection.lost()) return finish(operation, connection.status());
  const ucs_status_ptr_t result =
      library().amSendNbx(connection.endpoint_, static_cast<unsigned>(kind), header.data(),
                          header.size(), data.data(), data.size(), &params);
  if (UCS_PTR_IS_ERR(result)) lose(connection, UCS_PTR_STATUS(result));
  settle(result, operation);
}

void Worker::flush(Connection& connection, UcxOperation& operation) {
  const ucp_request_param_t params = paramsFor(operation, nullptr);
  ++underWay_;
  if (connection.lost()) return finish(operation, connection.status());
  settle(library().epFlushNbx(connection.endpoint_, &params), operation);
}

// That UCX's progress did something is no sign: where a peer's network is gone it does so for ever.
bool Worker::awaitWhileMoving(const std::function<bool()>& condition,
                              const std::function<bool()>& hasFailed) {
  base::Backoff backoff(false);
  uint64_t before = 0;
  const auto end = base::Deadline::after(kLongestDrain);
  for (auto stuck = base::Deadline::after(kStuck); !stuck.passed() && !end.passed();) {
    bool any = false;
    {
      const auto held = lock();
      any = progress();
      if (condition()) return true;
      if (hasFailed()) return false;
      if (std::exchange(before, messages_) != messages_) stuck = base::Deadline::after(kStuck);
    }
    if (any)
      backoff.reset();
    else
      backoff.idle();
  }
  return false;
}

void Worker::fetch(const Arrived& data, void* to, UcxOperation& operation) {
  ucp_request_param_t params = paramsFor(operation, nullptr);
  params.cb.recv_am = &Worker::onFetched;
  ++underWay_;
  settle(library().amRecvDataNbx(worker_, data.data, to, data.bytes, &params), operation);
}

ucp_request_param_t Worker::paramsFor(UcxOperation& operation, Connection* connection) {
  operation.worker_ = this;
  operation.connection_ = connection;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &Worker::onSent;
  params.user_data = &operation;
  return params;
}

// What UCX returned for an operation: it may be over already, and then nobody is called.
void Worker::settle(ucs_status_ptr_t result, UcxOperation& operation) {
  if (result == nullptr)
    finish(operation, UCS_OK);
  else if (UCS_PTR_IS_ERR(result))
    finish(operation, UCS_PTR_STATUS(result));
}

void Worker::onSent(void* request, ucs_status_t status, void* operation) {
  library().requestFree(request);
  auto* const self = static_cast<UcxOperation*>(operation);
  self->worker_->finish(*self, status);
}

void Worker::onFetched(void* request, ucs_status_t status, size_t, void* operation) {
  onSent(request, status, operation);
}

void Worker::finish(UcxOperation& operation, ucs_status_t status) {
  --underWay_;
  ++messages_;
  if (operation.connection_ && status == UCS_OK) operation.connection_->made_ = true;
  operation.done(status);
}

void Worker::keep(std::unique_ptr<UcxLink> link) {
  if (link->busy()) kept_.push_back(std::move(link));
}

bool Worker::progress() {
  calls_.fetch_add(1, std::memory_order_relaxed);
  return advance();
}

void Worker::serve() {
  for (uint64_t seen = 0; !stopping_.load();) {
    const uint64_t now = calls_.load(std::memory_order_relaxed);
    const bool attended = std::exchange(seen, now) != now;
    if (attended)
      rest(false, kAttendedMs);
    else if (!serveOnce())
      rest(true, kPatrolMs);
  }
}

// True when more may be there at once.
bool Worker::serveOnce() {
  const auto held = lock();
  if (enter_) std::exchange(enter_, nullptr)();
  return advance() || library().workerArm(worker_) == UCS_ERR_BUSY;
}

void Worker::rest(bool forEvents, int forMs) {
  waiting_.assign({{stop_.get(), POLLIN, 0}, {forEvents ? events_ : -1, POLLIN, 0}});
  const auto probes = static_cast<ptrdiff_t>(waiting_.size());
  responder_.listTo(waiting_);
  ::poll(waiting_.data(), waiting_.size(), forMs);
  if (std::any_of(waiting_.begin() + probes, waiting_.end(),
                  [](const pollfd& each) { return each.revents != 0; }))
    responder_.answer();
}

bool Worker::advance() {
  const bool moved = library().workerProgress(worker_) > 0;
  if (!lost_.empty()) closeLost();
  if (!closing_.empty()) closed();
  if (!kept_.empty()) std::erase_if(kept_, [](const auto& link) { return !link->busy(); });
  return moved;
}

// ---- receiving

uint64_t Worker::addSink(MessageSink* sink) {
  uint64_t number = 0;
  do {
    TUTTI_SYSCALL(::getrandom(&number, sizeof number, 0));
  } while (!sinks_.emplace(number, sink).second);
  return number;
}

void Worker::removeSink(uint64_t number) { sinks_.erase(number); }

// Both headers begin with the sink's number. What is for nobody is dropped: its endpoint is gone,
// or it comes from a stranger.
MessageSink* Worker::sinkOf(const void* header, size_t headerBytes) {
  uint64_t number = 0;
  if (headerBytes < sizeof number) return nullptr;
  std::memcpy(&number, header, sizeof number);
  const auto found = sinks_.find(number);
  return found == sinks_.end() ? nullptr : found->second;
}

ucs_status_t Worker::onData(void* worker, const void* header, size_t headerBytes, void* data,
                            size_t bytes, const ucp_am_recv_param_t* param) {
  ++static_cast<Worker*>(worker)->messages_;
  MessageSink* const sink = static_cast<Worker*>(worker)->sinkOf(header, headerBytes);
  if (!sink) return UCS_OK;
  DataHeader own;
  if (headerBytes != sizeof own) {
    sink->onGarbage();
    return UCS_OK;
  }
  std::memcpy(&own, header, sizeof own);
  sink->onData(own, {data, bytes, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0});
  return UCS_OK;
}

ucs_status_t Worker::onNotice(void* worker, const void* header, size_t headerBytes, void* data,
                              size_t bytes, const ucp_am_recv_param_t* param) {
  ++static_cast<Worker*>(worker)->messages_;
  MessageSink* const sink = static_cast<Worker*>(worker)->sinkOf(header, headerBytes);
  if (!sink) return UCS_OK;
  NoticeHeader own;
  std::array<CreditEntry, kMaxChannels> credits;
  const bool fetchable = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  if (headerBytes == sizeof own) std::memcpy(&own, header, sizeof own);
  if (headerBytes != sizeof own || fetchable || own.credits > credits.size() ||
      bytes != own.credits * sizeof(CreditEntry)) {
    sink->onGarbage();
    return UCS_OK;
  }
  if (bytes > 0) std::memcpy(credits.data(), data, bytes);
  sink->onNotice(own, std::span(credits).first(own.credits));
  return UCS_OK;
}

}  // namespace tutti::transports::ucx
