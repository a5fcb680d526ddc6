#include "transports/tcp/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "transports/ring_layout.h"
#include "transports/ring_storage.h"

namespace tutti::transports::tcp {
namespace {

bool isCounted(FrameType type) { return type == FrameType::Data || type == FrameType::Goodbye; }

std::string reasonOf(int error) {
  return error == 0         ? "the other end closed it"
         : error == EBADMSG ? "what came was not sealed by the other end"
                            : std::strerror(error);
}

}  // namespace

TcpStream::TcpStream(StreamUser& user, int ownRank, uint32_t index, int epoll,
                     std::optional<wire::CipherKind> encrypts)
    : user_(user), ownRank_(ownRank), index_(index), epoll_(epoll), encrypts_(encrypts) {}

TcpStream::~TcpStream() { breakOff("the endpoint is gone"); }

// ---- connections

void TcpStream::adopt(Proven proven) {
  noteTry(proven.name.generation);
  if (socket_ && proven.name < name_) return;
  breakOff("another connection took its place");
  const bool byUs = proven.name.connector == ownRank_;
  const auto cipher = [&](bool own) -> std::optional<wire::Cipher> {
    if (!encrypts_) return std::nullopt;
    return wire::Cipher(
        *encrypts_, wire::directionKey(proven.session, own == byUs ? "connecting" : "accepting"));
  };
  handedBefore_ = mayBeThere();
  writer_.reset(cipher(true));
  reader_.reset(cipher(false));
  socket_ = std::move(proven.socket);
  name_ = proven.name;
  sent_ = 0;
  epoll_event event{.events = EPOLLIN, .data = {.ptr = this}};
  TUTTI_SYSCALL(::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket_.get(), &event));
  isLastCounted_ = false;
  silentSince_.reset();
  writer_.add({.type = FrameType::Resume, .received = received_}, nullptr);
  told_ = received_;
  send();
}

void TcpStream::breakOff(const std::string& why) {
  if (!socket_) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket_.get(), nullptr);
  ::shutdown(socket_.get(), SHUT_RDWR);  // also for copies in forked children
  socket_.reset();
  resumed_ = blocked_ = false;
  broken_ = why;
}

void TcpStream::watch(bool room) {
  if (blocked_ == room) return;
  blocked_ = room;
  epoll_event event{.events = room ? EPOLLIN | EPOLLOUT : EPOLLIN, .data = {.ptr = this}};
  TUTTI_SYSCALL(::epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_.get(), &event));
}

// Something was sent again, or the window of a stopped process was asked for more than once, and
// the other kernel has said nothing since the first look that found it so. A stopped process's
// kernel answers.
void TcpStream::lookForSilence(std::chrono::steady_clock::time_point now,
                               std::chrono::milliseconds patience) {
  if (!socket_) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  const bool unanswered = info.tcpi_retransmits > 0 || info.tcpi_probes > 1;
  const std::chrono::milliseconds heard(info.tcpi_last_ack_recv);
  if (!unanswered || !silentSince_ || now - *silentSince_ > heard) {
    silentSince_ = unanswered ? std::optional(now) : std::nullopt;
    return;
  }
  if (now - *silentSince_ >= patience)
    breakOff(base::message("the other host has not answered for ", heard.count(), " ms"));
}

// ---- sending

void TcpStream::addFrames() {
  isLastCounted_ = true;
  for (; writer_.hasRoom() && sent_ < unconfirmed_.size(); ++sent_) {
    const StreamUser::Counted& counted = unconfirmed_[sent_];
    TcpFrame frame{.type = counted.type};
    const std::byte* const payload = user_.fill(counted, frame);
    if (counted.type == FrameType::Goodbye) frame.flags = TcpFrame::kTellAtOnce;
    frame.received = received_;
    writer_.add(frame, payload);
    told_ = received_;
    owesAnswer_ = false;
  }
  if (!wantsState_ || !writer_.hasRoom()) return;
  wantsState_ = owesAnswer_ = false;
  creditsOut_.clear();
  user_.listCredits(creditsOut_);
  const auto bytes = std::as_bytes(std::span(creditsOut_));
  writer_.add({.type = FrameType::State,
               .bytes = static_cast<uint32_t>(bytes.size()),
               .received = received_},
              bytes.data());
  isLastCounted_ = false;
  told_ = received_;
}

