#include "transports/tcp/peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "src/base/check.h"
#include "transports/ring_layout.h"

namespace tutti::transports::tcp {
namespace {

using std::chrono::milliseconds;

// How long a first connection is tried: a host that starts many ranks may drop what it cannot take.
constexpr milliseconds kFirstTrial{15000};
// The lower rank leaves it to the higher one to connect, for so long: first, and after a break.
constexpr milliseconds kFirstTurn{30}, kNextTurn{250};
constexpr milliseconds kBetweenTries{100};
// However short TUTTI_RECONNECT_MS is: the lower rank's turn comes within it.
constexpr milliseconds kLeastTrial{2 * kNextTurn};
// Connections that are made one after another, and through which nothing goes.
constexpr int kMostFruitless = 10;
// Within this and the time to make a connection again a silent host is lost: 5 s.
constexpr milliseconds kSilence{2000};
// Longer messages are spread over the streams; shorter ones go by the first, which is looked at
// first.
constexpr uint32_t kSpreadBytes = 32768;

/// What is silent is noticed by keep-alive and lookForSilence(); the kernel's timer for data that
/// are under way would take a stopped process, whose window is closed, for a dead one.
void prepare(int socket, int trafficClass) {
  wire::noticeDeadHost(socket);
  const auto set = [&](int level, int option, int value) {
    return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
  };
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
  if (trafficClass < 0) return;
  const bool four = set(IPPROTO_IP, IP_TOS, trafficClass);
  if (!set(IPPROTO_IPV6, IPV6_TCLASS, trafficClass) && !four)
    base::fail(ErrorCode::System, "traffic class ", trafficClass,
               " (TUTTI_TRAFFIC_CLASS): ", std::strerror(errno));
}

struct JobWords {
  uint64_t door;
  uint32_t stream, generation;
};
static_assert(sizeof(JobWords) == sizeof(wire::JobId));

}  // namespace

wire::JobId jobOf(uint64_t door, uint32_t stream, uint32_t generation) {
  const JobWords words{door, stream, generation};
  wire::JobId job;
  std::memcpy(job.data(), &words, sizeof words);
  return job;
}

DoorClaim DoorClaim::of(const wire::JobId& job) {
  JobWords words;
  std::memcpy(&words, job.data(), sizeof words);
  return {words.door, words.stream, words.generation};
}

TcpPeer::TcpPeer(const Place& place, int peer, uint64_t door)
    : place_(place),
      peer_(peer),
      door_(door),
      sends_(static_cast<size_t>(place.layout.channels)),
      receives_(static_cast<size_t>(place.layout.channels)) {}

void TcpPeer::setAddress(TcpAddressBlob theirs) {
  const bool isLower = place_.rank < peer_;
  secret_ = secretOf(isLower ? half_ : theirs.half, isLower ? theirs.half : half_,
                     place_.options.preSharedKey);
  theirs_ = std::move(theirs);
}

std::string TcpPeer::ways() const {
  if (!theirs_) return "";
  return base::message("; rank ", place_.rank, " goes by ", place_.device, "; rank ", peer_,
                       " goes by ", theirs_->device, " at ", theirs_->place.describe());
}

// ---- rings

void TcpPeer::open() {
  if (isUsed_) return;
  isUsed_ = true;
  place_.used->push_back(this);
  std::optional<wire::CipherKind> cipher;
  if (place_.options.encrypts)
    cipher = theirs_->hasAes && wire::hasAes() ? wire::CipherKind::Aes256Gcm
                                               : wire::CipherKind::ChaCha20Poly1305;
  trials_.resize(place_.options.streams);
  for (uint32_t i = 0; i < place_.options.streams; ++i) {
    streams_.push_back(std::make_unique<TcpStream>(*this, place_.rank, i, place_.epoll, cipher));
    beginTrial(i, std::chrono::steady_clock::now(), true);
  }
}

SendRing& TcpPeer::sendRing(int channel) {
  open();
  return sendLink(channel).ring();
}

TcpSendLink& TcpPeer::sendLink(int channel) {
  auto& link = sends_[static_cast<size_t>(channel)];
  if (!link) link = std::make_unique<TcpSendLink>(place_.layout, channel);
  return *link;
}

ReceiveRing& TcpPeer::receiveRing(int channel) {
  open();
  return receiveLink(channel).ring();
}

TcpReceiveLink& TcpPeer::receiveLink(int channel) {
  auto& link = receives_[static_cast<size_t>(channel)];
  if (!link) link = std::make_unique<TcpReceiveLink>(place_.layout);
  return *link;
}

// ---- connections

wire::Expected TcpPeer::expected() const {
  if (!theirs_ || !serves())
    base::fail(ErrorCode::Refused, "rank ", place_.rank, " does not expect rank ", peer_);
  return {.credentials = {.secret = secret_}, .ownRank = place_.rank};
}

wire::Claim TcpPeer::claim(uint32_t stream, uint32_t generation) const {
  return {.version = wire::kProtocolVersion,
          .job = jobOf(theirs_->door, stream, generation),
          .rank = place_.rank,
          .size = place_.size};
}

// Ends when a connection is made: also one that was adopted, and on which the other end has not
// said what it has.
void TcpPeer::beginTrial(size_t stream, Time now, bool isFirst) {
  Trial& trial = trials_[stream];
  if (trial.until) return;
  const uint32_t moved = streams_[stream]->moved();
  const bool isFruitless =
      !isFirst && !streams_[stream]->settled() && std::exchange(trial.moved, moved) == moved;
  trial.fruitless = isFruitless ? trial.fruitless + 1 : 0;
  const milliseconds turn = connectsFirst() ? milliseconds(0) : isFirst ? kFirstTurn : kNextTurn;
  trial.next = now + turn;
  // The higher rank's connection may be on its way where none is to be made again.
  trial.until = now + (isFirst ? kFirstTrial : std::max(place_.options.reconnect, kLeastTrial));
  trial.reached = false;
  trial.why.clear();
  *place_.urgent = true;
}

void TcpPeer::adopt(uint32_t stream, Proven proven, Time now) {
  if (!serves() || !theirs_) return;
  open();
  if (stream >= streams_.size())
    return refuse(Error(ErrorCode::Refused, base::message("asked for stream ", stream)));
  if (proven.name.connector == place_.rank) trials_[stream].underWay = false;
  prepare(proven.socket.get(), place_.options.trafficClass);
  streams_[stream]->adopt(std::move(proven));
  noteBreaks(now);
}

void TcpPeer::dialReached(uint32_t stream) { trials_[stream].reached = true; }

void TcpPeer::dialFailed(uint32_t stream, const std::string& why, bool isSilent, Time now) {
  Trial& trial = trials_[stream];
  trial.underWay = false;
  trial.reached = trial.reached && isSilent;
  trial.why = why;
  trial.next = now + kBetweenTries;
}

void TcpPeer::cannotDial(const Error& why) {
  if (!failure_)
    failure_ = Error(why.code(), base::message("rank ", place_.rank, " cannot connect to rank ",
                                               peer_, ": ", why.what(), ways()));
  giveUp("no connection can be made");
}

void TcpPeer::giveUp(const char* why) {
  for (const auto& stream : streams_) stream->breakOff(why);
}

void TcpPeer::noteBreaks(Time now) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i]->made())
      trials_[i].until.reset();
    else if (!streams_[i]->ended())
      beginTrial(i, now, false);
  }
}

