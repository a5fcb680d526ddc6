// The backend `tutti` of torch.distributed: what PyTorch calls for each operation of a process
// group. Operations on the host run one after the other, in the order in which they were issued, by
// a thread of the group or by the thread that waits. Operations on a GPU are enqueued on the
// current stream. Sends and receives have channels of their own (messages.h).

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/custom_class.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "collectives.h"
#include "messages.h"
#include "rendezvous.h"
#include "work.h"

namespace tutti_torch {
namespace {

using collectives::Body;
using collectives::sparseAllReduce;
using collectives::Tensors;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Between a message's ranks nothing but PyTorch's time-out bounds a wait, and the end of a rank.
constexpr milliseconds kAlways = std::chrono::hours(24 * 365);

template <class Options>
bool isAsync(const Options& options) {
  if constexpr (requires { options.asyncOp; }) return options.asyncOp;
  return true;
}

template <class Options>
std::string nameOf(const Options& options) {
  if constexpr (requires { options.group_name; }) return options.group_name;
  return "";
}

template <class Options>
void nameAs(Options& options, const Options& other) {
  if constexpr (requires { options.group_name; }) options.group_name = other.group_name;
}

template <class Stream>
CUstream_st* handleOf(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); })
    return static_cast<CUstream_st*>(stream.native_handle());
  TORCH_CHECK_NOT_IMPLEMENTED(false, "tutti: tensors on ", stream.device(),
                              " need a newer PyTorch");
}

