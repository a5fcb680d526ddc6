#pragma once

// One end of a ring in memory of its own, for transports that copy from the sender's memory to the
// receiver's: slots, and the credit word that the ring of this end uses.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "transports/connection.h"

namespace tutti::transports {

class RingStorage {
 public:
  /// `firstNumber`: of the last message before the first.
  explicit RingStorage(const RingLayout& layout, uint32_t firstNumber = 0)
      : slotCount_(layout.slotCount),
        stride_(slotStride(layout.slotBytes)),
        slots_(static_cast<std::byte*>(
            ::operator new (stride_* slotCount_, std::align_val_t{kLineBytes}))),
        zeroCopy_(slotCount_, nullptr),
        credit_(firstNumber),
        completed_(firstNumber) {
    for (uint32_t i = 0; i < slotCount_; ++i) {
      auto* header = new (slots_.get() + i * stride_) SlotHeader{};
      // Any number that no coming message of this slot has.
      header->sequence.store(firstNumber, std::memory_order_relaxed);
      noteOf(header) = 0;
    }
  }
  RingStorage(const RingStorage&) = delete;
  RingStorage& operator=(const RingStorage&) = delete;

  /// Lives as long as this does.
  RingMemory memory() {
    return {slots_.get(), &credit_, slotCount_, stride_, zeroCopy_.data(), &completed_};
  }
  /// The same for a receiver, which may say where payloads go.
  RingMemory memoryWithPlaces() {
    if (!places_) places_ = std::make_unique<PayloadPlace[]>(slotCount_);
    RingMemory all = memory();
    all.places = places_.get();
    return all;
  }
  /// With memoryWithPlaces().
  PayloadPlace& place(uint32_t message) { return places_[index(message)]; }
  std::atomic<uint32_t>& credit() { return credit_; }
  const std::atomic<uint32_t>& credit() const { return credit_; }
  std::atomic<uint32_t>& completed() { return completed_; }
  uint32_t slotCount() const { return slotCount_; }
  /// Which slot a message has, counted from 0.
  uint32_t index(uint32_t message) const { return (message - 1) & (slotCount_ - 1); }
  SlotHeader* slot(uint32_t message) const {
    return reinterpret_cast<SlotHeader*>(slots_.get() + index(message) * stride_);
  }
  /// The payload of a message was sent zero-copy: it lies outside its slot.
  bool isZeroCopy(uint32_t message) const { return zeroCopy_[index(message)] != nullptr; }
  /// Copies the payload of a zero-copy message into its slot, which is sent in its place.
  void keep(uint32_t message) {
    SlotHeader* const s = slot(message);
    std::memcpy(payloadOf(s, s->bytes), zeroCopy_[index(message)], s->bytes);
    zeroCopy_[index(message)] = nullptr;
  }
  /// 0 of one that shares the header's line.
  uint32_t note(uint32_t message) const {
    SlotHeader* const s = slot(message);
    return s->bytes > kInlineBytes ? noteOf(s) : 0;
  }
  const std::byte* payload(uint32_t message) const {
    SlotHeader* const s = slot(message);
    return isZeroCopy(message) ? zeroCopy_[index(message)] : payloadOf(s, s->bytes);
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kLineBytes}); }
  };
  const uint32_t slotCount_;
  const size_t stride_;
  const std::unique_ptr<std::byte, Free> slots_;
  std::vector<const std::byte*> zeroCopy_;  // by slot
  std::unique_ptr<PayloadPlace[]> places_;  // likewise
  alignas(2 * kLineBytes) std::atomic<uint32_t> credit_;
  std::atomic<uint32_t> completed_;
};

/// Fills in what came with a message, before its number is stored.
inline void setNote(SlotHeader* slot, uint32_t bytes, uint32_t note) {
  if (bytes > kInlineBytes) noteOf(slot) = note;
}

/// Message numbers wrap: a is later than b when it is less than half the circle ahead.
inline bool laterMessage(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

}  // namespace tutti::transports
