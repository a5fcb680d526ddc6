// What the ranks of a communicator tell each other. What is taken of a message, but for a failure's
// words, is written as it was read.
//
// First byte: the type; second: from which rank; third: how many there are.

#include "src/communicator/message_types.h"

#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

using namespace communicator::message;

/// Takes a message of one type, and what is written of it.
template <class Message, class... From>
void readTwice(const base::Bytes& payload, From... from) {
  takes({ErrorCode::Refused}, [&] {
    const base::Bytes written = Message::read(payload, from...).write();
    if constexpr (std::is_same_v<Message, FailureMessage>) return;
    try {
      expect(Message::read(written, from...).write() == written, "it is written as it was read");
    } catch (const Error& error) {
      expect(false, std::string("what was taken is taken again: ") + error.what());
    }
  });
}

void run(Input input) {
  const auto type = static_cast<MessageType>(input.byte() % kTypes);
  Origin from{.peer = input.byte(), .size = input.byte()};
  from.size = std::max(from.size, from.peer + 1);
  const base::Bytes payload = input.bytes();
  switch (type) {
    case MessageType::Hello: return readTwice<HelloMessage>(payload);
    case MessageType::Ready: return readTwice<ReadyMessage>(payload, from);
    case MessageType::Inquiry: return readTwice<InquiryMessage>(payload, from);
    case MessageType::Status: return readTwice<StatusMessage>(payload, from);
    case MessageType::Failure: return readTwice<FailureMessage>(payload, from);
    case MessageType::Goodbye: return readTwice<GoodbyeMessage>(payload, from);
    case MessageType::View: return readTwice<ViewMessage>(payload, from);
    case MessageType::Decision: return readTwice<DecisionMessage>(payload, from);
    case MessageType::Gpu: return readTwice<GpuMessage>(payload, from);
    case MessageType::Window: return readTwice<WindowMessage>(payload, from);
  }
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
