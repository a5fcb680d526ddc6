// Handshake: a stranger changes one of its three messages. Only who changes nothing is believed.
//
// First byte: 0 the hello, 1 the challenge, 2 the proof. The rest is laid over that message, of a
// job with fresh keys.

#include "src/wire/handshake.h"

#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

using wire::Handshake;
using wire::HandshakePurpose;

/// Hands `message` to a side, as much of it as that wants; true if it is believed.
bool believes(Handshake& side, base::Bytes message, base::Bytes& answer) {
  message.resize(side.wantedBytes());
  return takes({ErrorCode::Refused}, [&] { answer = side.receive(message); });
}

void run(Input input) {
  const wire::Credentials job{.secret = wire::randomBytes<32>(), .job = wire::randomBytes<16>()};
  const wire::Claim claim{.version = wire::kProtocolVersion, .job = job.job, .rank = 1, .size = 2};
  const uint8_t changed = input.byte() % 3;
  Handshake client = Handshake::connecting(job, HandshakePurpose::Mesh, claim, 0);
  Handshake server = Handshake::accepting(job, HandshakePurpose::Mesh, 0);
  bool isGood = true;
  const auto sent = [&](uint8_t number, const base::Bytes& good) {
    if (number != changed) return good;
    const base::Bytes message = input.over(good);
    isGood = message == good;
    return message;
  };
  base::Bytes challenge, proof, nothing;
  bool believed = believes(server, sent(0, client.start()), challenge);
  believed = believed && believes(client, sent(1, challenge), proof);
  believed = believed && believes(server, sent(2, proof), nothing);
  expect(believed == isGood, "who changes a handshake, and nobody else, is refused");
  expect(!believed || (client.done() && server.done() && nothing.empty()), "it is done");
  expect(!believed || client.sessionKey() == server.sessionKey(), "both have the same key");
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
