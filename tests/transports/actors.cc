#include "tests/transports/actors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "src/base/check.h"
#include "src/base/integers.h"

namespace tutti::tests {
namespace {

using transports::ReceiveRing;
using transports::SendRing;
using transports::SlotHeader;

// Messages that one poll moves at most, so that all actors of a rank get on.
constexpr int kAtOnce = 8;

template <class... Parts>
[[noreturn]] void wrong(const Parts&... parts) {
  throw std::runtime_error(base::message(parts...));
}

// Word k of a payload: cheap, and different at every place of every message.
uint64_t word(uint64_t key, uint64_t k) { return (key + k) * 0x9e3779b97f4a7c15; }

void fill(std::byte* to, size_t bytes, uint64_t key) {
  size_t k = 0;
  for (; (k + 1) * 8 <= bytes; ++k) {
    const uint64_t w = word(key, k);
    std::memcpy(to + k * 8, &w, 8);
  }
  const uint64_t w = word(key, k);
  if (k * 8 < bytes) std::memcpy(to + k * 8, &w, bytes - k * 8);
}

bool holds(const std::byte* at, size_t bytes, uint64_t key) {
  size_t k = 0;
  uint64_t difference = 0;
  for (; (k + 1) * 8 <= bytes; ++k) {
    uint64_t w;
    std::memcpy(&w, at + k * 8, 8);
    difference |= w ^ word(key, k);
  }
  const uint64_t w = word(key, k);
  return difference == 0 && std::memcmp(at + k * 8, &w, bytes - k * 8) == 0;
}

/// Of message `index`, where it has room for one.
uint32_t noteOf(uint64_t key, uint64_t index) { return static_cast<uint32_t>((key >> 32) ^ index); }

size_t endBytes(size_t bytes) { return std::min<size_t>(bytes / 2, 64); }

class Sender final : public Actor {
 public:
  explicit Sender(const Stream& stream) : stream_(stream) {}
  Poll poll(Endpoint& endpoint) override {
    SendRing& ring = endpoint.sendRing(stream_.peer, stream_.channel);
    int moved = 0;
    for (; moved < kAtOnce && next_ < stream_.messages && ring.ready(); ++moved, ++next_) {
      const uint32_t bytes = stream_.bytes(next_);
      const uint64_t key = scramble(stream_.seed, next_);
      std::byte* const payload = ring.payload(bytes);
      if (stream_.endsOnly) {
        fill(payload, endBytes(bytes), key);
        fill(payload + bytes - endBytes(bytes), endBytes(bytes), ~key);
      } else {
        fill(payload, bytes, key);
      }
      const auto hash = static_cast<uint32_t>(key), number = static_cast<uint32_t>(next_);
      if (bytes > transports::kInlineBytes)
        ring.publish(hash, number, bytes, noteOf(key, next_));
      else
        ring.publish(hash, number, bytes);
    }
    return next_ == stream_.messages ? Poll::Done : moved ? Poll::Moved : Poll::Idle;
  }
  std::string describe() const override {
    return base::message("sending message ", next_, " of ", stream_.messages, " to rank ",
                         stream_.peer, " on channel ", stream_.channel);
  }

 private:
  const Stream stream_;
  uint64_t next_ = 0;
};

class ZeroCopySender final : public Actor {
 public:
  explicit ZeroCopySender(const Stream& stream) : stream_(stream), plain_(sender(stream)) {}
  Poll poll(Endpoint& endpoint) override {
    SendRing& ring = endpoint.sendRing(stream_.peer, stream_.channel);
    if (!ring.canZeroCopy()) return plain_->poll(endpoint);
    for (Buffer& buffer : buffers_)
      if (buffer.zeroCopy && ring.completed(buffer.message)) {
        std::ranges::fill(buffer.data, std::byte{0xee});
        buffer.zeroCopy = false;
        --zeroCopy_;
      }
    const auto free = std::ranges::find(buffers_, false, &Buffer::zeroCopy);
    if (next_ == stream_.messages) return zeroCopy_ == 0 ? Poll::Done : Poll::Idle;
    if (!ring.ready() || free == buffers_.end()) return Poll::Idle;
    const uint32_t bytes = stream_.bytes(next_);
    const uint64_t key = scramble(stream_.seed, next_);
    free->data.resize(std::max<size_t>(bytes, 1));
    fill(free->data.data(), bytes, key);
    const auto hash = static_cast<uint32_t>(key), number = static_cast<uint32_t>(next_);
    if (bytes > transports::kInlineBytes)
      ring.publishZeroCopy(free->data.data(), hash, number, bytes, noteOf(key, next_));
    else
      ring.publishZeroCopy(free->data.data(), hash, number, bytes);
    free->message = ring.sent();
    free->zeroCopy = true;
    ++zeroCopy_;
    ++next_;
    return Poll::Moved;
  }
  std::string describe() const override {
    return base::message("sending zero-copy message ", next_, " of ", stream_.messages, " to rank ",
                         stream_.peer, " with ", zeroCopy_, " not completed");
  }

