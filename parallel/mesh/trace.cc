#include "parallel/mesh/trace.h"

namespace tutti::parallel {

std::vector<Trace::Event> Trace::streamEvents() const {
  std::vector<Event> ended;
  for (const OnStream& event : onStreams_)
    if (event.ended.load(std::memory_order_acquire)) ended.push_back(event.event);
  return ended;
}

bool Trace::hasRoom() {
  if (events_.size() + onStreams_.size() < kMostEvents) return true;
  ++dropped_;
  return false;
}

void Trace::add(const Event& event) {
  if (on_ && hasRoom()) events_.push_back(event);
}

Trace::Span::Span(Trace& trace, const char* name, int chunk, int microBatch)
    : trace_(trace), event_{.name = name, .chunk = chunk, .microBatch = microBatch} {
  if (trace_.on_) event_.begin = Clock::now();
}

Trace::Span::~Span() {
  if (!trace_.on_ || event_.begin == Clock::time_point{}) return;
  event_.end = Clock::now();
  trace_.add(event_);
}

Trace::OnStreamSpan::OnStreamSpan(Trace& trace, Stream& stream, const char* name, Lane lane)
    : stream_(stream) {
  if (!trace.on_ || !trace.hasRoom()) return;
  event_ = &trace.onStreams_.emplace_back();
  event_->event = {.name = name, .lane = lane};
  stream_.enqueue([event = event_] { event->event.begin = Clock::now(); });
}

Trace::OnStreamSpan::~OnStreamSpan() {
  if (event_ == nullptr) return;
  stream_.enqueue([event = event_] {
    event->event.end = Clock::now();
    event->ended.store(true, std::memory_order_release);
  });
}

Trace::Wait::Wait(Trace& trace, const char* name, Awaited awaited)
    : trace_(trace), name_(name), awaited_(awaited), begin_(Clock::now()) {
  ++trace_.waits_;
}

Trace::Wait::~Wait() {
  const Clock::time_point end = Clock::now();
  if (--trace_.waits_ > 0) return;
  trace_.waited_[awaited_] += std::chrono::duration<double>(end - begin_).count();
  trace_.add({.name = name_, .begin = begin_, .end = end, .waitsFor = awaited_});
}

}  // namespace tutti::parallel
