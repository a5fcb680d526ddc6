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

void receiveBytes(tutti::Communicator& from, void* data, size_t bytes, tutti::StreamRef stream) {
  from.receive({.recv = data, .count = bytes, .type = tutti::DataType::UInt8, .peer = 0}, stream);
}

void sendBytes(tutti::Communicator& to, const void* data, size_t bytes, tutti::StreamRef stream) {
  to.send({.send = data, .count = bytes, .type = tutti::DataType::UInt8, .peer = 1}, stream);
}

}  // namespace

MessageBoard::MessageBoard(int rank, int size, Open open)
    : rank_(rank), open_(std::move(open)), reading_(static_cast<size_t>(size)) {
  for (int peer = 0; peer < size; ++peer) {
    outgoing_.push_back(std::make_shared<Channel>(
        [this, peer](std::stop_token stop) { return open_(rank_, peer, std::move(stop)); }));
    incoming_.push_back(std::make_shared<Channel>(
        [this, peer](std::stop_token stop) { return open_(peer, rank_, std::move(stop)); }));
  }
}

MessageBoard::~MessageBoard() { close(Clock::now()); }

void MessageBoard::send(const std::shared_ptr<MessageTransfer>& transfer) {
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
      channel->behind(*to, [transfer, header](std::exception_ptr error) {
        transfer->finish(std::move(error));
      });
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
  if (takeKept(transfer)) return;
  const int peer = transfer->peer;
  for (int source = 0; source < static_cast<int>(incoming_.size()); ++source)
    if (source != rank_ && (peer == source || peer == MessageTransfer::kAnyRank)) read(source);
}

/// Otherwise it waits.
bool MessageBoard::takeKept(const std::shared_ptr<MessageTransfer>& transfer) {
  std::list<Kept> found;
  {
    std::lock_guard lock(mutex_);
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
  channel->use([this, channel, source](tutti::Communicator* from, tutti::StreamRef stream,
                                       const std::exception_ptr& failure) {
    if (failure) return lose(source, failure);
    try {
      receiveBytes(*from, channel->header.data(), channel->header.size(), stream);
      channel->behind(*from, [this, source](const std::exception_ptr& error) {
        if (error) return lose(source, error);
        headerRead(source);
      });
    } catch (...) {
      lose(source, std::current_exception());
    }
  });
}

void MessageBoard::headerRead(int source) {
  Channel& channel = *incoming_[static_cast<size_t>(source)];
  const Header header = readHeader(channel);
  std::shared_ptr<MessageTransfer> transfer;
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
    return payloadRead(source, nullptr);
  }
  // What does not fit goes aside, and the receive hears of it.
  const auto aside = std::make_shared<Kept>(Kept{source, header.label, {}});
  const bool fits = transfer && transfer->bytes == header.bytes;
  if (!fits) aside->data.resize(header.bytes);
  void* const to = fits ? transfer->data : aside->data.data();
  channel.use([=, this, &channel, bytes = header.bytes](tutti::Communicator* from,
                                                        tutti::StreamRef stream,
                                                        const std::exception_ptr& failure) {
    try {
      if (failure) std::rethrow_exception(failure);
      receiveBytes(*from, to, bytes, stream);
      channel.behind(*from, [=, this](const std::exception_ptr& error) {
        if (error) {
          if (transfer) transfer->finish(error);
          return lose(source, error);
        }
        if (transfer && !fits) transfer->finish(wrongSize(*transfer, source, bytes));
        if (!transfer) keep(std::move(*aside));
        payloadRead(source, fits ? transfer : nullptr);
      });
    } catch (...) {
      if (transfer) transfer->finish(std::current_exception());
      lose(source, std::current_exception());
    }
  });
}

/// Of a transfer, or of none that waits.
void MessageBoard::payloadRead(int source, const std::shared_ptr<MessageTransfer>& transfer) {
  if (transfer) transfer->finish();
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

void MessageBoard::lose(int source, const std::exception_ptr& error) {
  std::list<std::shared_ptr<MessageTransfer>> lost;
  {
    std::lock_guard lock(mutex_);
    reading_[static_cast<size_t>(source)] = false;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      const auto next = std::next(each);
      const int peer = (*each)->peer;
      if (peer == source || peer == MessageTransfer::kAnyRank)
        lost.splice(lost.end(), waiting_, each);
      each = next;
    }
  }
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
}

void MessageBoard::abort() {
  for (const auto& channels : {outgoing_, incoming_})
    for (const auto& channel : channels) channel->abort();
}

}  // namespace tutti_torch