 private:
  struct Buffer {
    std::vector<std::byte> data;
    uint32_t message = 0;
    bool zeroCopy = false;
  };
  const Stream stream_;
  const std::unique_ptr<Actor> plain_;
  std::array<Buffer, 3> buffers_;
  uint64_t next_ = 0;
  int zeroCopy_ = 0;
};

class Receiver final : public Actor {
 public:
  explicit Receiver(const Stream& stream) : stream_(stream) {}
  Poll poll(Endpoint& endpoint) override {
    ReceiveRing& ring = endpoint.receiveRing(stream_.peer, stream_.channel);
    int moved = 0;
    for (; moved < kAtOnce && next_ < stream_.messages && ring.ready(); ++moved, ++next_) {
      check(ring);
      ring.release();
    }
    return next_ == stream_.messages ? Poll::Done : moved ? Poll::Moved : Poll::Idle;
  }
  std::string describe() const override {
    return base::message("receiving message ", next_, " of ", stream_.messages, " from rank ",
                         stream_.peer, " on channel ", stream_.channel);
  }

 private:
  void check(const ReceiveRing& ring) const {
    const SlotHeader& header = *ring.slot();
    const uint64_t key = scramble(stream_.seed, next_);
    const uint32_t bytes = stream_.bytes(next_);
    if (header.operation != static_cast<uint32_t>(next_) ||
        header.callHash != static_cast<uint32_t>(key) || header.bytes != bytes)
      wrong(describe(), ": header has message ", header.operation, " of ", header.bytes,
            " bytes, not ", bytes);
    if (bytes > transports::kInlineBytes && transports::noteOf(ring.slot()) != noteOf(key, next_))
      wrong(describe(), ": the note is wrong");
    const std::byte* const payload = ring.payload();
    const bool right = stream_.endsOnly
                           ? holds(payload, endBytes(bytes), key) &&
                                 holds(payload + bytes - endBytes(bytes), endBytes(bytes), ~key)
                           : holds(payload, bytes, key);
    if (!right) wrong(describe(), ": ", bytes, " bytes are wrong");
  }
  const Stream stream_;
  uint64_t next_ = 0;
};

uint32_t pieceBytes(const Endpoint& endpoint, uint64_t total, uint64_t done) {
  return static_cast<uint32_t>(std::min<uint64_t>(endpoint.layout().slotBytes, total - done));
}

class FragmentSender final : public Actor {
 public:
  FragmentSender(int peer, uint64_t bytes, uint64_t seed) : peer_(peer), whole_(bytes) {
    fill(whole_.data(), bytes, seed);
  }
  Poll poll(Endpoint& endpoint) override {
    SendRing& ring = endpoint.sendRing(peer_, 0);
    bool moved = false;
    while (done_ < whole_.size() && ring.ready()) {
      const uint32_t bytes = pieceBytes(endpoint, whole_.size(), done_);
      std::memcpy(ring.payload(bytes), whole_.data() + done_, bytes);
      ring.publish(1, 1, bytes);
      done_ += bytes;
      moved = true;
    }
    return done_ == whole_.size() ? Poll::Done : moved ? Poll::Moved : Poll::Idle;
  }
  std::string describe() const override {
    return base::message("sending byte ", done_, " of ", whole_.size());
  }

 private:
  const int peer_;
  std::vector<std::byte> whole_;
  uint64_t done_ = 0;
};

class FragmentReceiver final : public Actor {
 public:
  FragmentReceiver(int peer, uint64_t bytes, uint64_t seed)
      : peer_(peer), seed_(seed), whole_(bytes) {}
  Poll poll(Endpoint& endpoint) override {
    ReceiveRing& ring = endpoint.receiveRing(peer_, 0);
    bool moved = false;
    while (done_ < whole_.size() && ring.ready()) {
      const uint32_t bytes = ring.slot()->bytes;
      if (bytes != pieceBytes(endpoint, whole_.size(), done_))
        wrong(describe(), ": a piece has ", bytes, " bytes");
      std::memcpy(whole_.data() + done_, ring.payload(), bytes);
      ring.release();
      done_ += bytes;
      moved = true;
    }
    if (done_ < whole_.size()) return moved ? Poll::Moved : Poll::Idle;
    if (!holds(whole_.data(), whole_.size(), seed_)) wrong("the message was put together wrongly");
    return Poll::Done;
  }
  std::string describe() const override {
    return base::message("receiving byte ", done_, " of ", whole_.size());
  }

