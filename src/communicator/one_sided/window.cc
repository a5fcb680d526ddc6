// Windows, and the arguments of one-sided calls as the values that work on them.

#include "src/communicator/one_sided/window.h"

#include <limits>
#include <utility>
#include <vector>

#include <tutti/communicator.h>

#include "src/base/check.h"
#include "src/base/integers.h"
#include "src/communicator/arguments.h"
#include "src/communicator/host/host_backend.h"
#include "src/communicator/membership.h"
#include "src/communicator/one_sided/one_sided_work.h"
#include "src/communicator/placement.h"
#include "src/communicator/settings.h"
#include "src/device/cuda.h"

namespace tutti {

using communicator::CallBuffer;
using communicator::CallPlacement;
using communicator::OneSided;
using communicator::OneSidedCall;
using communicator::OneSidedWork;
using communicator::Owners;
using communicator::Put;

namespace {

/// A buffer of a window is memory of the host or of this rank's GPU.
bool isOfGpu(const Owners& c, const void* data, uint64_t bytes) {
  TUTTI_REQUIRE(bytes <= UINTPTR_MAX - reinterpret_cast<uintptr_t>(data), "window: ", bytes,
                " bytes at ", data, " are more than there can be");
  const CallBuffer buffer{"buffer", data, bytes};
  const bool isGpu = communicator::placementOf("window", {&buffer, 1}, c.settings.device).side ==
                     CallPlacement::Side::Gpu;
  if (isGpu && bytes > 0)
    TUTTI_REQUIRE(
        device::placeOf(data) == device::placeOf(static_cast<const std::byte*>(data) + bytes - 1),
        "window: ", bytes, " bytes at ", data, " go beyond ",
        device::describe(device::placeOf(data)));
  return isGpu;
}

}  // namespace

Window::Impl::Impl(std::shared_ptr<const Owners> its, void* buffer, uint64_t size)
    : owners(std::move(its)),
      data(buffer),
      bytes(size),
      number(owners->oneSided.open(buffer, size, isOfGpu(*owners, buffer, size))) {}

Window::Impl::~Impl() {
  if (!owners->who.inForkedChild()) owners->oneSided.close(number);
}

std::shared_ptr<std::byte> Window::Impl::addressOf(int rank, const OneSided::Buffer& buffer) {
  if (buffer.given) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto [known, isNew] = addresses_.try_emplace(rank);
  if (isNew) known->second = owners->oneSided.addressOf(rank, buffer);
  return known->second;
}

Window::Window(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Window::~Window() = default;
Window::Window(Window&&) noexcept = default;
Window& Window::operator=(Window&&) noexcept = default;

void* Window::buffer() const { return impl_->data; }
int Window::rank() const { return impl_->owners->who.rank(); }

namespace {

void requireRank(const char* what, const Owners& c, int rank) {
  TUTTI_REQUIRE(rank >= 0 && rank < c.who.size(), what, ": peer ", rank, " is not a rank of 0..",
                c.who.size() - 1);
}

}  // namespace

size_t Window::bytes(int rank) const {
  requireRank("Window::bytes", *impl_->owners, rank);
  return impl_->owners->oneSided.bufferOf(rank, impl_->number).bytes;
}

void* Window::address(int rank) const {
  requireRank("Window::address", *impl_->owners, rank);
  return impl_->addressOf(rank, impl_->owners->oneSided.bufferOf(rank, impl_->number)).get();
}

namespace {

void requireCommon(const char* what, const Owners& c, int peer, int signal) {
  requireRank(what, c, peer);
  TUTTI_REQUIRE(signal >= 0 && std::cmp_less(signal, c.settings.signals), what, ": signal ", signal,
                " is not one of 0..", c.settings.signals - 1,
                ": CommunicatorOptions::signals says how many there are");
  if (!c.oneSided.hasWindows())
    base::fail(ErrorCode::InvalidUsage, what,
               " needs a window: all ranks call window() first; its buffer may be empty");
}

}  // namespace

OneSidedWork communicator::makePut(std::shared_ptr<const Owners> owners, const PutArgs& args,
                                   Window::Impl* window) {
  const Owners& c = *owners;
  TUTTI_REQUIRE(window, "put: window is null, or none");
  TUTTI_REQUIRE(window->owners.get() == &c, "put: the window is of another communicator");
  requireCommon("put", c, args.peer, args.signal);
  const executor::Transfer data = transferOf("put", {c.who.rank(), c.who.size()},
                                             {"send", args.send}, args.count, args.type, args.peer);
  const OneSided::Buffer buffer = c.oneSided.bufferOf(args.peer, window->number);
  if (buffer.given)
    base::fail(ErrorCode::InvalidUsage, "put: ", c.who.name(args.peer),
               " has given its buffer in the window back");
  TUTTI_REQUIRE(args.offset <= buffer.bytes && data.bytes <= buffer.bytes - args.offset,
                "put: ", data.bytes, " bytes at offset ", args.offset,
                " do not fit into the buffer of ", c.who.name(args.peer), ", which has ",
                buffer.bytes, " bytes");
  const CallBuffer send{"send", data.data, data.bytes};
  const CallPlacement placement = placementOf("put", {&send, 1}, c.settings.device);
  Put put{.peer = args.peer,
          .window = window->number,
          .data = data.data,
          .bytes = data.bytes,
          .offset = args.offset,
          .signal = static_cast<uint32_t>(args.signal),
          .ofGpu = placement.side == CallPlacement::Side::Gpu};
  if (args.peer != c.who.rank()) put.direct = window->addressOf(args.peer, buffer);
  if (put.direct) {
    put.direct = {put.direct, put.direct.get() + args.offset};
    put.toGpu = buffer.ofGpu;
  }
  return {std::move(owners), {.puts = {std::move(put)}}, placement};
}

OneSidedWork communicator::makeSignal(std::shared_ptr<const Owners> owners,
                                      const SignalArgs& args) {
  requireCommon("signal", *owners, args.peer, args.signal);
  const CallPlacement placement = placementOf("signal", {}, owners->settings.device);
  const Put signal{.peer = args.peer, .signal = static_cast<uint32_t>(args.signal)};
  return {std::move(owners), {.puts = {signal}}, placement};
}

OneSidedWork communicator::makeWait(std::shared_ptr<const Owners> owners,
                                    const WaitSignalsArgs& args) {
  OneSidedCall call;
  for (const AwaitedSignals& awaited : args.signals) {
    requireCommon("waitSignals", *owners, awaited.peer, awaited.signal);
    TUTTI_REQUIRE(awaited.count <= std::numeric_limits<int64_t>::max(), "waitSignals: count ",
                  awaited.count);
    call.waits.push_back({awaited.peer, static_cast<uint32_t>(awaited.signal), awaited.count});
  }
  const CallPlacement placement = placementOf("waitSignals", {}, owners->settings.device);
  return {std::move(owners), std::move(call), placement};
}

}  // namespace tutti
