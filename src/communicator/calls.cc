// The public class's calls: arguments become work, which is started at once or kept for later.

#include <variant>

#include <tutti/communicator.h>

#include "src/communicator/arguments.h"
#include "src/communicator/host_backend.h"
#include "src/communicator/one_sided/one_sided_work.h"
#include "src/communicator/one_sided/window.h"
#include "src/communicator/operation_work.h"
#include "src/communicator/operations.h"
#include "src/communicator/request.h"
#include "src/communicator/state.h"

namespace tutti {

using communicator::OneSidedWork;
using communicator::OperationWork;
using executor::CollectiveCall;
using plan::Collective;

namespace {

const std::byte* bytes(const void* p) { return static_cast<const std::byte*>(p); }
std::byte* bytes(void* p) { return static_cast<std::byte*>(p); }

/// What all arguments have; the caller adds what is special.
template <class Args>
CollectiveCall callOf(Collective collective, const Args& a) {
  CollectiveCall call{.facts = {.collective = collective, .type = a.type},
                      .in = bytes(a.send),
                      .out = bytes(a.recv)};
  if constexpr (requires { a.count; }) call.facts.count = a.count;
  if constexpr (requires { a.root; }) call.facts.root = a.root;
  if constexpr (requires { a.options; })
    if (a.options.algorithm || a.options.gpuBlocks != 0)
      call.wishes = communicator::wishesOf(a.options);
  if constexpr (requires { a.op; }) {
    call.facts.op = a.op;
    call.scalar = a.scalar;
    call.scalarAt = a.op == ReduceOp::PreMulSum && !a.reduction ? a.scalarAt : nullptr;
    call.reduction = a.reduction;
  }
  return call;
}

OperationWork make(Communicator::Impl& c, const AllReduceArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::AllReduce, a));
}
OperationWork make(Communicator::Impl& c, const ReduceArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::Reduce, a));
}
OperationWork make(Communicator::Impl& c, const BroadcastArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::Broadcast, a));
}
OperationWork make(Communicator::Impl& c, const AllGatherArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::AllGather, a));
}
OperationWork make(Communicator::Impl& c, const ReduceScatterArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::ReduceScatter, a));
}
OperationWork make(Communicator::Impl& c, const AllGatherVArgs& a) {
  return communicator::makeCollective(
      c.shared(),
      communicator::withBlocks(callOf(Collective::AllGather, a), c.caller(), a.counts, a.offsets));
}
OperationWork make(Communicator::Impl& c, const ReduceScatterVArgs& a) {
  return communicator::makeCollective(
      c.shared(), communicator::withBlocks(callOf(Collective::ReduceScatter, a), c.caller(),
                                           a.counts, a.offsets));
}
OperationWork make(Communicator::Impl& c, const GatherArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::Gather, a));
}
OperationWork make(Communicator::Impl& c, const ScatterArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::Scatter, a));
}
OperationWork make(Communicator::Impl& c, const AllToAllArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::AllToAll, a));
}
OperationWork make(Communicator::Impl& c, const ScanArgs& a) {
  return communicator::makeCollective(c.shared(), callOf(Collective::Scan, a));
}
OperationWork make(Communicator::Impl& c, const BarrierArgs&) {
  return communicator::makeCollective(c.shared(), {.facts = {.collective = Collective::Barrier}});
}
OperationWork make(Communicator::Impl& c, const SendArgs& a) {
  return communicator::makeExchange(
      c.shared(),
      {.sends = {communicator::transferOf("send", c.caller(), a.send, a.count, a.type, a.peer)}});
}
OperationWork make(Communicator::Impl& c, const ReceiveArgs& a) {
  return communicator::makeExchange(
      c.shared(), {.receives = {communicator::transferOf("recv", c.caller(), a.recv, a.count,
                                                         a.type, a.peer)}});
}
OneSidedWork make(Communicator::Impl& c, const SignalArgs& a) {
  return communicator::makeSignal(c.shared(), a);
}
OneSidedWork make(Communicator::Impl& c, const WaitSignalsArgs& a) {
  return communicator::makeWait(c.shared(), a);
}
OperationWork make(Communicator::Impl& c, const AllToAllVArgs& a) {
  return communicator::makeExchange(
      c.shared(), {.sends = communicator::transfersOf("send", c.caller(), a.send, a.sendCounts,
                                                      a.sendOffsets, a.type),
                   .receives = communicator::transfersOf("recv", c.caller(), a.recv, a.recvCounts,
                                                         a.recvOffsets, a.type)});
}

}  // namespace