 private:
  const int peer_;
  const uint64_t seed_;
  std::vector<std::byte> whole_;
  uint64_t done_ = 0;
};

class Flood final : public Actor {
 public:
  Flood(int peer, int channel, uint64_t least, uint64_t most)
      : peer_(peer), channel_(channel), least_(least), most_(most) {}
  Poll poll(Endpoint& endpoint) override {
    SendRing& ring = endpoint.sendRing(peer_, channel_);
    if (ring.ready()) {
      const auto bytes = static_cast<uint32_t>(endpoint.layout().slotBytes);
      fill(ring.payload(bytes), bytes, sent_);
      ring.publish(0, 0, bytes);
      full_ = 0;
      if (++sent_ > most_) wrong("sent ", sent_, " messages to a rank that takes ", most_);
      return Poll::Moved;
    }
    if (sent_ < least_ || ++full_ < kPatience) return Poll::Idle;
    if (ring.inFlight() != endpoint.layout().slotCount) wrong("the ring is not full");
    return Poll::Done;
  }
  std::string describe() const override {
    return base::message("flooding rank ", peer_, ", ", sent_, " messages sent");
  }

 private:
  static constexpr int kPatience = 3000;
  const int peer_, channel_;
  const uint64_t least_, most_;
  uint64_t sent_ = 0;
  int full_ = 0;
};

class Departing final : public Actor {
 public:
  Departing(int peer, int channel, uint64_t messages)
      : peer_(peer), channel_(channel), left_(messages) {}
  Poll poll(Endpoint& endpoint) override {
    if (left_ == 0) throw Departure{};
    ReceiveRing& ring = endpoint.receiveRing(peer_, channel_);
    if (!ring.ready()) return Poll::Idle;
    ring.release();
    --left_;
    return Poll::Moved;
  }
  std::string describe() const override {
    return base::message("taking ", left_, " more messages before vanishing");
  }

 private:
  const int peer_, channel_;
  uint64_t left_;
};

}  // namespace

uint64_t scramble(uint64_t seed, uint64_t index) {
  return base::mixBits(seed * 0xd1342543de82ef95 + index * base::kMixStep);
}

std::unique_ptr<Actor> sender(const Stream& stream) { return std::make_unique<Sender>(stream); }
std::unique_ptr<Actor> receiver(const Stream& stream) { return std::make_unique<Receiver>(stream); }
std::unique_ptr<Actor> zeroCopySender(const Stream& stream) {
  return std::make_unique<ZeroCopySender>(stream);
}
std::unique_ptr<Actor> fragmentSender(int peer, uint64_t bytes, uint64_t seed) {
  return std::make_unique<FragmentSender>(peer, bytes, seed);
}
std::unique_ptr<Actor> fragmentReceiver(int peer, uint64_t bytes, uint64_t seed) {
  return std::make_unique<FragmentReceiver>(peer, bytes, seed);
}
std::unique_ptr<Actor> flood(int peer, int channel, uint64_t least, uint64_t most) {
  return std::make_unique<Flood>(peer, channel, least, most);
}
std::unique_ptr<Actor> departure(int peer, int channel, uint64_t messages) {
  return std::make_unique<Departing>(peer, channel, messages);
}

std::function<uint32_t(uint64_t)> oddSizes(uint64_t seed, size_t slotBytes) {
  return [seed, slotBytes](uint64_t index) {
    const std::array<size_t, 12> edges{0,        1, 2, 47, 48, 49, 63, 64, 65, 127, slotBytes - 1,
                                       slotBytes};
    if (index < edges.size()) return static_cast<uint32_t>(std::min(edges[index], slotBytes));
    const uint64_t dice = scramble(seed + 1, index);
    if (dice % 4 == 0) return static_cast<uint32_t>(std::min(edges[(dice >> 8) % 12], slotBytes));
    // Small ones more often than large ones.
    const size_t limit = size_t{1} << ((dice >> 8) % 12);
    return static_cast<uint32_t>((dice >> 16) % (std::min(limit, slotBytes) + 1));
  };
}

}  // namespace tutti::tests