void TcpPeer::listDials(std::vector<Dial>& dials, Time now) {
  if (!isUsed_ || !serves()) return;
  noteBreaks(now);
  for (uint32_t i = 0; i < streams_.size(); ++i) {
    Trial& trial = trials_[i];
    if (!trial.until) continue;
    if (now >= *trial.until && streams_[i]->connected()) {
      streams_[i]->breakOff("the other end was let in, and did not say what it has");
      trial.until.reset();
      beginTrial(i, now, false);
    }
    // A stopped process is there: the deadline of the operation that waits for it holds.
    if (now >= *trial.until && trial.reached) {
      trial.until = now + std::max(place_.options.reconnect, kLeastTrial);
      trial.reached = trial.underWay;
    }
    if (trial.fruitless >= kMostFruitless) {
      lost_ = base::message("its connection breaks again and again, and nothing goes through: ",
                            streams_[i]->broken(), ways());
      return giveUp("the peer is lost");
    }
    if (now >= *trial.until) {
      const std::string& broken = streams_[i]->broken();
      const std::string& why = trial.why.empty() ? "nobody connected" : trial.why;
      lost_ = streams_[i]->wasMade()
                  ? base::message(
                        "its connection broke: ", broken, "; it was not made again within ",
                        place_.options.reconnect.count(), " ms (TUTTI_RECONNECT_MS): ", why, ways())
                  : base::message("no connection with it was made: ", why, ways());
      return giveUp("the peer is lost");
    }
    const bool isLast = streams_[i]->wasMade() && place_.options.reconnect.count() == 0;
    if (trial.underWay || streams_[i]->connected() || now < trial.next || isLast) continue;
    trial.underWay = true;
    trial.reached = false;
    const ConnectionName name{streams_[i]->lastGeneration() + 1, place_.rank};
    streams_[i]->noteTry(name.generation);
    dials.push_back({.peer = peer_,
                     .stream = i,
                     .name = name,
                     .place = theirs_->place,
                     .credentials = {.secret = secret_},
                     .claim = claim(i, name.generation)});
  }
}

