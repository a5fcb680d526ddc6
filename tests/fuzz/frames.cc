// SealedFrameReader: frames of an authenticated connection, changed by a stranger, or sealed by a
// peer that seals whatever it likes.
//
// First byte: bit 0 a peer, else a stranger; the others how many bytes come at once. Second: how
// many descriptors come with them. Of a stranger the rest is laid over two good frames. Of a peer
// frames follow: 32 bytes of header, one that says how many bytes the payload has, and these.

#include "src/bootstrap/wire/frame.h"

#include <fcntl.h>

#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

constexpr size_t kLimitBytes = 4096;

void append(base::Bytes& bytes, const base::Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

/// Two frames as they should be.
base::Bytes goodFrames(const wire::Key& key) {
  bootstrap::SealedFrameWriter writer(key);
  base::Bytes bytes;
  for (const size_t size : {size_t{5}, size_t{9}}) {
    base::Bytes payload(size, std::byte{7});
    append(bytes, writer.seal({.type = 3}, payload));
    append(bytes, payload);
  }
  return bytes;
}

base::Bytes framesOfPeer(const wire::Key& key, Input& input) {
  wire::Cipher cipher(wire::CipherKind::ChaCha20Poly1305, key);
  base::Bytes bytes;
  const auto seal = [&](base::Bytes text) {
    const size_t size = text.size();
    text.resize(size + wire::kSealBytes);
    cipher.seal(std::span(text).first(size), text.data());
    append(bytes, text);
  };
  while (!input.empty()) {
    base::Bytes header = input.some(sizeof(bootstrap::FrameHeader));
    header.resize(sizeof(bootstrap::FrameHeader));
    seal(std::move(header));
    if (const base::Bytes payload = input.some(input.byte()); !payload.empty()) seal(payload);
  }
  return bytes;
}

/// Feeds a reader so many bytes at once, and counts the frames that it takes in `frames`.
void read(bootstrap::SealedFrameReader& reader, const base::Bytes& bytes, size_t atOnce,
          size_t& frames) {
  size_t payload = 0;
  for (size_t at = 0; at < bytes.size(); at += atOnce) {
    reader.feed(std::span(bytes).subspan(at, std::min(atOnce, bytes.size() - at)));
    while (const auto frame = reader.next()) {
      ++frames;
      payload += frame->message.payload.size();
      expect(payload <= bytes.size(), "payloads are made of what has come");
      expect(frame->message.descriptors.size() <= bootstrap::kMaxDescriptors,
             "a frame has few descriptors");
    }
  }
}

void run(Input input) {
  const uint8_t choice = input.byte();
  const bool isPeer = (choice & 1) != 0;
  const size_t atOnce = 1 + size_t{choice} / 2, descriptors = input.byte() % 32;
  const wire::Key key = wire::randomBytes<32>();
  const base::Bytes good = goodFrames(key);
  const base::Bytes bytes = isPeer ? framesOfPeer(key, input) : input.over(good);
  bootstrap::SealedFrameReader reader(key, kLimitBytes);
  size_t frames = 0;
  const bool isTaken = takes({ErrorCode::Refused}, [&] {
    for (size_t i = 0; i < descriptors; ++i)
      reader.feed(base::FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
    read(reader, bytes, atOnce, frames);
  });
  if (isPeer) return;
  expect(bytes != good || !isTaken || frames == 2, "good frames are taken");
  expect(bytes == good || (!isTaken && frames < 2), "a changed frame is not believed");
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run({data, size});
  return 0;
}
