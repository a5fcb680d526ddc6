// Windows, puts, signals and waits for signals.

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
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

/// A window and its buffer, which other ranks write to as long as the window lives.
struct WindowAndBuffer {
  ArrayBuffer buffer;
  std::shared_ptr<Window> window;  // the first to go
};

/// This rank's share of a window.
class WindowOfPython final : public EndsWithCommunicator {
 public:
  WindowOfPython(Window window, ArrayBuffer buffer)
      : held_{std::move(buffer), {new Window(std::move(window)), DeleteWithoutGil()}} {}

  const Window& open() const {
    if (!held_.window)
      throw Error(ErrorCode::InvalidUsage, "this window is closed; close it after the last put");
    return *held_.window;
  }
  void end() override { const WindowAndBuffer gone = std::exchange(held_, {}); }
  /// Another thread may close it meanwhile.
  size_t bytes(int rank) const {
    open();
    const WindowAndBuffer held = held_;
    const InterruptibleWait waiting;
    return held.window->bytes(rank);
  }

 private:
  WindowAndBuffer held_;
};

std::shared_ptr<WindowOfPython> window(Self self, nb::handle object, const std::string& dtype) {
  const auto from = self.open();
  return onRank(self.rank(), [&] {
    ArrayBuffer buffer(object, {"buffer", true}, dtype);
    const auto made = std::make_shared<WindowOfPython>(
        from->window({buffer.data(), buffer.count() * sizeOf(buffer.type())}), std::move(buffer));
    self.endsWithIt(made);
    return made;
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
      .def("close", &WindowOfPython::end);
  c.def("window", &window)
      .def("put", &put, nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg())
      .def("signal", &signal, nb::arg().none(), nb::arg(), nb::arg())
      .def("wait_signals", &waitSignals, nb::arg().none(), nb::arg());
}

}  // namespace tutti::python
