#pragma once

// FrameReader: takes frames from a nonblocking socket. The payload of a large one goes from the
// kernel to where its receiver wants it, without a stop; a sealed one is opened to there.

#include <optional>

#include "src/base/bytes.h"
#include "src/wire/cipher.h"
#include "transports/tcp/frame.h"

namespace tutti::transports::tcp {

/// Gets what arrives on one stream.
class FrameReceiver {
 public:
  /// A header. Returns where its payload goes, of `frame.bytes` bytes, which may be none. Throws
  /// Refused for what no correct peer sends, before anything is written.
  virtual std::byte* begin(const TcpFrame& frame) = 0;
  /// The payload is there.
  virtual void complete(const TcpFrame& frame) = 0;

 protected:
  ~FrameReceiver() = default;
};

class FrameReader {
 public:
  /// Nothing: the socket has no more. Moved: it may have. Ended: the other end has closed, or the
  /// connection broke: errno says why, 0 for the former. EBADMSG: somebody on the way has changed
  /// what was sealed.
  enum class Outcome { Nothing, Moved, Ended };

  explicit FrameReader(FrameReceiver& receiver) : receiver_(receiver) {}
  /// For a new connection: forgets the frame that was not whole.
  void reset(std::optional<wire::Cipher> cipher);
  /// Reads about `limitBytes` at most. Throws Refused for what no correct peer sends.
  Outcome read(int socket, size_t limitBytes);

 private:
  Outcome readPlain(int socket, size_t limitBytes);
  Outcome readSealed(int socket, size_t limitBytes);
  void parse();
  bool parsePlain();
  bool parseSealed();
  bool startFrame(const TcpFrame& frame);
  void compact();
  size_t buffered() const { return end_ - begin_; }

  FrameReceiver& receiver_;
  std::optional<wire::Cipher> cipher_;
  base::Bytes buffer_;
  size_t begin_ = 0, end_ = 0;  // what of it is not parsed
  bool inPayload_ = false, spoiled_ = false;
  TcpFrame frame_;
  std::byte* to_ = nullptr;  // where the rest of the payload goes
  size_t left_ = 0;          // bytes of that
};

}  // namespace tutti::transports::tcp
