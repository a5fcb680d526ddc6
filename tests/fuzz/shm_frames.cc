// Frames of the transport `shm`: the slots that a peer writes, as a rank takes them that receives
// from it. What is received lies where it belongs, and nothing else is written.
//
// Messages follow each other: 1 byte (0: of the call that is expected, but for the bytes that
// follow, which are laid over its header), then 12 bytes of header.

#include <array>
#include <cstring>
#include <vector>

#include "src/base/transfer_key.h"
#include "src/executor/host/exchange_operation.h"
#include "tests/fuzz/fuzz.h"
#include "transports/shm/endpoint.h"

namespace tutti::fuzz {
namespace {

constexpr transports::RingLayout kLayout{.channels = 1, .slotCount = 2, .slotBytes = 64};
constexpr size_t kTransfers = 3, kGuard = 256;
constexpr std::array<uint64_t, kTransfers> kBytes{5, 150, 0};
constexpr std::byte kFill{0xa5};

struct Header {
  uint32_t callHash = 0, operation = 0, bytes = 0;
};

class Receiver {
 public:
  Receiver() {
    own_->connect(1, other_->address(0));
    other_->connect(0, own_->address(1));
    executor::Exchange exchange;
    for (size_t i = 0; i < kTransfers; ++i) {
      memory_[i].assign(kGuard + kBytes[i] + kGuard, kFill);
      exchange.receives.push_back(
          {.peer = 1, .data = memory_[i].data() + kGuard, .bytes = kBytes[i]});
      for (uint64_t at = 0; at == 0 || at < kBytes[i]; at += kLayout.slotBytes)
        expected_.push_back(headerOf(exchange.receives.back(), at));
    }
    operation_.begin({.rank = 0, .size = 2, .endpoint = own_.get()}, std::move(exchange));
  }

  /// The headers of good messages, in their order; behind them the first again.
  Header expected(size_t message) const { return expected_[message % expected_.size()]; }
  /// False when nothing more can come.
  bool take(const Header& header) {
    transports::SendRing& ring = other_->sendRing(0, 0);
    if (!ring.ready()) return false;
    ring.publish(header.callHash, header.operation, header.bytes);
    const executor::Poll poll = operation_.poll();
    return poll != executor::Poll::Done;
  }
  bool isUntouchedAround() const {
    for (const std::vector<std::byte>& memory : memory_)
      for (size_t i = 0; i < kGuard; ++i)
        if (memory[i] != kFill || memory[memory.size() - 1 - i] != kFill) return false;
    return true;
  }

 private:
  static Header headerOf(const executor::Transfer& transfer, uint64_t offset) {
    const uint64_t key = transfer.key();
    return {.callHash = static_cast<uint32_t>(key >> 32),
            .operation = static_cast<uint32_t>(key),
            .bytes = static_cast<uint32_t>(
                std::min<uint64_t>(transfer.bytes - offset, kLayout.slotBytes))};
  }

  const std::unique_ptr<transports::Endpoint> own_ =
      transports::shm::makeShmEndpoint(0, 2, kLayout);
  const std::unique_ptr<transports::Endpoint> other_ =
      transports::shm::makeShmEndpoint(1, 2, kLayout);
  std::array<std::vector<std::byte>, kTransfers> memory_;
  std::vector<Header> expected_;
  executor::ExchangeOperation operation_;
};

void run(Input input) {
  Receiver receiver;
  // Internal: a message of another length than its call has; the peer is of the same library.
  takes({ErrorCode::Mismatch, ErrorCode::Internal}, [&] {
    for (size_t message = 0; !input.empty(); ++message) {
      Header header;
      if (input.byte() == 0) header = receiver.expected(message);
      const base::Bytes changes = input.some(sizeof header);
      std::array<std::byte, sizeof header> bytes;
      std::memcpy(bytes.data(), &header, sizeof header);
      for (size_t i = 0; i < changes.size(); ++i) bytes[i] ^= changes[i];
      std::memcpy(&header, bytes.data(), sizeof header);
      if (!receiver.take(header)) break;
    }
  });
  expect(receiver.isUntouchedAround(), "nothing is written beside what is received");
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
