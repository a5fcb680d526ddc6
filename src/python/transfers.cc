// Sends, receives, and the collectives of blocks that differ in size.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "src/python/arguments.h"
#include "src/python/communicator.h"

namespace nb = nanobind;

namespace tutti::python {

namespace {

using Self = const CommunicatorOfPython&;
using Text = const std::string&;
using Sizes = const std::vector<size_t>&;

/// The elements of this rank's block.
size_t mine(Self self, Sizes counts) { return counts.at(static_cast<size_t>(self.rank())); }

nb::object allGatherV(Self self, nb::handle how, Text dtype, Text algorithm, nb::handle from,
                      nb::handle to, Sizes counts, Sizes offsets) {
  return onRank(self.rank(), [&] {
    ArrayBuffer send = sendBuffer(from, dtype), recv = recvBuffer(to, dtype);
    requireSameType(send, recv);
    requireBlocks("recv", recv, counts, offsets, self.size());
    requireCount("send", send, mine(self, counts), "this rank's count");
    const AllGatherVArgs args{.send = send.data(),
                              .recv = recv.data(),
                              .counts = counts,
                              .offsets = offsets,
                              .type = send.type(),
                              .options = optionsOfCall(algorithm)};
    return self.issue(args, {std::move(send), std::move(recv)}, how);
  });
}

nb::object reduceScatterV(Self self, nb::handle how, Text dtype, Text algorithm, nb::handle from,
                          nb::handle to, Sizes counts, Sizes offsets, Text op, double scalar) {
  return onRank(self.rank(), [&] {
    ArrayBuffer send = sendBuffer(from, dtype), recv = recvBuffer(to, dtype);
    requireSameType(send, recv);
    requireBlocks("send", send, counts, offsets, self.size());
    requireCount("recv", recv, mine(self, counts), "this rank's count");
    const ReduceScatterVArgs args{.send = send.data(),
                                  .recv = recv.data(),
                                  .counts = counts,
                                  .offsets = offsets,
                                  .type = send.type(),
                                  .op = opOf(op, send),
                                  .scalar = scalar,
                                  .options = optionsOfCall(algorithm)};
    return self.issue(args, {std::move(send), std::move(recv)}, how);
  });
}

nb::object allToAllV(Self self, nb::handle how, Text dtype, nb::handle from, Sizes sendCounts,
                     Sizes sendOffsets, nb::handle to, Sizes recvCounts, Sizes recvOffsets) {
  return onRank(self.rank(), [&] {
    ArrayBuffer send = sendBuffer(from, dtype), recv = recvBuffer(to, dtype);
    requireSameType(send, recv);
    requireBlocks("send", send, sendCounts, sendOffsets, self.size());
    requireBlocks("recv", recv, recvCounts, recvOffsets, self.size());
    const AllToAllVArgs args{.send = send.data(),
                             .sendCounts = sendCounts,
                             .sendOffsets = sendOffsets,
                             .recv = recv.data(),
                             .recvCounts = recvCounts,
                             .recvOffsets = recvOffsets,
                             .type = send.type()};
    return self.issue(args, {std::move(send), std::move(recv)}, how);
  });
}

nb::object send(Self self, nb::handle how, Text dtype, nb::handle from, int peer) {
  return onRank(self.rank(), [&] {
    ArrayBuffer buffer = sendBuffer(from, dtype);
    const SendArgs args{
        .send = buffer.data(), .count = buffer.count(), .type = buffer.type(), .peer = peer};
    return self.issue(args, {std::move(buffer)}, how);
  });
}

nb::object receive(Self self, nb::handle how, Text dtype, nb::handle to, int peer) {
  return onRank(self.rank(), [&] {
    ArrayBuffer buffer = recvBuffer(to, dtype);
    const ReceiveArgs args{
        .recv = buffer.data(), .count = buffer.count(), .type = buffer.type(), .peer = peer};
    return self.issue(args, {std::move(buffer)}, how);
  });
}

}  // namespace

// None for `how` means that the call waits, and is no missing argument.
void registerTransfers(CommunicatorClass& c) {
  c.def("all_gather_v", &allGatherV, nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg(), nb::arg())
      .def("reduce_scatter_v", &reduceScatterV, nb::arg().none(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg())
      .def("all_to_all_v", &allToAllV, nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg(), nb::arg(), nb::arg())
      .def("send", &send, nb::arg().none(), nb::arg(), nb::arg(), nb::arg())
      .def("receive", &receive, nb::arg().none(), nb::arg(), nb::arg(), nb::arg());
}

}  // namespace tutti::python