bool TcpStream::send() {
  bool moved = false;
  while (socket_) {
    // Credits lie in one place: they are sent before new ones are put there.
    if (resumed_ && writer_.empty()) addFrames();
    if (writer_.empty()) {
      watch(false);
      return moved;
    }
    const FrameWriter::Outcome outcome = write();
    if (outcome == FrameWriter::Outcome::Broken) {
      breakOff(reasonOf(errno));
      return true;
    }
    if (outcome == FrameWriter::Outcome::Full) {
      watch(true);
      return moved;
    }
    moved = true;
  }
  return moved;
}

FrameWriter::Outcome TcpStream::write() {
  try {
    return writer_.write(socket_.get());
  } catch (const Error& error) {  // the key is used up: the next connection has another
    breakOff(error.what());
    return FrameWriter::Outcome::Done;
  }
}

// Of the frames that are under way, how many the kernel has whole.
size_t TcpStream::handedOver() const {
  const size_t unsent = writer_.unsent();
  return sent_ - (unsent - (unsent > 0 && !isLastCounted_));
}

bool TcpStream::holdsBack(uint32_t channel, uint32_t message) const {
  return std::any_of(unconfirmed_.begin() + static_cast<ptrdiff_t>(mayBeThere()),
                     unconfirmed_.end(), [&](const StreamUser::Counted& each) {
                       return each.type == FrameType::Data && each.channel == channel &&
                              !laterMessage(each.number, message);
                     });
}

void TcpStream::confirm(uint32_t received, size_t most) {
  const uint32_t more = received - confirmed_;
  if (more > most)
    base::fail(ErrorCode::Refused, "confirmed ", more, " frames where it has got ", most);
  for (uint32_t i = 0; i < more; ++i) {
    user_.onReceived(unconfirmed_.front());
    unconfirmed_.pop_front();
    sent_ -= sent_ > 0;
    handedBefore_ -= handedBefore_ > 0;
  }
  confirmed_ = received;
}

// ---- receiving

bool TcpStream::receive(size_t limitBytes) {
  if (!socket_) return false;
  const FrameReader::Outcome outcome = reader_.read(socket_.get(), limitBytes);
  if (outcome == FrameReader::Outcome::Ended) {
    breakOff(reasonOf(errno));
    return true;
  }
  return outcome == FrameReader::Outcome::Moved;
}

std::byte* TcpStream::begin(const TcpFrame& frame) {
  if (resumed_ == (frame.type == FrameType::Resume))
    base::fail(ErrorCode::Refused, "sent frame ", static_cast<unsigned>(frame.type),
               resumed_ ? " again" : " first");
  if (ended_ && isCounted(frame.type))
    base::fail(ErrorCode::Refused, "sent more after its goodbye");
  if (frame.type == FrameType::Data) {
    confirm(frame.received, handedOver());
    return user_.onBegin(*this, frame);
  }
  if (frame.type == FrameType::State) {
    if (frame.bytes > kMaxChannels * sizeof(CreditWord) || frame.bytes % sizeof(CreditWord) != 0)
      base::fail(ErrorCode::Refused, "sent credits of ", frame.bytes, " bytes");
    confirm(frame.received, handedOver());
    creditsIn_.resize(frame.bytes / sizeof(CreditWord));
    return reinterpret_cast<std::byte*>(creditsIn_.data());
  }
  if ((frame.type != FrameType::Resume && frame.type != FrameType::Goodbye) || frame.bytes > 0)
    base::fail(ErrorCode::Refused, "sent frame ", static_cast<unsigned>(frame.type), " of ",
               frame.bytes, " bytes");
  return nullptr;
}

void TcpStream::complete(const TcpFrame& frame) {
  if (frame.type == FrameType::Resume) return onResume(frame);
  if (isCounted(frame.type)) ++received_;
  if (frame.flags & TcpFrame::kTellAtOnce) owesAnswer_ = true;
  if (frame.type == FrameType::State) return user_.onCredits(creditsIn_);
  if (frame.type == FrameType::Data) return user_.onComplete(frame);
  confirm(frame.received, handedOver());
  ended_ = true;
  wantsState_ = true;
}

// What the other end lacks is sent again.
void TcpStream::onResume(const TcpFrame& frame) {
  confirm(frame.received, unconfirmed_.size());
  for (const StreamUser::Counted& each : unconfirmed_) user_.onLacked(each);
  sent_ = handedBefore_ = 0;
  resumed_ = wasMade_ = true;
  broken_.clear();
  wantsState_ = true;  // credits may have been lost
}

}  // namespace tutti::transports::tcp
