#include "transports/ucx/peer.h"

#include <algorithm>
#include <new>

#include "src/base/check.h"
#include "transports/ucx/library.h"
#include "transports/ucx/settings.h"

namespace tutti::transports::ucx {

/// On its way until it is done, whatever becomes of the peer.
class UcxPeer::Notice final : public UcxOperation {
 public:
  Notice(const NoticeHeader& head, std::vector<CreditEntry> entries)
      : header(head), credits(std::move(entries)) {}
  void done(ucs_status_t) noexcept override { delete this; }
  const NoticeHeader header;
  const std::vector<CreditEntry> credits;
};

UcxPeer::UcxPeer(Worker& worker, int rank, int peer, const RingLayout& layout,
                 std::vector<UcxPeer*>& used)
    : worker_(worker),
      rank_(rank),
      peer_(peer),
      layout_(layout),
      sink_(worker.addSink(this)),
      sends_(static_cast<size_t>(layout.channels)),
      receives_(static_cast<size_t>(layout.channels)),
      usedPeers_(used) {}

// Also a peer that was not used from here is told, when it uses us: what it then sees of this
// worker's end is no loss.
UcxPeer::~UcxPeer() {
  worker_.removeSink(sink_);
  try {
    if (used_ && addressed() && !left_) {
      post(true);
      connect();
      sendNotice({}, true);
    }
  } catch (const std::exception&) {  // it is left without a word
  }
  if (addressed()) worker_.removePeer(theirs_->worker);
  for (auto& link : sends_)
    if (link) worker_.keep(std::move(link));
  for (auto& link : receives_)
    if (link) worker_.keep(std::move(link));
}

void UcxPeer::setAddress(UcxAddressBlob theirs) {
  worker_.addPeer(theirs.worker, theirs.sources);
  theirs_ = std::move(theirs);
}

// ---- rings

void UcxPeer::use() {
  if (used_) return;
  used_ = true;
  usedPeers_.push_back(this);
}

void UcxPeer::connect() {
  if (!connection_)
    connection_ = &worker_.connection(theirs_->worker, peer_,
                                      base::message("rank ", rank_, " cannot reach rank ", peer_),
                                      ways() + kAdvice);
}

std::string UcxPeer::ways() const {
  return base::message("; rank ", rank_, " goes by ", worker_.devices(), "; rank ", peer_,
                       " goes by ", theirs_->devices);
}

// The notice tells the peer that it is used, and makes UCX connect: so the loss of a peer is seen
// that has sent nothing yet.
void UcxPeer::open() {
  use();
  if (connection_) return;
  connect();
  sendNotice({}, false);
}

SendRing& UcxPeer::sendRing(int channel) {
  open();
  return sendLink(channel).ring();
}

SendLink& UcxPeer::sendLink(int channel) {
  auto& link = sends_[static_cast<size_t>(channel)];
  if (!link) link = std::make_unique<SendLink>(layout_, channel);
  return *link;
}

ReceiveRing& UcxPeer::receiveRing(int channel) {
  open();
  return receiveLink(channel).ring();
}

ReceiveLink& UcxPeer::receiveLink(int channel) {
  auto& link = receives_[static_cast<size_t>(channel)];
  if (!link) link = std::make_unique<ReceiveLink>(layout_);
  return *link;
}

void UcxPeer::goDirect(int channel, const DirectSlots& slots) {
  sendLink(channel).goDirect(slots.leastBytes);
  receiveLink(channel).goDirect(slots);
}

// ---- sending

bool UcxPeer::post(bool idle) {
  if (!reachable()) return false;
  const bool data = postData();
  const bool credits = postCredits(idle);
  return data || credits;
}

bool UcxPeer::postData() {
  bool any = false;
  for (size_t c = 0; c < sends_.size(); ++c)
    while (sends_[c] && reachable() && sends_[c]->published() && sends_[c]->mayGo(*connection_)) {
      sends_[c]->post(worker_, *connection_, theirs_->sink,
                      receives_[c] ? receives_[c]->tell() : 0);
      any = true;
    }
  return any;
}

bool UcxPeer::postCredits(bool all) {
  std::vector<CreditEntry> credits;
  const uint32_t least = all ? 1 : layout_.slotCount / 2;
  for (size_t c = 0; c < receives_.size(); ++c)
    if (receives_[c] && receives_[c]->owed() >= least)
      credits.push_back({static_cast<uint32_t>(c), receives_[c]->tell()});
  if (credits.empty() || !reachable()) return false;
  sendNotice(std::move(credits), false);
  return true;
}

void UcxPeer::sendNotice(std::vector<CreditEntry> credits, bool goodbye) {
  const NoticeHeader header{theirs_->sink, static_cast<uint32_t>(credits.size()), goodbye ? 1U : 0};
  auto* const notice = new Notice(header, std::move(credits));
  worker_.sendNotice(*connection_, notice->header, notice->credits, *notice);
}

bool UcxPeer::sent() const {
  if (!reachable()) return true;
  return std::ranges::none_of(
      sends_, [](const auto& link) { return link && (link->published() || link->busy()); });
}

void UcxPeer::stop() {
  for (auto& link : sends_)
    if (link) link->stop();
  for (auto& link : receives_)
    if (link) link->stop();
}

size_t UcxPeer::zeroCopyUnderWay() const {
  size_t messages = 0;
  for (const auto& link : sends_)
    if (link) messages += link->zeroCopyUnderWay();
  for (const auto& link : receives_)
    if (link) messages += link->directUnderWay();
  return messages;
}

void UcxPeer::disconnect() {
  if (connection_) worker_.disconnect(*connection_);
}

namespace {

/// Lives until it is done, whatever becomes of who waits for it.
class Flushing final : public UcxOperation {
 public:
  explicit Flushing(std::shared_ptr<size_t> left) : left_(std::move(left)) { ++*left_; }
  void done(ucs_status_t) noexcept override {
    --*left_;
    delete this;
  }