void TcpPeer::lookForSilence(Time now) {
  for (const auto& stream : streams_) stream->lookForSilence(now, kSilence);
}

// ---- sending

TcpStream& TcpPeer::streamOf(uint32_t channel, uint32_t number, uint32_t bytes) {
  const size_t index = bytes < kSpreadBytes ? 0 : (channel + number) % streams_.size();
  return *streams_[index];
}

bool TcpPeer::left() const {
  return std::ranges::any_of(streams_, [](const auto& stream) { return stream->ended(); });
}

bool TcpPeer::post() {
  if (!serves() || left()) return false;
  for (size_t c = 0; c < sends_.size(); ++c)
    while (sends_[c] && sends_[c]->published()) {
      const uint32_t number = sends_[c]->nextNumber();
      const auto channel = static_cast<uint16_t>(c);
      TcpStream& stream = streamOf(channel, number, sends_[c]->bytesOf(number));
      if (stream.isFull()) break;
      sends_[c]->post();
      stream.queue({FrameType::Data, channel, number});
    }
  return send();
}

bool TcpPeer::send() {
  bool moved = false;
  if (serves())
    for (const auto& stream : streams_) moved |= stream->send();
  return moved;
}

bool TcpPeer::owesCredits(uint32_t least) const {
  return std::ranges::any_of(receives_,
                             [&](const auto& link) { return link && link->owed() >= least; });
}

bool TcpPeer::tell(bool all) {
  if (!serves() || streams_.empty()) return false;
  bool any = false;
  if (streams_[0]->made() && owesCredits(all ? 1 : place_.layout.slotCount / 2)) {
    streams_[0]->wantState();
    any = true;
  }
  for (const auto& stream : streams_)
    if (stream->made() && (stream->owesAnswer() || (all && stream->owesAnything()))) {
      stream->wantState();
      any = true;
    }
  return any && send();
}

const std::byte* TcpPeer::fill(const Counted& counted, TcpFrame& frame) {
  if (counted.type != FrameType::Data) return nullptr;
  const auto& back = receives_[counted.channel];
  frame.credit = back ? back->tell() : 0;
  return sends_[counted.channel]->fill(counted.number, frame);
}

void TcpPeer::listCredits(std::vector<CreditWord>& credits) {
  for (size_t c = 0; c < receives_.size(); ++c)
    if (receives_[c]) credits.push_back({static_cast<uint32_t>(c), receives_[c]->tell()});
}

