// The collectives of equal blocks. Python's objects become arguments, which are checked here as far
// as C++ cannot: the sizes of buffers, and their types.

#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "src/python/arguments.h"
#include "src/python/communicator.h"

namespace nb = nanobind;

namespace tutti::python {

namespace {

/// What all collectives have; the order of Python's positional arguments.
struct Common {
  const CommunicatorOfPython& self;
  nb::handle how;
  std::string dtype, algorithm;
};

struct Reducing {
  std::string op;
  double scalar;
};

/// Every rank gives as much as it gets: AllReduce and Scan.
template <class Args>
nb::object reduceForAll(const Common& c, nb::handle from, nb::handle to, const Reducing& reducing) {
  ArrayBuffer send = sendBuffer(from, c.dtype), recv = recvBuffer(to, c.dtype);
  requireSameType(send, recv);
  requireCount("recv", recv, send.count(), "as many as send has");
  const Args args{.send = send.data(),
                  .recv = recv.data(),
                  .count = send.count(),
                  .type = send.type(),
                  .op = opOf(reducing.op, send),
                  .scalar = reducing.scalar,
                  .options = optionsOfCall(c.algorithm)};
  return c.self.issue(args, {std::move(send), std::move(recv)}, c.how);
}

nb::object reduce(const Common& c, nb::handle from, nb::handle to, const Reducing& reducing,
                  int root) {
  const bool isRoot = c.self.rank() == root;
  ArrayBuffer send = sendBuffer(from, c.dtype),
              recv = isRoot ? recvBuffer(to, c.dtype) : ArrayBuffer();
  if (isRoot) {
    requireSameType(send, recv);
    requireCount("recv", recv, send.count(), "as many as send has");
  }
  const ReduceArgs args{.send = send.data(),
                        .recv = recv.data(),
                        .count = send.count(),
                        .type = send.type(),
                        .op = opOf(reducing.op, send),
                        .scalar = reducing.scalar,
                        .root = root,
                        .options = optionsOfCall(c.algorithm)};
  return c.self.issue(args, {std::move(send), std::move(recv)}, c.how);
}

nb::object broadcast(const Common& c, nb::handle object, int root) {
  ArrayBuffer buffer(object, {"buffer", c.self.rank() != root}, c.dtype);
  const BroadcastArgs args{.send = buffer.data(),
                           .recv = buffer.data(),
                           .count = buffer.count(),
                           .type = buffer.type(),
                           .root = root,
                           .options = optionsOfCall(c.algorithm)};
  return c.self.issue(args, {std::move(buffer)}, c.how);
}

nb::object allGather(const Common& c, nb::handle from, nb::handle to) {
  ArrayBuffer send = sendBuffer(from, c.dtype), recv = recvBuffer(to, c.dtype);
  requireSameType(send, recv);
  requireCount("recv", recv, send.count() * static_cast<size_t>(c.self.size()),
               "the elements of send, times the number of ranks");
  const AllGatherArgs args{.send = send.data(),
                           .recv = recv.data(),
                           .count = send.count(),
                           .type = send.type(),
                           .options = optionsOfCall(c.algorithm)};
  return c.self.issue(args, {std::move(send), std::move(recv)}, c.how);
}

nb::object reduceScatter(const Common& c, nb::handle from, nb::handle to,
                         const Reducing& reducing) {
  ArrayBuffer send = sendBuffer(from, c.dtype), recv = recvBuffer(to, c.dtype);
  requireSameType(send, recv);
  requireCount("recv", recv, blockOf("send", send, c.self.size()),
               "the elements of send, divided by the number of ranks");
  const ReduceScatterArgs args{.send = send.data(),
                               .recv = recv.data(),
                               .count = recv.count(),
                               .type = send.type(),
                               .op = opOf(reducing.op, send),
                               .scalar = reducing.scalar,
                               .options = optionsOfCall(c.algorithm)};
  return c.self.issue(args, {std::move(send), std::move(recv)}, c.how);
}

nb::object gather(const Common& c, nb::handle from, nb::handle to, int root) {
  const bool isRoot = c.self.rank() == root;
  ArrayBuffer send = sendBuffer(from, c.dtype),
              recv = isRoot ? recvBuffer(to, c.dtype) : ArrayBuffer();
  if (isRoot) {
    requireSameType(send, recv);
    requireCount("recv", recv, send.count() * static_cast<size_t>(c.self.size()),
                 "the elements of send, times the number of ranks");
  }
  const GatherArgs args{.send = send.data(),
                        .recv = recv.data(),
                        .count = send.count(),
                        .type = send.type(),
                        .root = root,
                        .options = optionsOfCall(c.algorithm)};
  return c.self.issue(args, {std::move(send), std::move(recv)}, c.how);
}

nb::object scatter(const Common& c, nb::handle from, nb::handle to, int root) {
  const bool isRoot = c.self.rank() == root;
  ArrayBuffer send = isRoot ? sendBuffer(from, c.dtype) : ArrayBuffer(),
              recv = recvBuffer(to, c.dtype);
  if (isRoot) {
    requireSameType(send, recv);
    requireCount("recv", recv, blockOf("send", send, c.self.size()),
                 "the elements of send, divided by the number of ranks");
  }
  const ScatterArgs args{.send = send.data(),
                         .recv = recv.data(),
                         .count = recv.count(),
                         .type = recv.type(),
                         .root = root,
                         .options = optionsOfCall(c.algorithm)};
  return c.self.issue(args, {std::move(send), std::move(recv)}, c.how);
}

nb::object allToAll(const Common& c, nb::handle from, nb::handle to) {
  ArrayBuffer send = sendBuffer(from, c.dtype), recv = recvBuffer(to, c.dtype);
  requireSameType(send, recv);
  requireCount("recv", recv, send.count(), "as many as send has");
  const AllToAllArgs args{.send = send.data(),
                          .recv = recv.data(),
                          .count = blockOf("send", send, c.self.size()),
                          .type = send.type(),
                          .options = optionsOfCall(c.algorithm)};
  return c.self.issue(args, {std::move(send), std::move(recv)}, c.how);
}

using Self = const CommunicatorOfPython&;
using Text = const std::string&;

}  // namespace

// Each takes how, dtype and algorithm first; then buffers, and what is special. Errors of arguments
// know the rank.
void registerCollectives(CommunicatorClass& c) {
  const auto def = [&c](const char* name, auto function) {
    c.def(
        name,
        [function](Self self, nb::handle how, Text dtype, Text algorithm, nb::handle send,
                   nb::handle recv, Text op, double scalar, int root) {
          const Common common{self, how, dtype, algorithm};
          return onRank(self.rank(), [&] {
            return function(common, send, recv, Reducing{op, scalar}, root);
          });
        },
        nb::arg().none(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(),
        nb::arg(), nb::arg());
  };
  using C = const Common&;
  using R = const Reducing&;
  using H = nb::handle;
  def("all_reduce",
      [](C k, H s, H r, R red, int) { return reduceForAll<AllReduceArgs>(k, s, r, red); });
  def("reduce", [](C k, H s, H r, R red, int root) { return reduce(k, s, r, red, root); });
  def("broadcast", [](C k, H s, H, R, int root) { return broadcast(k, s, root); });
  def("all_gather", [](C k, H s, H r, R, int) { return allGather(k, s, r); });
  def("reduce_scatter", [](C k, H s, H r, R red, int) { return reduceScatter(k, s, r, red); });
  def("gather", [](C k, H s, H r, R, int root) { return gather(k, s, r, root); });
  def("scatter", [](C k, H s, H r, R, int root) { return scatter(k, s, r, root); });
  def("all_to_all", [](C k, H s, H r, R, int) { return allToAll(k, s, r); });
  def("scan", [](C k, H s, H r, R red, int) { return reduceForAll<ScanArgs>(k, s, r, red); });
  def("barrier", [](C k, H, H, R, int) { return k.self.issue(BarrierArgs{}, {}, k.how); });
}

}  // namespace tutti::python