class TuttiBackend final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(milliseconds timeout) : c10d::Backend::Options("tutti", timeout) {}
  };

  TuttiBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size, milliseconds timeout)
      : c10d::Backend(rank, size),
        store_(std::move(store)),
        options_(c10::make_intrusive<Options>(timeout)),
        setup_(timeout),
        rendezvous_(store_),
        queue_(std::make_shared<JobQueue>()) {
    parts_.host = join("host", {rank, size}, timeout);
    parts_.limit = timeout;
    parts_.messages = std::make_shared<MessageBoard>(
        rank, size, [this](int sender, int receiver, std::stop_token stop) {
          return openChannel(sender, receiver, std::move(stop));
        });
    init();
  }
  ~TuttiBackend() override { shutDown(); }

  const std::string getBackendName() const override { return "tutti"; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

  // Some versions of PyTorch lack the ones that follow.
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() { return options_; }
  bool supportsSplitting() const { return true; }
  /// A communicator keeps its limit. So a longer one takes another, which all ranks join; what is
  /// under way goes on over the one before.
  void setTimeout(milliseconds timeout) {
    const Parts now = openParts("set_timeout");
    if (timeout > now.limit && !now.host->asyncError()) extend(timeout);
    options_->timeout = timeout;
  }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) {
    const auto found = std::find(ranks.begin(), ranks.end(), getRank());
    if (found == ranks.end()) return nullptr;
    auto group =
        c10::make_intrusive<TuttiBackend>(store, static_cast<int>(found - ranks.begin()),
                                          static_cast<int>(ranks.size()), options->timeout);
    nameAs<c10d::Backend::Options>(*group->options_, *options);
    return group;
  }
  c10::intrusive_ptr<c10d::Backend> split(
      const std::vector<int>& ranks, const c10::intrusive_ptr<c10d::Backend::Options>& options) {
    const std::string name = c10::str("split/", nameOf(*options), "/", ranks);
    return split(c10::make_intrusive<c10d::PrefixStore>(name, store_), ranks, options);
  }
  void abort() {
    const Parts now = parts();
    if (now.messages) now.messages->abort();
    for (const auto& each : now.earlier) each->abort();
    for (const auto& each : {now.host, now.gpu})
      if (each) each->abort();
  }
  void shutdown() { shutDown(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const auto call = callOf(c10d::OpType::BROADCAST, "broadcast", "tutti:broadcast", options);
    return start(call, tensors, tensors,
                 collectives::broadcast(call.name, single(call.name, tensors), options.rootRank,
                                        getRank(), getSize()));
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const auto call = callOf(c10d::OpType::ALLREDUCE, "all_reduce", "tutti:all_reduce", options);
    TORCH_CHECK_VALUE(tensors.size() == 1, "tutti all_reduce: takes 1 tensor, not ",
                      tensors.size());
    if (tensors[0].is_sparse())
      return start(call, tensors, tensors, sparseAllReduce(tensors[0], options.reduceOp));
    return start(call, tensors, tensors,
                 collectives::allReduce(call.name, tensors[0], options.reduceOp));
  }

  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    const auto call = callOf(c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced",
                             "tutti:all_reduce", options);
    std::vector<Body> bodies;
    for (const auto& each : tensors)
      bodies.push_back(collectives::allReduce(call.name, each, options.reduceOp));
    return start(call, tensors, tensors, collectives::allOf(std::move(bodies)));
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const auto call = callOf(c10d::OpType::REDUCE, "reduce", "tutti:reduce", options);
    return start(call, tensors, tensors,
                 collectives::reduce(call.name, single(call.name, tensors), options.reduceOp,
                                     options.rootRank, getRank(), getSize()));
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    const auto call = callOf(c10d::OpType::ALLGATHER, "all_gather", "tutti:all_gather", options);
    TORCH_CHECK_VALUE(outputs.size() == 1, "tutti all_gather: takes 1 output list, not ",
                      outputs.size());
    return start(call, inputs, outputs[0],
                 collectives::allGather(call.name, outputs[0], single(call.name, inputs), getRank(),
                                        getSize()));
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    const auto call = callOf(c10d::OpType::_ALLGATHER_BASE, "all_gather_into_tensor",
                             "tutti:_all_gather_base", options);
    return start(call, {input}, {output},
                 collectives::allGather(call.name, output, input, getSize()));
  }

  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    const auto call = callOf(c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced",
                             "tutti:all_gather", options);
    collectives::checkCount(call.name, "the output list", outputs.size(), getSize());
    std::vector<Body> bodies;
    Tensors all;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensors ofInput;  // the lists are by rank
      for (const auto& list : outputs) {
        collectives::checkCount(call.name, "an output list", list.size(),
                                static_cast<int>(inputs.size()));
        ofInput.push_back(list[i]);
      }
      bodies.push_back(collectives::allGather(call.name, ofInput, inputs[i], getRank(), getSize()));
      all.insert(all.end(), ofInput.begin(), ofInput.end());
    }
    return start(call, inputs, all, collectives::allOf(std::move(bodies)));
  }

  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    const auto call = callOf(c10d::OpType::COALESCED, "all_gather_into_tensor_coalesced",
                             "tutti:all_gather_into_tensor_coalesced", options);
    collectives::checkCount(call.name, "the output list", outputs.size(),
                            static_cast<int>(inputs.size()));
    std::vector<Body> bodies;
    for (size_t i = 0; i < inputs.size(); ++i)
      bodies.push_back(collectives::allGather(call.name, outputs[i], inputs[i], getSize()));
    return start(call, inputs, outputs, collectives::allOf(std::move(bodies)));
  }

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    const auto call = callOf(c10d::OpType::GATHER, "gather", "tutti:gather", options);
    const Tensors lists = outputs.empty() ? Tensors{} : outputs[0];
    return start(call, inputs, lists,
                 collectives::gather(call.name, lists, single(call.name, inputs), options.rootRank,
                                     getRank(), getSize()));
  }

  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    const auto call = callOf(c10d::OpType::SCATTER, "scatter", "tutti:scatter", options);
    const Tensors lists = inputs.empty() ? Tensors{} : inputs[0];
    return start(call, lists, outputs,
                 collectives::scatter(call.name, single(call.name, outputs), lists,
                                      options.rootRank, getRank(), getSize()));
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    const auto call =
        callOf(c10d::OpType::REDUCE_SCATTER, "reduce_scatter", "tutti:reduce_scatter", options);
    TORCH_CHECK_VALUE(inputs.size() == 1, "tutti reduce_scatter: takes 1 input list, not ",
                      inputs.size());
    return start(call, inputs[0], outputs,
                 collectives::reduceScatter(call.name, single(call.name, outputs), inputs[0],
                                            options.reduceOp, getRank(), getSize()));
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    const auto call = callOf(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor",
                             "tutti:_reduce_scatter_base", options);
    return start(call, {input}, {output},
                 collectives::reduceScatter(call.name, output, input, options.reduceOp, getSize()));
  }

  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    const auto call = callOf(c10d::OpType::COALESCED, "reduce_scatter_tensor_coalesced",
                             "tutti:reduce_scatter_tensor_coalesced", options);
    collectives::checkCount(call.name, "the output list", outputs.size(),
                            static_cast<int>(inputs.size()));
    std::vector<Body> bodies;
    for (size_t i = 0; i < inputs.size(); ++i)
      bodies.push_back(collectives::reduceScatter(call.name, outputs[i], inputs[i],
                                                  options.reduceOp, getSize()));
    return start(call, inputs, outputs, collectives::allOf(std::move(bodies)));
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& outputSplits,
                        std::vector<int64_t>& inputSplits,
                        const c10d::AllToAllOptions& options) override {
    const auto call =
        callOf(c10d::OpType::ALLTOALL_BASE, "all_to_all_single", "tutti:all_to_all", options);
    return start(
        call, {input}, {output},
        collectives::allToAll(call.name, output, input, outputSplits, inputSplits, getSize()));
  }

  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    const auto call = callOf(c10d::OpType::ALLTOALL, "all_to_all", "tutti:all_to_all", options);
    return start(call, inputs, outputs,
                 collectives::allToAll(call.name, outputs, inputs, getSize()));
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    const auto call = callOf(c10d::OpType::BARRIER, "barrier", "tutti:barrier", options);
    return start(call, {}, {},
                 [](tutti::Communicator& group, tutti::StreamRef) { group.barrier(); });
  }

  // The queue keeps the order: what is behind all calls ends when they have.
  void startCoalescing() override {}
  WorkPtr endCoalescing() override {
    return start({c10d::OpType::COALESCED, "coalesced calls", "tutti:coalesced", unset(), true}, {},
                 {}, [](tutti::Communicator&, tutti::StreamRef) {});
  }

  void monitoredBarrier(const c10d::BarrierOptions& options, bool waitAllRanks) override {
    const auto timeout = options.timeout == unset() ? options_->timeout : options.timeout;
    openParts("monitored_barrier");
    if (timeout <= milliseconds(0))
      C10_THROW_ERROR(DistBackendError,
                      c10::str("Rank ", getRank(), " timed out in monitoredBarrier after ",
                               timeout.count(), " ms"));
    const Label label{.tag = static_cast<int64_t>(monitored_++), .kind = 1};
    if (getRank() == 0)
      monitor(label, timeout, waitAllRanks);
    else
      answerMonitor(label, timeout);
  }

  WorkPtr send(Tensors& tensors, int peer, int tag) override {
    return message({c10d::OpType::SEND, "send", "tutti:send", unset(), true}, tensors, peer, tag);
  }
  WorkPtr recv(Tensors& tensors, int peer, int tag) override {
    return message({c10d::OpType::RECV, "recv", "tutti:recv", unset(), true}, tensors, peer, tag);
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return message({c10d::OpType::RECVANYSOURCE, "recv", "tutti:recvAnySource", unset(), true},
                   tensors, MessageTransfer::kAnyRank, tag);
  }

 private:
  static milliseconds unset() { return c10d::kUnsetTimeout; }

  template <class Given>
  static Call callOf(c10d::OpType type, const char* name, const char* title, const Given& options) {
    return {type, name, title, options.timeout, isAsync(options)};
  }

  milliseconds timeoutOf(const Call& call) const {
    return call.timeout == unset() ? options_->timeout : call.timeout;
  }

  /// What shutDown() takes away. Calls that are under way on other threads hold it longer.
  struct Parts {
    std::shared_ptr<tutti::Communicator> host;
    std::shared_ptr<tutti::Communicator> gpu;  // of the GPU that tensors were on last; may be null
    milliseconds limit{0};                     // of an operation on these two
    std::vector<std::shared_ptr<tutti::Communicator>> earlier;  // of shorter limits
    std::shared_ptr<MessageBoard> messages;
  };

  /// All null after shutDown().
  Parts parts() const {
    std::lock_guard lock(partsMutex_);
    return parts_;
  }

  Parts openParts(const char* call) const {
    Parts now = parts();
    TORCH_CHECK(now.host, "tutti ", call, ": the process group was shut down");
    return now;
  }

  std::shared_ptr<tutti::Communicator> join(const std::string& name, const JoinPlace& place,
                                            milliseconds limit) const {
    return std::make_shared<tutti::Communicator>(
        rendezvous_.meet(name, place, {.setup = limit, .operation = limit}, Clock::now() + limit));
  }

  void extend(milliseconds limit) {
    std::shared_ptr<tutti::Communicator> host;
    try {
      host = join(c10::str("host/", ++extensions_), {getRank(), getSize()}, limit);
    } catch (const tutti::Error&) {
      std::rethrow_exception(translated(std::current_exception()));
    }
    std::lock_guard lock(partsMutex_);
    if (!parts_.host) return;
    for (auto* each : {&parts_.host, &parts_.gpu})
      if (*each) parts_.earlier.push_back(std::exchange(*each, nullptr));
    parts_.host = std::move(host);
    parts_.limit = limit;
  }

  WorkPtr start(const Call& call, const Tensors& inputs, const Tensors& outputs, Body body) {
    const Parts now = openParts(call.name);
    ++sequence_;
    const at::Device device = deviceOf(call.name, inputs, outputs);
    if (!device.is_cpu()) return startOnGpu(call, inputs, outputs, body, device);
    const auto timeout = timeoutOf(call);
    const auto job = std::make_shared<QueuedJob>(
        timeout, [group = now.host, body = std::move(body)] { body(*group, tutti::StreamRef()); });
    // A thread that runs a job waits as long as the communicator lets it.
    const bool mayRunHere = timeout >= now.limit;
    TaskWork::Care care{.help = nullptr,
                        .giveUp = [host = std::weak_ptr(now.host)](const std::exception_ptr&) {
                          if (const auto group = host.lock()) group->abort();
                        }};
    if (mayRunHere) {
      care.help = [queue = queue_, job = job.get()] { queue->help(*job); };
      care.grace = kGrace;
    }
    auto work = c10::make_intrusive<TaskWork>(
        TaskWork::About{getRank(), call.type, call.title, inputs, outputs, sequence_}, job,
        std::move(care));
    if (mayRunHere && !call.async)
      queue_->runOrPush(job);
    else
      queue_->push(job);
    return work;
  }

  static at::Device deviceOf(const char* call, const Tensors& inputs, const Tensors& outputs) {
    std::optional<at::Device> device;
    for (const auto* list : {&inputs, &outputs})
      for (const auto& each : *list) {
        TORCH_CHECK_VALUE(each.device().is_cpu() || each.device().is_cuda(), "tutti ", call,
                          ": a tensor is on ", each.device(),
                          "; the backend takes tensors of cpu and cuda");
        TORCH_CHECK_VALUE(!device || *device == each.device(), "tutti ", call, ": tensors are on ",
                          *device, " and on ", each.device());
        device = each.device();
      }
    return device.value_or(at::Device(at::kCPU));
  }

  WorkPtr startOnGpu(const Call& call, const Tensors& inputs, const Tensors& outputs,
                     const Body& body, at::Device device) {
    const c10::OptionalDeviceGuard guard(device);
    const c10::Stream stream = c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device);
    try {
      body(*groupOn(call.name, device), tutti::StreamRef::cuda(handleOf(stream)));
    } catch (const tutti::Error&) {
      std::rethrow_exception(translated(std::current_exception()));
    }
    return c10::make_intrusive<CudaWork>(getRank(), call, inputs, outputs, stream);
  }

  std::shared_ptr<tutti::Communicator> groupOn(const char* call, at::Device device) {
    const Parts now = openParts(call);
    if (now.gpu && now.gpu->device().index == device.index()) return now.gpu;
    const auto gpu = joinOnGpu(device, now.limit);
    std::lock_guard lock(partsMutex_);
    if (parts_.host) parts_.gpu = gpu;
    return gpu;
  }

  std::shared_ptr<tutti::Communicator> joinOnGpu(at::Device device, milliseconds limit) {
    TORCH_CHECK_NOT_IMPLEMENTED(tutti::deviceCount(tutti::DeviceKind::Cuda) > 0,
                                "tutti: tensors on ", device,
                                " need a libtutti that was built with CUDA; use "
                                "init_process_group(\"cpu:tutti,cuda:nccl\") with this one");
    return join(c10::str("gpu/", gpus_++),
                {getRank(), getSize(), {tutti::DeviceKind::Cuda, device.index()}}, limit);
  }

  WorkPtr message(const Call& call, const Tensors& tensors, int peer, int tag) {
    const Parts now = openParts(call.name);
    const auto& tensor = single(call.name, tensors);
    TORCH_CHECK_VALUE(peer >= MessageTransfer::kAnyRank && peer < getSize(), "tutti ", call.name,
                      ": invalid rank: ", peer);
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.is_cpu(), "tutti ", call.name, ": the tensor is on ",
                                tensor.device(), "; messages take tensors of cpu");
    const bool isSend = call.type == c10d::OpType::SEND;
    if (!isSend) checkOutput(call.name, tensor);
    const Dense data(tensor);
    const auto transfer = std::make_shared<MessageTransfer>(
        timeoutOf(call), peer, Label{.tag = tag}, data.tensor().data_ptr(), data.tensor().nbytes());
    if (!isSend && data.isCopy()) transfer->beforeEnd([data] { data.giveBack(); });
    transfer->whenDone([data] {});  // it lives so long
    return begin(now, call, tensors, transfer);
  }

  WorkPtr begin(const Parts& now, const Call& call, const Tensors& tensors,
                const std::shared_ptr<MessageTransfer>& transfer) {
    TaskWork::Care care{
        .help = nullptr,
        .giveUp =
            [messages = std::weak_ptr(now.messages), transfer](const std::exception_ptr& error) {
              if (const auto all = messages.lock()) all->giveUp(transfer, error);
            },
        .look = [host = std::weak_ptr(now.host)]() -> std::exception_ptr {
          const auto group = host.lock();
          const auto error = group ? group->asyncError() : std::nullopt;
          return error ? std::make_exception_ptr(*error) : nullptr;
        }};
    const bool isSend = call.type == c10d::OpType::SEND;
    auto work =
        c10::make_intrusive<MessageWork>(TaskWork::About{getRank(), call.type, call.title, tensors,
                                                         isSend ? Tensors{} : tensors, ++sequence_},
                                         transfer, std::move(care));
    if (isSend)
      now.messages->send(transfer);
    else
      now.messages->receive(transfer);
    return work;
  }

  tutti::Communicator openChannel(int sender, int receiver, std::stop_token stop) const {
    return rendezvous_.meet(c10::str("messages/", sender, "/", receiver),
                            {getRank() == sender ? 0 : 1, 2},
                            {.setup = setup_, .operation = kAlways, .straggler = kAlways},
                            Clock::now() + kAlways, std::move(stop));
  }

  WorkPtr monitorMessage(bool isSend, int peer, const Label& label, milliseconds timeout) {
    const auto transfer = std::make_shared<MessageTransfer>(timeout, peer, label, nullptr, 0);
    const Call call{isSend ? c10d::OpType::SEND : c10d::OpType::RECV, "monitored_barrier", nullptr,
                    timeout, true};
    return begin(openParts(call.name), call, {}, transfer);
  }

  // Rank 0 hears of each other rank, and then answers all. A rank that it does not hear of gets
  // none.
  void monitor(const Label& label, milliseconds timeout, bool waitAllRanks) {
    const auto until = Clock::now() + timeout;
    std::vector<WorkPtr> reports;
    for (int peer = 1; peer < getSize(); ++peer)
      reports.push_back(monitorMessage(false, peer, label, timeout));
    std::vector<int> failed;
    std::string why;
    for (int peer = 1; peer < getSize(); ++peer) {
      try {
        const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
        reports[static_cast<size_t>(peer) - 1]->wait(std::max(left, milliseconds(1)));
      } catch (const std::exception& e) {
        failed.push_back(peer);
        why = e.what();
        if (!waitAllRanks) break;
      }
    }
    if (!failed.empty())
      C10_THROW_ERROR(
          DistBackendError,
          c10::str("[Rank 0]: Rank", failed.size() > 1 ? "s " : " ", c10::Join(", ", failed),
                   " failed to pass monitoredBarrier in ", timeout.count(), " ms\n", why));
    std::vector<WorkPtr> answers;
    for (int peer = 1; peer < getSize(); ++peer)
      answers.push_back(monitorMessage(true, peer, label, timeout));
    for (const auto& each : answers) each->wait();
  }

  void answerMonitor(const Label& label, milliseconds timeout) {
    try {
      const auto report = monitorMessage(true, 0, label, timeout);
      const auto answer = monitorMessage(false, 0, label, timeout);
      report->wait();
      answer->wait();
    } catch (const std::exception& e) {
      C10_THROW_ERROR(
          DistBackendError,
          c10::str("Rank ", getRank(),
                   " successfully reached monitoredBarrier, but received errors while waiting",
                   " for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n",
                   e.what()));
    }
  }

  // Operations that are under way end by their deadlines.
  void shutDown() {
    Parts last;
    {
      std::lock_guard lock(partsMutex_);
      last = std::exchange(parts_, {});
    }
    if (!last.host) return;
    queue_->close();
    last.messages->close(Clock::now() + std::min<milliseconds>(options_->timeout, kFarewell));
  }

  static constexpr milliseconds kFarewell = std::chrono::seconds(20);
  static constexpr milliseconds kGrace = std::chrono::seconds(1);

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;
  const milliseconds setup_;  // of a message's connection, once both ranks are there
  const StoreRendezvous rendezvous_;
  const std::shared_ptr<JobQueue> queue_;
  mutable std::mutex partsMutex_;
  Parts parts_;
  std::atomic<uint64_t> sequence_{0};
  uint64_t monitored_ = 0;
  int gpus_ = 0;
  int extensions_ = 0;
};

/// PyTorch's own way from C++ to Python: a group that carries the Store there, and the backend
/// back.
struct Carrier : c10d::ProcessGroup {
  static c10::intrusive_ptr<c10d::Store> storeOf(const c10d::ProcessGroup& group) {
    return group.*(&Carrier::store_);
  }
};

void install(const c10::intrusive_ptr<c10d::ProcessGroup>& carrier, int64_t timeoutMs) {
  try {
    carrier->setBackend(at::kCPU, c10d::ProcessGroup::CUSTOM,
                        c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<TuttiBackend>(
                            Carrier::storeOf(*carrier), carrier->getRank(), carrier->getSize(),
                            milliseconds(timeoutMs))));
  } catch (const tutti::Error&) {
    std::rethrow_exception(translated(std::current_exception()));
  }
}

}  // namespace

TORCH_LIBRARY(tutti, library) {
  library.def("install(__torch__.torch.classes.c10d.ProcessGroup carrier, int timeout_ms) -> ()",
              &install);
}

}  // namespace tutti_torch
