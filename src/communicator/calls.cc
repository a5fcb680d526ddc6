// The public class's calls: arguments become work, which is started at once or kept for later.

#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include <tutti/communicator.h>

#include "src/communicator/arguments.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/host/short_calls.h"
#include "src/communicator/one_sided/one_sided_work.h"
#include "src/communicator/one_sided/window.h"
#include "src/communicator/operation_work.h"
#include "src/communicator/operations.h"
#include "src/communicator/request.h"
#include "src/communicator/state.h"

namespace tutti {

using communicator::HostBackend;
using communicator::KnownCall;
using communicator::OneSidedWork;
using communicator::OperationWork;
using communicator::ShortCall;
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

/// What short calls know of a buffer.
uint64_t bytesOf(const ConstBuffer& buffer) { return buffer.bytes().value_or(UINT64_MAX); }

/// The call without a check of its arguments, where it asks for nothing that a short one has not.
template <class Args>
std::optional<ShortCall> shortCallOf(Collective collective, int ranks, const Args& a) {
  if (a.options.algorithm || a.options.gpuBlocks != 0) return std::nullopt;
  ShortCall call{.kind = {.collective = collective},
                 .in = static_cast<const std::byte*>(a.send.data()),
                 .out = static_cast<std::byte*>(a.recv.data()),
                 .inBytes = bytesOf(a.send),
                 .outBytes = bytesOf(a.recv)};
  if constexpr (requires { a.op; }) {
    if (a.op == ReduceOp::PreMulSum || a.reduction) return std::nullopt;
    call.kind.op = a.op;
  }
  if constexpr (requires { a.scalarAt; })
    if (a.scalarAt.data() || a.scalarAt.bytes()) return std::nullopt;
  if constexpr (requires { a.root; }) call.kind.root = a.root;
  auto type = a.type;
  for (const auto& its : {a.send.type(), a.recv.type()}) {
    if (its && type && its != type) return std::nullopt;
    if (its) type = its;
  }
  if (!type || static_cast<int>(*type) >= kDataTypeCount) return std::nullopt;
  call.kind.type = *type;
  if (a.count) {
    call.kind.count = *a.count;
  } else {
    const auto bytes = countedIn(collective, a.send, a.recv).memory.bytes();
    const uint64_t each =
        sizeOf(*type) * (collective == Collective::AllToAll ? static_cast<uint64_t>(ranks) : 1);
    if (!bytes || *bytes % each != 0) return std::nullopt;
    call.kind.count = *bytes / each;
  }
  return call;
}
std::optional<ShortCall> shortCallOf(Collective collective, int, const BarrierArgs&) {
  return ShortCall{.kind = {.collective = collective}};
}

/// The collective that these arguments are of; nothing of others.
template <class Args>
constexpr std::optional<Collective> kCollectiveOf = std::nullopt;
template <>
constexpr std::optional kCollectiveOf<AllReduceArgs> = Collective::AllReduce;
template <>
constexpr std::optional kCollectiveOf<ReduceArgs> = Collective::Reduce;
template <>
constexpr std::optional kCollectiveOf<BroadcastArgs> = Collective::Broadcast;
template <>
constexpr std::optional kCollectiveOf<AllGatherArgs> = Collective::AllGather;
template <>
constexpr std::optional kCollectiveOf<ReduceScatterArgs> = Collective::ReduceScatter;
template <>
constexpr std::optional kCollectiveOf<AllGatherVArgs> = Collective::AllGather;
template <>
constexpr std::optional kCollectiveOf<ReduceScatterVArgs> = Collective::ReduceScatter;
template <>
constexpr std::optional kCollectiveOf<GatherArgs> = Collective::Gather;
template <>
constexpr std::optional kCollectiveOf<ScatterArgs> = Collective::Scatter;
template <>
constexpr std::optional kCollectiveOf<AllToAllArgs> = Collective::AllToAll;
template <>
constexpr std::optional kCollectiveOf<ScanArgs> = Collective::Scan;
template <>
constexpr std::optional kCollectiveOf<BarrierArgs> = Collective::Barrier;

OperationWork make(Communicator::Impl& c, const BarrierArgs&) {
  return communicator::makeCollective(c.shared(), {.facts = {.collective = Collective::Barrier}});
}
template <class Args>
requires(kCollectiveOf<Args>.has_value()) OperationWork make(Communicator::Impl& c, const Args& a) {
  return communicator::makeCollective(c.shared(), callOf(*kCollectiveOf<Args>, c.caller(), a));
}
executor::Transfer transferOf(Communicator::Impl& c, const SendArgs& a) {
  return communicator::transferOf("send", c.caller(), {"send", a.send}, a.count, a.type, a.peer);
}
executor::Transfer transferOf(Communicator::Impl& c, const ReceiveArgs& a) {
  return communicator::transferOf("recv", c.caller(), {"recv", a.recv}, a.count, a.type, a.peer);
}
OperationWork make(Communicator::Impl& c, const SendArgs& a) {
  return communicator::makeExchange(c.shared(), {.sends = {transferOf(c, a)}});
}
OperationWork make(Communicator::Impl& c, const ReceiveArgs& a) {
  return communicator::makeExchange(c.shared(), {.receives = {transferOf(c, a)}});
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

/// The same call in the form in which it is short.
struct PreparedShortCall {
  ShortCall call;
  std::unique_ptr<KnownCall> known;
};

struct PreparedCall::Impl {
  std::variant<OperationWork, OneSidedWork> work;   // without a number; each start makes a copy
  std::optional<PreparedShortCall> shortForm = {};  // if it is
};

namespace {

template <class Args>
std::optional<ShortCall> shortCallOf(Communicator::Impl& c, const Args& args) {
  constexpr bool blocksAreAlike = !requires { args.counts; };
  if constexpr (kCollectiveOf<Args>.has_value() && blocksAreAlike)
    return shortCallOf(*kCollectiveOf<Args>, c.caller().size, args);
  return std::nullopt;
}

/// A send or a receive.
template <class Args>
bool ranTransfer(Communicator::Impl& c, const Args& args, bool isSend) {
  if (c.settings.device.kind != DeviceKind::Host) return false;
  const executor::Transfer transfer = transferOf(c, args);
  if (communicator::groupIsOpen()) return communicator::addToGroup(c, transfer, isSend);
  const std::span<const executor::Transfer> one(&transfer, 1);
  const auto share = [&] { return c.shared(); };
  return isSend ? communicator::ranShort(c.host, one, {}, share)
                : communicator::ranShort(c.host, {}, one, share);
}

/// Runs the call to its end here; false where it is not short, and nothing has happened.
template <class Args>
bool ranShort(Communicator::Impl& c, const Args& args) {
  if (communicator::groupIsOpen()) return false;
  const auto call = shortCallOf(c, args);
  if (!call) return false;
  const auto run = c.host.runShort(*call);
  if (run.known && !run.isDone) communicator::finish(c.shared(), {*call, run});
  return run.known != nullptr;
}

template <class Args>
void issue(Communicator::Impl& c, const Args& args, StreamRef stream) {
  c.host.requireUsable();
  if (!stream && ranShort(c, args)) return;
  constexpr bool isSend = std::is_same_v<Args, SendArgs>;
  if constexpr (isSend || std::is_same_v<Args, ReceiveArgs>)
    if (!stream && ranTransfer(c, args, isSend)) return;
  communicator::start(make(c, args), stream);
}

/// Of the work that these arguments have become.
template <class Args, class Work>
std::optional<PreparedShortCall> shortFormOf(Communicator::Impl& c, const Args& args,
                                             const Work& work) {
  if constexpr (kCollectiveOf<Args>.has_value()) {
    const auto call = shortCallOf(c, args);
    auto known = call ? work.know() : nullptr;
    if (known && known->fits(*call)) return PreparedShortCall{*call, std::move(known)};
  }
  return std::nullopt;
}

}  // namespace

PreparedCall::PreparedCall(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreparedCall::~PreparedCall() = default;
PreparedCall::PreparedCall(PreparedCall&&) noexcept = default;
PreparedCall& PreparedCall::operator=(PreparedCall&&) noexcept = default;

void PreparedCall::start(StreamRef stream) {
  std::visit(
      [&](const auto& work) {
        HostBackend& host = work.owners().host;
        host.requireUsable();
        if (impl_->shortForm && !stream && !communicator::groupIsOpen()) {
          const auto& [call, known] = *impl_->shortForm;
          const auto run = host.runShort(*known, call);
          if (run.known && !run.isDone) communicator::finish(work.share(), {call, run});
          if (run.known) return;
        }
        communicator::start(work.copy(), stream);
      },
      impl_->work);
}

#define TUTTI_CALL(method, Args)                                                                 \
  void Communicator::method(const Args& args, StreamRef stream) { issue(*impl_, args, stream); } \
  PreparedCall Communicator::prepare(const Args& args) {                                         \
    impl_->host.requireUsable();                                                                 \
    auto work = make(*impl_, args);                                                              \
    auto shortForm = shortFormOf(*impl_, args, work);                                            \
    return PreparedCall(std::make_unique<PreparedCall::Impl>(                                    \
        PreparedCall::Impl{std::move(work), std::move(shortForm)}));                             \
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

void Communicator::barrier(StreamRef stream) { issue(*impl_, BarrierArgs{}, stream); }

PreparedCall Communicator::prepare(const BarrierArgs& args) {
  impl_->host.requireUsable();
  auto work = make(*impl_, args);
  auto shortForm = shortFormOf(*impl_, args, work);
  return PreparedCall(std::make_unique<PreparedCall::Impl>(
      PreparedCall::Impl{std::move(work), std::move(shortForm)}));
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