 private:
  const std::shared_ptr<size_t> left_;
};

}  // namespace

void UcxPeer::flush(const std::shared_ptr<size_t>& left) {
  if (reachable()) worker_.flush(*connection_, *new Flushing(left));
}

// ---- receiving

void UcxPeer::onData(const DataHeader& header, const Arrived& data) noexcept {
  use();
  try {
    if (!failure_ && !accept(header, data)) failure_ = ErrorCode::Refused;
  } catch (const std::bad_alloc&) {
    failure_ = ErrorCode::OutOfMemory;
  }
}

void UcxPeer::onNotice(const NoticeHeader& header, std::span<const CreditEntry> credits) noexcept {
  use();
  if (!accept(header, credits)) failure_ = ErrorCode::Refused;
}

bool UcxPeer::accept(const DataHeader& header, const Arrived& data) {
  return header.channel < receives_.size() && acceptCredit(header.channel, header.credit) &&
         receiveLink(static_cast<int>(header.channel)).onData(worker_, header, data);
}

bool UcxPeer::accept(const NoticeHeader& header, std::span<const CreditEntry> credits) {
  if (header.goodbye > 1) return false;
  left_ |= header.goodbye == 1;
  return std::ranges::all_of(credits, [&](const CreditEntry& entry) {
    return entry.channel < sends_.size() && acceptCredit(entry.channel, entry.messages);
  });
}

// Nothing was sent on a ring that was not made.
bool UcxPeer::acceptCredit(uint32_t channel, uint32_t messages) {
  return sends_[channel] ? sends_[channel]->onCredit(messages) : messages == 0;
}

// ---- failure

std::optional<ucs_status_t> UcxPeer::loss() const {
  if (connection_ && connection_->lost()) return connection_->status();
  for (const auto& link : receives_)
    if (link && link->failure() != UCS_OK) return link->failure();
  return std::nullopt;
}

void UcxPeer::throwFailure() {
  if (failure_ == ErrorCode::Refused)
    base::fail(*failure_, "rank ", rank_, " got a message from rank ", peer_,
               " over UCX that no correct rank sends");
  if (failure_)
    base::fail(*failure_, "rank ", rank_, " has no memory for ", layout_.slotCount, " slots of ",
               layout_.slotBytes, " bytes, for messages of rank ", peer_);
  if (left_ || reported_) return;
  const auto lost = loss();
  if (!lost) return;
  reported_ = true;
  throw ConnectionLost(
      peer_, base::message("its connection broke: UCX reports \"", library().statusString(*lost),
                           "\"", connection_ && connection_->made() ? "" : ways() + kAdvice));
}

size_t UcxPeer::rings() const {
  const auto isThere = [](const auto& link) { return link != nullptr; };
  return static_cast<size_t>(std::ranges::count_if(sends_, isThere) +
                             std::ranges::count_if(receives_, isThere));
}

}  // namespace tutti::transports::ucx