void TcpPeer::onLacked(const Counted& counted) const {
  if (counted.type == FrameType::Data && sends_[counted.channel]->isTaken(counted.number))
    base::fail(ErrorCode::Refused, "lacks message ", counted.number, " on channel ",
               counted.channel, ", which it has taken");
}

void TcpPeer::onReceived(const Counted& counted) {
  if (counted.type == FrameType::Data) sends_[counted.channel]->onReceived(counted.number);
}

bool TcpPeer::settled() const {
  if (!serves() || left()) return true;
  return std::ranges::none_of(sends_, [](const auto& l) { return l && l->published(); }) &&
         std::ranges::all_of(streams_, [](const auto& s) { return s->settled(); });
}

void TcpPeer::leave() {
  if (!isUsed_ || !serves()) return;
  post();
  for (const auto& stream : streams_)
    if (stream->connected() || !stream->settled()) stream->queue({FrameType::Goodbye, 0, 0});
  send();
}

void TcpPeer::stop() {
  stopped_ = true;
  giveUp("this rank has stopped");
}

// ---- receiving

bool TcpPeer::receive(TcpStream& stream, size_t limitBytes, Time now) {
  if (!serves()) return false;
  try {
    const bool moved = stream.receive(limitBytes);
    if (stream.made()) trials_[stream.index()].until.reset();
    if (!stream.connected()) noteBreaks(now);
    return moved;
  } catch (const Error& error) {
    refuse(error);
  } catch (const std::bad_alloc&) {
    refuse(Error(ErrorCode::OutOfMemory,
                 base::message("there is no memory for ", place_.layout.slotCount, " slots of ",
                               place_.layout.slotBytes, " bytes")));
  }
  return true;
}

void TcpPeer::refuse(const Error& error) {
  if (!failure_)
    failure_ =
        Error(error.code(), base::message("rank ", place_.rank, " got from rank ", peer_,
                                          " by tcp what no correct rank sends: it ", error.what()));
  giveUp("the peer was refused");
}

std::byte* TcpPeer::onBegin(const TcpStream& stream, const TcpFrame& frame) {
  if (frame.channel >= receives_.size() || !acceptCredit(frame.channel, frame.credit) ||
      &streamOf(frame.channel, frame.number, frame.bytes) != &stream)
    base::fail(ErrorCode::Refused, "sent a message on channel ", frame.channel, " of ",
               receives_.size(), " with credit ", frame.credit, " on stream ", stream.index());
  std::byte* const to = receiveLink(frame.channel).begin(frame, stream.index());
  if (!to)
    base::fail(ErrorCode::Refused, "sent message ", frame.number, " of ", frame.bytes,
               " bytes, for which there is no slot");
  return to;
}

void TcpPeer::onComplete(const TcpFrame& frame) { receiveLink(frame.channel).complete(frame); }

void TcpPeer::onCredits(std::span<const CreditWord> credits) {
  for (const CreditWord& word : credits)
    if (word.channel >= sends_.size() || !acceptCredit(word.channel, word.messages))
      base::fail(ErrorCode::Refused, "gave credit ", word.messages, " on channel ", word.channel);
}

// Nothing was sent on a ring that was not made. What is not at the other end cannot be taken there,
// and is still read here.
bool TcpPeer::acceptCredit(uint32_t channel, uint32_t messages) {
  const auto& link = sends_[channel];
  if (!link) return messages == 0;
  if (link->isTaken(messages)) return true;  // overtaken by a later one
  return std::ranges::none_of(
             streams_, [&](const auto& each) { return each->holdsBack(channel, messages); }) &&
         link->onCredit(messages);
}

// ---- failure

void TcpPeer::throwFailure() {
  if (failure_) throw Error(*failure_);
  if (!lost_ || reported_) return;
  reported_ = true;
  throw ConnectionLost(peer_, *lost_);
}

size_t TcpPeer::rings() const {
  const auto isThere = [](const auto& link) { return link != nullptr; };
  return static_cast<size_t>(std::ranges::count_if(sends_, isThere) +
                             std::ranges::count_if(receives_, isThere));
}

}  // namespace tutti::transports::tcp
