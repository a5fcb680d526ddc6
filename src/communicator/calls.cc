// The public class's calls: arguments become work, which is started at once or kept for later.

#include <utility>
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

/// Whose size says how many elements there are, if the caller does not.
communicator::NamedBuffer countedIn(Collective collective, const ConstBuffer& send,
                                    const ConstBuffer& recv) {
  const bool byRecv = collective == Collective::Broadcast || collective == Collective::Scatter ||
                      collective == Collective::ReduceScatter;
  return byRecv ? communicator::NamedBuffer{"recv", recv} : communicator::NamedBuffer{"send", send};
}

/// What all arguments have.
template <class Args>
CollectiveCall callOf(Collective collective, communicator::Caller by, const Args& a) {
  const char* name = plan::toString(collective);
  CollectiveCall call{.facts = {.collective = collective},
                      .in = static_cast<const std::byte*>(a.send.data()),
                      .out = static_cast<std::byte*>(a.recv.data())};
  ConstBuffer scalarAt;
  if constexpr (requires { a.op; }) {
    if (a.op == ReduceOp::PreMulSum && !a.reduction) scalarAt = a.scalarAt;
    call.facts.op = a.op;
    call.scalar = a.scalar;
    call.scalarAt = scalarAt.data();
    call.reduction = a.reduction;
  }
  const communicator::NamedBuffer buffers[] = {
      {"send", a.send}, {"recv", a.recv}, {"scalarAt", scalarAt}};
  call.facts.type = communicator::typeOf(name, a.type, buffers);
  if constexpr (requires { a.count; })
    call.facts.count = communicator::countOf(
        name, a.count, countedIn(collective, a.send, a.recv),
        collective == Collective::AllToAll ? static_cast<size_t>(by.size) : 1, call.facts.type);
  if constexpr (requires { a.root; }) call.facts.root = a.root;
  if (a.options.algorithm || a.options.gpuBlocks != 0)
    call.wishes = communicator::wishesOf(a.options);
  if constexpr (requires { a.counts; })
    call = communicator::withBlocks(std::move(call), by, a.counts, a.offsets);
  communicator::requireScalar(call, scalarAt);
  if (a.send.bytes() || a.recv.bytes()) communicator::requireRoom(call, by, a.send, a.recv);
  return call;
}

template <class Args>
OperationWork collective(Communicator::Impl& c, Collective collective, const Args& a) {
  return communicator::makeCollective(c.shared(), callOf(collective, c.caller(), a));
}

OperationWork make(Communicator::Impl& c, const AllReduceArgs& a) {
  return collective(c, Collective::AllReduce, a);
}
OperationWork make(Communicator::Impl& c, const ReduceArgs& a) {
  return collective(c, Collective::Reduce, a);
}
OperationWork make(Communicator::Impl& c, const BroadcastArgs& a) {
  return collective(c, Collective::Broadcast, a);
}
OperationWork make(Communicator::Impl& c, const AllGatherArgs& a) {
  return collective(c, Collective::AllGather, a);
}
OperationWork make(Communicator::Impl& c, const ReduceScatterArgs& a) {
  return collective(c, Collective::ReduceScatter, a);
}
OperationWork make(Communicator::Impl& c, const AllGatherVArgs& a) {
  return collective(c, Collective::AllGather, a);
}
OperationWork make(Communicator::Impl& c, const ReduceScatterVArgs& a) {
  return collective(c, Collective::ReduceScatter, a);
}
OperationWork make(Communicator::Impl& c, const GatherArgs& a) {
  return collective(c, Collective::Gather, a);
}
OperationWork make(Communicator::Impl& c, const ScatterArgs& a) {
  return collective(c, Collective::Scatter, a);
}
OperationWork make(Communicator::Impl& c, const AllToAllArgs& a) {
  return collective(c, Collective::AllToAll, a);
}
OperationWork make(Communicator::Impl& c, const ScanArgs& a) {
  return collective(c, Collective::Scan, a);
}
OperationWork make(Communicator::Impl& c, const BarrierArgs&) {
  return communicator::makeCollective(c.shared(), {.facts = {.collective = Collective::Barrier}});
}
OperationWork make(Communicator::Impl& c, const SendArgs& a) {
  return communicator::makeExchange(
      c.shared(), {.sends = {communicator::transferOf("send", c.caller(), {"send", a.send}, a.count,
                                                      a.type, a.peer)}});
}
OperationWork make(Communicator::Impl& c, const ReceiveArgs& a) {
  return communicator::makeExchange(
      c.shared(), {.receives = {communicator::transferOf("recv", c.caller(), {"recv", a.recv},
                                                         a.count, a.type, a.peer)}});
}
OneSidedWork make(Communicator::Impl& c, const SignalArgs& a) {
  return communicator::makeSignal(c.shared(), a);
}
OneSidedWork make(Communicator::Impl& c, const WaitSignalsArgs& a) {
  return communicator::makeWait(c.shared(), a);
}
OperationWork make(Communicator::Impl& c, const AllToAllVArgs& a) {
  const communicator::NamedBuffer buffers[] = {{"send", a.send}, {"recv", a.recv}};
  const DataType type = communicator::typeOf("alltoallv", a.type, buffers);
  return communicator::makeExchange(
      c.shared(), {.sends = communicator::transfersOf(buffers[0], c.caller(), a.sendCounts,
                                                      a.sendOffsets, type),
                   .receives = communicator::transfersOf(buffers[1], c.caller(), a.recvCounts,
                                                         a.recvOffsets, type)});
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

Window Communicator::window(MutableBuffer buffer) {
  impl_->host.requireUsable();
  const size_t bytes = buffer.bytes().value_or(0);
  TUTTI_REQUIRE(buffer.data() || bytes == 0, "window: buffer is null with ", bytes, " bytes");
  TUTTI_REQUIRE(!buffer.data() || buffer.bytes(),
                "window: buffer has no size: give a span, or {pointer, count}");
  return Window(std::make_shared<Window::Impl>(impl_->shared(), buffer.data(), bytes));
}

}  // namespace tutti