struct PreparedCall::Impl {
  std::variant<OperationWork, OneSidedWork> work;  // without a number; each start makes a copy
};

PreparedCall::PreparedCall(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreparedCall::~PreparedCall() = default;
PreparedCall::PreparedCall(PreparedCall&&) noexcept = default;
PreparedCall& PreparedCall::operator=(PreparedCall&&) noexcept = default;

void PreparedCall::start(StreamRef stream) {
  std::visit(
      [&](const auto& work) {
        work.owners().host.requireUsable();
        communicator::start(work.copy(), stream);
      },
      impl_->work);
}

#define TUTTI_CALL(method, Args)                                                       \
  void Communicator::method(const Args& args, StreamRef stream) {                      \
    impl_->host.requireUsable();                                                       \
    communicator::start(make(*impl_, args), stream);                                   \
  }                                                                                    \
  PreparedCall Communicator::prepare(const Args& args) {                               \
    impl_->host.requireUsable();                                                       \
    return PreparedCall(                                                               \
        std::make_unique<PreparedCall::Impl>(PreparedCall::Impl{make(*impl_, args)})); \
  }
TUTTI_CALL(allReduce, AllReduceArgs)
TUTTI_CALL(reduce, ReduceArgs)
TUTTI_CALL(broadcast, BroadcastArgs)
TUTTI_CALL(allGather, AllGatherArgs)
TUTTI_CALL(reduceScatter, ReduceScatterArgs)
TUTTI_CALL(allGatherV, AllGatherVArgs)
TUTTI_CALL(reduceScatterV, ReduceScatterVArgs)
TUTTI_CALL(gather, GatherArgs)
TUTTI_CALL(scatter, ScatterArgs)
TUTTI_CALL(allToAll, AllToAllArgs)
TUTTI_CALL(scan, ScanArgs)
TUTTI_CALL(send, SendArgs)
TUTTI_CALL(receive, ReceiveArgs)
TUTTI_CALL(allToAllV, AllToAllVArgs)
TUTTI_CALL(signal, SignalArgs)
TUTTI_CALL(waitSignals, WaitSignalsArgs)
#undef TUTTI_CALL

void Communicator::barrier(StreamRef stream) {
  impl_->host.requireUsable();
  communicator::start(make(*impl_, BarrierArgs{}), stream);
}

PreparedCall Communicator::prepare(const BarrierArgs& args) {
  impl_->host.requireUsable();
  return PreparedCall(std::make_unique<PreparedCall::Impl>(PreparedCall::Impl{make(*impl_, args)}));
}

// Nobody but a communicator sees what a window stands for.

void Communicator::put(const PutArgs& args, StreamRef stream) {
  impl_->host.requireUsable();
  Window::Impl* const window = args.window ? args.window->impl_.get() : nullptr;
  communicator::start(communicator::makePut(impl_->shared(), args, window), stream);
}

PreparedCall Communicator::prepare(const PutArgs& args) {
  impl_->host.requireUsable();
  Window::Impl* const window = args.window ? args.window->impl_.get() : nullptr;
  return PreparedCall(std::make_unique<PreparedCall::Impl>(
      PreparedCall::Impl{communicator::makePut(impl_->shared(), args, window)}));
}

Window Communicator::window(void* buffer, size_t bytes) {
  impl_->host.requireUsable();
  TUTTI_REQUIRE(buffer || bytes == 0, "window: buffer is null with ", bytes, " bytes");
  return Window(std::make_shared<Window::Impl>(impl_->shared(), buffer, bytes));
}

}  // namespace tutti
