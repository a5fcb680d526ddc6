#include "messages.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "channel.h"

namespace tutti_torch {
namespace {

struct Header {
  Label label;
  uint64_t bytes;
};
constexpr size_t kShortBytes = Channel::kHeaderBytes - sizeof(Header);

std::array<std::byte, Channel::kHeaderBytes> headerOf(const MessageTransfer& transfer) {
  std::array<std::byte, Channel::kHeaderBytes> raw{};
  const Header header{transfer.label, transfer.bytes};
  std::memcpy(raw.data(), &header, sizeof(header));
  if (transfer.bytes > 0 && transfer.bytes <= kShortBytes)
    std::memcpy(raw.data() + sizeof(header), transfer.data, transfer.bytes);
  return raw;
}

Header readHeader(const Channel& channel) {
  Header header;
  std::memcpy(&header, channel.header.data(), sizeof(header));
  return header;
}

const std::byte* shortPayload(const Channel& channel) {
  return channel.header.data() + sizeof(Header);
}

std::exception_ptr wrongSize(const MessageTransfer& transfer, int source, size_t bytes) {
  return std::make_exception_ptr(tutti::Error(
      tutti::ErrorCode::Mismatch, "recv of " + std::to_string(transfer.bytes) + " bytes with tag " +
                                      std::to_string(transfer.label.tag) + ": rank " +
                                      std::to_string(source) + " sent " + std::to_string(bytes) +
                                      " bytes"));
}

void deliver(MessageTransfer& transfer, int source, const std::byte* data, size_t bytes) {
  if (bytes != transfer.bytes) return transfer.finish(wrongSize(transfer, source, bytes));
  if (bytes > 0) std::memcpy(transfer.data, data, bytes);
  transfer.finish();
}

// Both sides cut a payload alike.
constexpr size_t kPieceBytes = size_t{16} << 20;

size_t pieceAt(size_t offset, size_t bytes) { return std::min(kPieceBytes, bytes - offset); }

void receiveBytes(tutti::Communicator& from, void* data, size_t bytes, tutti::StreamRef stream) {
  auto* const to = static_cast<std::byte*>(data);
  for (size_t at = 0; at < bytes; at += kPieceBytes)
    from.receive(
        {.recv = to + at, .count = pieceAt(at, bytes), .type = tutti::DataType::UInt8, .peer = 0},
        stream);
}

void sendBytes(tutti::Communicator& to, const void* data, size_t bytes, tutti::StreamRef stream) {
  const auto* const from = static_cast<const std::byte*>(data);
  for (size_t at = 0; at < bytes; at += kPieceBytes)
    to.send(
        {.send = from + at, .count = pieceAt(at, bytes), .type = tutti::DataType::UInt8, .peer = 1},
        stream);
}

std::exception_ptr shutDown() {
  return std::make_exception_ptr(
      tutti::Error(tutti::ErrorCode::Aborted, "the process group was shut down"));
}

}  // namespace

void MessageTransfer::tell(std::vector<std::function<void()>> then) {
  for (auto& each : then) {
    const auto job = std::make_shared<QueuedJob>(milliseconds(0), [] {});
    job->whenDone(std::move(each));
    ends->push(job);
  }
}

MessageBoard::MessageBoard(int rank, int size, Open open)
    : rank_(rank),
      open_(std::move(open)),
      ends_(std::make_shared<JobQueue>()),
      reading_(static_cast<size_t>(size)),
      lost_(static_cast<size_t>(size)) {
  for (int peer = 0; peer < size; ++peer) {
    outgoing_.push_back(std::make_shared<Channel>(
        [this, peer](std::stop_token stop) { return open_(rank_, peer, std::move(stop)); }));
    incoming_.push_back(std::make_shared<Channel>(
        [this, peer](std::stop_token stop) { return open_(peer, rank_, std::move(stop)); }));
  }
}

MessageBoard::~MessageBoard() { close(Clock::now()); }

void MessageBoard::send(const std::shared_ptr<MessageTransfer>& transfer) {
  transfer->ends = ends_;
  const int peer = transfer->peer;
  if (peer == rank_) return sendToSelf(transfer);
  const auto& channel = outgoing_[static_cast<size_t>(peer)];
  channel->use([channel = channel.get(), transfer](tutti::Communicator* to, tutti::StreamRef stream,
                                                   const std::exception_ptr& failure) {
    if (transfer->begun.exchange(true)) return;  // given up
    if (failure) return transfer->finish(failure);
    try {
      const auto header =
          std::make_shared<std::array<std::byte, Channel::kHeaderBytes>>(headerOf(*transfer));
      sendBytes(*to, header->data(), header->size(), stream);
      if (transfer->bytes > kShortBytes) sendBytes(*to, transfer->data, transfer->bytes, stream);
      channel->behind(
          *to, [transfer, header](const std::exception_ptr& error) { transfer->finish(error); });
    } catch (...) {
      transfer->finish(std::current_exception());
    }
  });
}

void MessageBoard::sendToSelf(const std::shared_ptr<MessageTransfer>& transfer) {
  const auto* const data = static_cast<const std::byte*>(transfer->data);
  std::shared_ptr<MessageTransfer> receiver;
  {
    std::lock_guard lock(mutex_);
    receiver = match(rank_, transfer->label);
    if (!receiver) kept_.push_back({rank_, transfer->label, {data, data + transfer->bytes}});
  }
  if (receiver) deliver(*receiver, rank_, data, transfer->bytes);
  transfer->finish();
}

void MessageBoard::receive(const std::shared_ptr<MessageTransfer>& transfer) {
  transfer->ends = ends_;
  if (takeKept(transfer)) return;
  const int peer = transfer->peer;
  for (int source = 0; source < static_cast<int>(incoming_.size()); ++source)
    if (source != rank_ && (peer == source || peer == MessageTransfer::kAnyRank)) read(source);
}

/// Otherwise it waits.
bool MessageBoard::takeKept(const std::shared_ptr<MessageTransfer>& transfer) {
  std::list<Kept> found;
  {
    std::unique_lock lock(mutex_);
    if (closed_) {
      lock.unlock();
      transfer->finish(shutDown());
      return true;
    }
    const auto message = std::ranges::find_if(kept_, [&](const Kept& each) {
      return each.label == transfer->label &&
             (transfer->peer == each.source || transfer->peer == MessageTransfer::kAnyRank);
    });
    if (message == kept_.end()) {
      waiting_.push_back(transfer);
      return false;
    }
    found.splice(found.end(), kept_, message);
    transfer->peer = message->source;
  }
  deliver(*transfer, found.front().source, found.front().data.data(), found.front().data.size());
  return true;
}

bool MessageBoard::isWanted(int source) const {
  return !closed_ && std::ranges::any_of(waiting_, [&](const auto& each) {
    return each->peer == source || each->peer == MessageTransfer::kAnyRank;
  });
}

std::shared_ptr<MessageTransfer> MessageBoard::match(int source, const Label& label) {
  const auto found = std::ranges::find_if(waiting_, [&](const auto& each) {
    return each->label == label &&
           (each->peer == source || each->peer == MessageTransfer::kAnyRank);
  });
  if (found == waiting_.end()) return nullptr;
  auto transfer = *found;
  waiting_.erase(found);
  transfer->begun = true;
  transfer->peer = source;
  return transfer;
}

/// Reads the next header of that sender, unless it is read already or nobody wants it.
void MessageBoard::read(int source) {
  const auto at = static_cast<size_t>(source);
  {
    std::lock_guard lock(mutex_);
    if (reading_[at] || !isWanted(source)) return;
    reading_[at] = true;
  }
  Channel* const channel = incoming_[at].get();
  readOn(
      source, nullptr,
      [channel](tutti::Communicator& from, tutti::StreamRef stream) {
        receiveBytes(from, channel->header.data(), channel->header.size(), stream);
      },
      [this, source] { headerRead(source); });
}

/// Enqueues on that sender's channel, and calls `then` when that has ended. What fails loses the
/// sender, and `transfer`.
void MessageBoard::readOn(int source, const Transfer& transfer, Enqueue enqueue,
                          std::function<void()> then) {
  Channel* const channel = incoming_[static_cast<size_t>(source)].get();
  channel->use([=, this](tutti::Communicator* from, tutti::StreamRef stream,
                         const std::exception_ptr& failure) {
    try {
      if (failure) std::rethrow_exception(failure);
      enqueue(*from, stream);
      channel->behind(*from, [=, this](const std::exception_ptr& error) {
        try {
          if (error) std::rethrow_exception(error);
          then();
        } catch (...) {
          lose(source, transfer, std::current_exception());
        }
      });
    } catch (...) {
      lose(source, transfer, std::current_exception());
    }
  });
}

void MessageBoard::headerRead(int source) {
  Channel& channel = *incoming_[static_cast<size_t>(source)];
  const Header header = readHeader(channel);
  Transfer transfer;
  {
    std::lock_guard lock(mutex_);
    transfer = match(source, header.label);
  }
  if (header.bytes <= kShortBytes) {
    const std::byte* const data = shortPayload(channel);
    if (transfer)
      deliver(*transfer, source, data, header.bytes);
    else
      keep({source, header.label, {data, data + header.bytes}});
    return messageRead(source);
  }
  if (!transfer || transfer->bytes != header.bytes)
    return readPiece(
        source, std::make_shared<Aside>(Aside{{source, header.label, {}}, header.bytes, transfer}));
  readOn(
      source, transfer,
      [transfer](tutti::Communicator& from, tutti::StreamRef stream) {
        receiveBytes(from, transfer->data, transfer->bytes, stream);
      },
      [this, source, transfer] {
        transfer->finish();
        messageRead(source);
      });
}

/// The header's size is only believed as its bytes come.
void MessageBoard::readPiece(int source, const std::shared_ptr<Aside>& aside) {
  readOn(
      source, aside->receive,
      [aside](tutti::Communicator& from, tutti::StreamRef stream) {
        auto& data = aside->message.data;
        const size_t at = data.size(), piece = pieceAt(at, aside->bytes);
        data.resize(at + piece);
        receiveBytes(from, data.data() + at, piece, stream);
      },
      [this, source, aside] {
        if (aside->message.data.size() < aside->bytes) return readPiece(source, aside);
        asideRead(source, *aside);
      });
}

void MessageBoard::asideRead(int source, Aside& aside) {
  if (aside.receive)
    aside.receive->finish(wrongSize(*aside.receive, source, aside.bytes));
  else
    keep(std::move(aside.message));
  messageRead(source);
}

void MessageBoard::messageRead(int source) {
  {
    std::lock_guard lock(mutex_);
    reading_[static_cast<size_t>(source)] = false;
  }
  read(source);
}

/// Its receive may have come while its payload was read.
void MessageBoard::keep(Kept message) {
  std::shared_ptr<MessageTransfer> transfer;
  {
    std::lock_guard lock(mutex_);
    transfer = match(message.source, message.label);
    if (!transfer) {
      kept_.push_back(std::move(message));
      return;
    }
  }
  deliver(*transfer, message.source, message.data.data(), message.data.size());
}

/// Nothing more comes from there. A receive from any rank fails with the last of the others.
void MessageBoard::lose(int source, const Transfer& transfer, const std::exception_ptr& error) {
  std::list<Transfer> lost;
  {
    std::lock_guard lock(mutex_);
    reading_[static_cast<size_t>(source)] = false;
    lost_[static_cast<size_t>(source)] = true;
    const bool isLast = std::ranges::count(lost_, true) + 1 == std::ssize(lost_);
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      const auto next = std::next(each);
      const int peer = (*each)->peer;
      if (peer == source || (isLast && peer == MessageTransfer::kAnyRank))
        lost.splice(lost.end(), waiting_, each);
      each = next;
    }
  }
  incoming_[static_cast<size_t>(source)]->abort();  // it may be in the middle of a message
  if (transfer) transfer->finish(error);
  for (const auto& each : lost) each->finish(error);
}

// One that is under way has its buffer in use until its channel has ended.
void MessageBoard::giveUp(const std::shared_ptr<MessageTransfer>& transfer,
                          const std::exception_ptr& error) {
  {
    std::lock_guard lock(mutex_);
    std::erase(waiting_, transfer);
  }
  if (!transfer->begun.exchange(true)) return transfer->finish(error);
  const int peer = transfer->peer;
  if (peer < 0 || peer == rank_) return;
  outgoing_[static_cast<size_t>(peer)]->abort();
  incoming_[static_cast<size_t>(peer)]->abort();
}

void MessageBoard::close(Clock::time_point until) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
  }
  for (const auto& channel : outgoing_) channel->close(until);
  for (const auto& channel : incoming_) channel->close(Clock::now());
  std::list<Transfer> left;  // from this rank itself
  {
    std::lock_guard lock(mutex_);
    left.swap(waiting_);
  }
  for (const auto& each : left) each->finish(shutDown());
  ends_->close();
}

void MessageBoard::abort() {
  for (const auto& channels : {outgoing_, incoming_})
    for (const auto& channel : channels) channel->abort();
}

}  // namespace tutti_torch
