// Windows, puts, signals and waits for signals.

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/python/arguments.h"
#include "src/python/communicator.h"

namespace nb = nanobind;

namespace tutti::python {

namespace {

using Self = const CommunicatorOfPython&;

/// This rank's share of a window, with its buffer.
class WindowOfPython {
 public:
  WindowOfPython(Window window, ArrayBuffer buffer)
      : buffer_(std::move(buffer)), window_(new Window(std::move(window))) {}

  const Window& open() const {
    if (!window_)
      throw Error(ErrorCode::InvalidUsage, "this window is closed; close it after the last put");
    return *window_;
  }
  void close() {
    window_.reset();
    buffer_ = ArrayBuffer();
  }
  size_t bytes(int rank) const {
    const Window& window = open();
    const InterruptibleWait waiting;
    return window.bytes(rank);
  }

 private:
  ArrayBuffer buffer_;
  std::unique_ptr<Window, DeleteWithoutGil> window_;  // the first to go: others write to the buffer
};

WindowOfPython window(Self self, nb::handle object, const std::string& dtype) {
  const auto from = self.open();
  return onRank(self.rank(), [&] {
    ArrayBuffer buffer(object, {"buffer", true}, dtype);
    return WindowOfPython(from->window({buffer.data(), buffer.count() * sizeOf(buffer.type())}),
                          std::move(buffer));
  });
}

nb::object put(Self self, nb::handle how, const std::string& dtype, nb::handle from, int peer,
               const WindowOfPython& window, size_t offset, int signal) {
  return onRank(self.rank(), [&] {
    ArrayBuffer send = sendBuffer(from, dtype);
    const PutArgs args{.send = send.data(),
                       .count = send.count(),
                       .type = send.type(),
                       .peer = peer,
                       .window = &window.open(),
                       .offset = offset,
                       .signal = signal};
    return self.issue(args, {std::move(send)}, how);
  });
}

nb::object signal(Self self, nb::handle how, int peer, int signal) {
  return onRank(self.rank(),
                [&] { return self.issue(SignalArgs{.peer = peer, .signal = signal}, {}, how); });
}

nb::object waitSignals(Self self, nb::handle how,
                       const std::vector<std::tuple<int, int, uint64_t>>& wanted) {
  std::vector<AwaitedSignals> signals;
  for (const auto& [peer, signal, count] : wanted) signals.push_back({peer, signal, count});
  return onRank(self.rank(),
                [&] { return self.issue(WaitSignalsArgs{.signals = signals}, {}, how); });
}

}  // namespace

void registerOneSided(nb::module_& m, CommunicatorClass& c) {
  nb::class_<WindowOfPython>(m, "Window")
      .def("bytes", &WindowOfPython::bytes)
      .def("close", &WindowOfPython::close);
  c.def("window", &window)
      .def("put", &put, nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg())
      .def("signal", &signal, nb::arg().none(), nb::arg(), nb::arg())
      .def("wait_signals", &waitSignals, nb::arg().none(), nb::arg());
}

}  // namespace tutti::python
