// What a rank tells the others of its host about its windows, with and without a descriptor.
//
// Messages follow each other: type; number of the window; 8 bytes of it; what comes with it (0
// nothing, 1 a segment of a page, 2 a file that is none).

#include <tutti/communicator.h>

#include "src/communicator/windows.h"
#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

using bootstrap::ControlMessage;

/// Rank 0 of two on one host, of which nobody hears.
class DeafPlane final : public bootstrap::ControlPlane {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const bootstrap::PeerInfo& peer(int) const override { return info_; }
  void send(int to, ControlMessage message) override {
    expect(to == 1 && message.payload.size() <= 64, "answers are short");
  }
  void listen(uint64_t, bootstrap::ControlListener*) override {}
  void ignore(uint64_t) override {}
  bool runs(int) const override { return true; }
  void leave() override {}
  void awaitSent(const base::Deadline&) override {}

 private:
  const bootstrap::PeerInfo info_{.host = "host", .bootId = "boot", .pid = 1, .cores = 1};
};

base::FileDescriptor something(uint8_t kind, const transports::shm::Segment& segment) {
  if (kind == 1) return segment.duplicate();
  return base::FileDescriptor(::memfd_create("tutti-fuzz", MFD_CLOEXEC));
}

void run(Input input) {
  static const Silence silence;
  static const auto segment =
      transports::shm::Segment::create(transports::shm::Segment::pageBytes(), "a test");
  DeafPlane plane;
  communicator::WindowTable table(plane, nullptr);
  while (!input.empty()) {
    ControlMessage message{.channel = communicator::WindowTable::kChannel, .type = input.byte()};
    const uint64_t window = input.byte();
    const base::Bytes number = base::bytesOf(window);
    message.payload.insert(message.payload.end(), number.begin(), number.end());
    const base::Bytes bytes = input.some(8);
    message.payload.insert(message.payload.end(), bytes.begin(), bytes.end());
    const uint8_t with = input.byte() % 3;
    if (with > 0) message.descriptors.push_back(something(with, segment));
    // The control plane turns what a listener throws into the loss of who has sent it.
    takes({ErrorCode::Refused}, [&] { table.onMessage(1, std::move(message)); });
    table.resolve(1, {.window = window, .offset = 0});
  }
  table.onPeerLost(1, "it has ended");
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
