#pragma once

// Trace: how long the thread that computes waits for other ranks, and, when it is on, what it does
// when, and what its streams do, for a picture of all ranks (engine/trace_file.h). Every wait costs
// two readings of the clock; what is recorded costs them, and memory, only when it is on.
//
// Spans have the words of the library: forward, backward, weights, send, receive, all_reduce, ...
// Those that are inside others end before these.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <tutti/device.h>
#include "parallel/mesh/awaited.h"

namespace tutti::parallel {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Of a thread of this rank, or of a stream: the store's, the pipeline's, context parallelism's.
  enum class Lane : uint8_t { Compute, Checkpoint, Store, Stages, Positions };
  struct Event {
    const char* name;  ///< a literal
    Clock::time_point begin, end;
    Lane lane = Lane::Compute;
    int chunk = -1, microBatch = -1;       ///< where it is about them
    std::optional<Awaited> waitsFor = {};  ///< where it is a wait for other ranks
  };
  /// Written by the stream until it has ended.
  struct OnStream {
    Event event;
    std::atomic<bool> ended{false};
  };
  /// More are counted, and not kept.
  static constexpr size_t kMostEvents = size_t{1} << 18;

  void start() { on_ = true; }
  bool on() const { return on_; }
  const std::vector<Event>& events() const { return events_; }
  /// Those on streams that have ended.
  std::vector<Event> streamEvents() const;
  int64_t dropped() const { return dropped_; }
  /// Since it was made, for other ranks.
  const Waited& waited() const { return waited_; }

  void add(const Event& event);

  /// What this thread does while it lives.
  class Span {
   public:
    Span(Trace& trace, const char* name, int chunk = -1, int microBatch = -1);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Trace& trace_;
    Event event_;
  };

  /// The collectives that are put on a stream while it lives: from when the stream comes to them
  /// until they have ended, which may be long behind its destructor. The stream ends before the
  /// trace does.
  class OnStreamSpan {
   public:
    OnStreamSpan(Trace& trace, Stream& stream, const char* name, Lane lane);
    ~OnStreamSpan();
    OnStreamSpan(const OnStreamSpan&) = delete;
    OnStreamSpan& operator=(const OnStreamSpan&) = delete;

   private:
    Stream& stream_;
    OnStream* event_ = nullptr;
  };

  /// The same, of a wait for other ranks; inside another one it is part of that, for whomever.
  class Wait {
   public:
    Wait(Trace& trace, const char* name, Awaited awaited);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Trace& trace_;
    const char* const name_;
    const Awaited awaited_;
    const Clock::time_point begin_;
  };

 private:
  /// False: one more is counted as dropped.
  bool hasRoom();

  bool on_ = false;
  int waits_ = 0;  // that have begun
  Waited waited_;
  std::vector<Event> events_;
  std::deque<OnStream> onStreams_;  // each stays where it is
  int64_t dropped_ = 0;
};

}  // namespace tutti::parallel
