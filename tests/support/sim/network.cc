#include "tests/support/sim/network.h"

#include <algorithm>

#include "src/base/check.h"
#include "transports/ring_layout.h"

namespace tutti::transports::sim {
namespace {

std::atomic<uint64_t> lastNetwork{0};

// progress() hands the lock on after so many events.
constexpr int kEventsAtOnce = 256;
// What a packet has besides its payload, for the bandwidth.
constexpr size_t kPacketHeaderBytes = 64;
// Waiting for a confirmation doubles so many times at most. Confirmations halve it again, one by
// one, so that it finds the pace of threads that are slower than the wire.
constexpr int kMaxDoublings = 10;

void halve(Timer& timer) { timer.doublings = std::max(timer.doublings - 1, 0); }

void requireProbability(const char* name, double value) {
  TUTTI_REQUIRE(value >= 0 && value < 1, name, " probability ", value, " is not in [0, 1)");
}

void requireOptions(int size, const SimOptions& o) {
  requireProbability("loss", o.loss);
  requireProbability("reorder", o.reorder);
  requireProbability("duplicate", o.duplicate);
  TUTTI_REQUIRE(o.minLatencyNs >= 0 && o.minLatencyNs <= o.maxLatencyNs &&
                    o.maxLatencyNs <= 1'000'000'000'000,
                "latency from ", o.minLatencyNs, " to ", o.maxLatencyNs, " ns");
  TUTTI_REQUIRE(o.stepNs >= 0, "step of ", o.stepNs, " ns");
  for (const Death& d : o.deaths)
    TUTTI_REQUIRE(d.rank >= 0 && d.rank < size && d.atNs >= 0 && d.afterPackets >= 0,
                  "death of rank ", d.rank, " at ", d.atNs, " ns after ", d.afterPackets,
                  " packets, of ", size, " ranks");
}

}  // namespace

RingLayout chooseLayout(int size, int channels) {
  RingLayout layout;
  layout.channels = channels;
  layout.slotCount = size <= 256 ? 4 : 2;
  layout.slotBytes = size <= 64 ? 4096 : size <= 256 ? 1024 : 512;
  return layout;
}

SimClock::SimClock(Drive drive)
    : drive_(drive), startNs_(drive == Drive::Threads ? base::SteadyClock().nowNs() : 0) {}

int64_t SimClock::nowNs() const {
  return drive_ == Drive::Threads ? base::SteadyClock().nowNs() - startNs_
                                  : virtualNs_.load(std::memory_order_acquire);
}

SimNetwork::SimNetwork(int size, const RingLayout& layout, const SimOptions& options)
    : size_(size),
      layout_(layout),
      options_(options),
      number_(++lastNetwork),
      clock_(options.drive),
      random_(options.seed) {
  TUTTI_REQUIRE(size >= 1 && size <= 65536, size, " ranks: 1 to 65536 are possible");
  requireLayout(layout);
  requireOptions(size, options);
  ranks_.resize(static_cast<size_t>(size));
  for (const Death& d : options.deaths) {
    Rank& rank = ranks_[static_cast<size_t>(d.rank)];
    rank.lastPacket = std::min(rank.lastPacket, d.afterPackets);
    if (d.atNs != kNever) push(d.atNs, Event::Death, {}, d.rank);
  }
}

SimNetwork::~SimNetwork() = default;

SimLink& SimNetwork::link(int from, int to, int channel) {
  std::lock_guard lock(mutex_);
  auto& place = links_[{from, to, channel}];
  if (!place) {
    place = std::make_unique<SimLink>(from, to, channel, layout_, options_.firstNumber);
    for (int end : {from, to}) ranks_[static_cast<size_t>(end)].links.push_back(place.get());
    place->dead =
        !ranks_[static_cast<size_t>(from)].alive || !ranks_[static_cast<size_t>(to)].alive;
  }
  return *place;
}

// ---- what ranks have done since the last look

void SimNetwork::touch(int rank) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  if (r.touched || options_.drive == Drive::Threads) return;
  r.touched = true;
  touched_.push_back(rank);
}

bool SimNetwork::collect(SimLink& link) {
  if (link.dead) return false;
  bool any = false;
  Packet packet;
  while (!link.dead && link.takePublished(packet)) {
    send(packet, Happening::Send);
    start(link.dataTimer, Event::DataTimer, link);
    any = true;
  }
  uint32_t taken = 0;
  if (!link.dead && link.takeCredit(taken)) {
    send({&link, PacketKind::Credit, taken}, Happening::Send);
    start(link.creditTimer, Event::CreditTimer, link);
    any = true;
  }
  return any;
}

bool SimNetwork::collect(Rank& rank) {
  bool any = false;
  for (SimLink* link : rank.links) any |= collect(*link);
  return any;
}

void SimNetwork::collectTouched() {
  for (const int rank : touched_) {
    ranks_[static_cast<size_t>(rank)].touched = false;
    collect(ranks_[static_cast<size_t>(rank)]);
  }
  touched_.clear();
}

// ---- the wire

void SimNetwork::note(Happening what, const Packet& p) {
  trace_.add({nowNs_, what, p.kind, p.link->from, p.link->to, p.link->channel, p.number});
}

void SimNetwork::push(int64_t atNs, Event::Kind kind, Packet packet, int rank) {
  events_.push({atNs, ++lastOrder_, kind, std::move(packet), rank});
}

void SimNetwork::send(const Packet& packet, Happening how) {
  Rank& source = ranks_[static_cast<size_t>(packet.source())];
  if (packet.link->dead) return;
  if (source.packets >= source.lastPacket) return die(packet.source());
  ++source.packets;
  note(how, packet);
  const size_t bytes = kPacketHeaderBytes + (packet.payload ? packet.payload->size() : 0);
  launch(packet, bytes);
  if (random_.chance(options_.duplicate)) {
    note(Happening::Duplicate, packet);
    launch(packet, bytes);
  }
}

void SimNetwork::launch(const Packet& packet, size_t bytes) {
  const size_t direction = packet.forward() ? 0 : 1;
  SimLink& l = *packet.link;
  int64_t& free = l.wireFreeNs[direction];
  free = std::max(free, nowNs_);
  if (options_.bytesPerSecond > 0)
    free += static_cast<int64_t>(static_cast<double>(bytes) * 1e9 /
                                 static_cast<double>(options_.bytesPerSecond));
  if (random_.chance(options_.loss)) return note(Happening::Lose, packet);
  int64_t at = free + random_.between(options_.minLatencyNs, options_.maxLatencyNs);
  if (random_.chance(options_.reorder)) {
    note(Happening::Delay, packet);
    at += random_.between(0, 4 * options_.maxLatencyNs);
  } else {
    // Packets that are not reordered keep their order.
    at = l.lastArrivalNs[direction] = std::max(at, l.lastArrivalNs[direction]);
  }
  push(at, Event::Arrival, packet);
}

void SimNetwork::arrive(const Packet& packet) {
  const int target = packet.target();
  if (!ranks_[static_cast<size_t>(target)].alive) return note(Happening::Vanish, packet);
  note(Happening::Arrive, packet);
  touch(target);
  SimLink& l = *packet.link;
  switch (packet.kind) {
    case PacketKind::Data:
      l.onData(packet);
      return send({&l, PacketKind::Ack, l.delivered}, Happening::Send);
    case PacketKind::Ack:
      if (!l.onAck(packet.number)) return;
      halve(l.dataTimer);
      l.dataTimer.dueNs = nowNs_ + patience(l.dataTimer);
      return;
    case PacketKind::Credit:
      l.onCredit(packet.number);
      return send({&l, PacketKind::CreditAck, packet.number}, Happening::Send);
    case PacketKind::CreditAck:
      if (l.onCreditAck(packet.number)) halve(l.creditTimer);
      return;
  }
}

// ---- repetition

int64_t SimNetwork::patience(const Timer& timer) const {
  // There and back, reordered both ways, and a bit.
  const int64_t roundTrip = 10 * options_.maxLatencyNs + 10'000;
  return roundTrip << timer.doublings;
}

void SimNetwork::start(Timer& timer, Event::Kind kind, SimLink& link) {
  timer.dueNs = nowNs_ + patience(timer);
  if (timer.queued) return;
  timer.queued = true;
  push(timer.dueNs, kind, {&link});
}

void SimNetwork::resend(SimLink& link, Event::Kind kind) {
  if (kind == Event::CreditTimer)
    return send({&link, PacketKind::Credit, link.creditTold}, Happening::Resend);
  for (uint32_t message = link.confirmed; message != link.sent && !link.dead;)
    send(link.again(++message), Happening::Resend);
}

bool SimNetwork::expire(SimLink& link, Event::Kind kind) {
  Timer& timer = kind == Event::DataTimer ? link.dataTimer : link.creditTimer;
  timer.queued = false;
  const bool done = kind == Event::DataTimer ? link.allConfirmed() : link.creditConfirmed();
  if (link.dead || done) return false;
  const bool due = timer.dueNs <= nowNs_;
  if (due) {
    resend(link, kind);
    timer.doublings = std::min(timer.doublings + 1, kMaxDoublings);
    timer.dueNs = nowNs_ + patience(timer);
  }
  if (!link.dead) {
    timer.queued = true;
    push(timer.dueNs, kind, {&link});
  }
  return due;
}

// ---- death

void SimNetwork::die(int rank) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  if (!r.alive) return;
  r.alive = false;
  for (SimLink* link : r.links) link->dead = true;
  trace_.add({nowNs_, Happening::Die, PacketKind::Data, rank, rank, 0, 0});
  deaths_.push_back(rank);
}

void SimNetwork::cancelZeroCopy(int rank) {
  std::lock_guard lock(mutex_);
  for (SimLink* link : ranks_[static_cast<size_t>(rank)].links)
    if (link->from == rank)
      link->dead |= link->hasZeroCopyUnderWay();
    else
      link->cancelled = true;
}

void SimNetwork::goDirect(int from, int to, int channel, const DirectSlots& slots) {
  SimLink& there = link(from, to, channel);
  std::lock_guard lock(mutex_);
  there.direct = slots;
}

void SimNetwork::reportDeaths() {
  std::vector<int> deaths;
  {
    std::lock_guard lock(mutex_);
    deaths.swap(deaths_);
  }
  if (deathCallback_)
    for (const int rank : deaths) deathCallback_(rank);
}

void SimNetwork::kill(int rank) {
  TUTTI_REQUIRE(rank >= 0 && rank < size_, "rank ", rank, " of ", size_);
  {
    std::lock_guard lock(mutex_);
    if (ranks_[static_cast<size_t>(rank)].alive) {
      collect(ranks_[static_cast<size_t>(rank)]);  // what it published before is on its way
      die(rank);
    }
  }
  reportDeaths();
}

bool SimNetwork::alive(int rank) const {
  std::lock_guard lock(mutex_);
  return ranks_[static_cast<size_t>(rank)].alive;
}

// ---- time

bool SimNetwork::handle(Event event) {
  nowNs_ = std::max(nowNs_, event.atNs);
  switch (event.kind) {
    case Event::Arrival: arrive(event.packet); return true;
    case Event::DataTimer:
    case Event::CreditTimer: return expire(*event.packet.link, event.kind);
    case Event::Death: die(event.rank); return true;
  }
  return false;
}

bool SimNetwork::handleNext() {
  Event event = events_.top();
  events_.pop();
  return handle(std::move(event));
}

bool SimNetwork::advance() {
  TUTTI_REQUIRE(options_.drive == Drive::Virtual, "advance() on a network that threads drive");
  bool any = false;
  {
    std::lock_guard lock(mutex_);
    collectTouched();
    // Nothing may be overlooked before time makes a jump.
    if (events_.empty() || events_.top().atNs > nowNs_ + options_.maxLatencyNs)
      for (Rank& rank : ranks_) collect(rank);
    // Timers of what was confirmed meanwhile are no events.
    while (!events_.empty() && !any) any = handleNext();
    const int64_t until = nowNs_ + options_.stepNs;
    while (!events_.empty() && events_.top().atNs <= until) handleNext();
    clock_.virtualNs_.store(nowNs_, std::memory_order_release);
  }
  reportDeaths();
  return any;
}

bool SimNetwork::progress(int rank) {
  bool any = false;
  {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    if (options_.drive == Drive::Virtual) {
      touch(rank);
      return false;
    }
    nowNs_ = std::max(nowNs_, clock_.nowNs());
    const int64_t until = nowNs_;
    any = collect(ranks_[static_cast<size_t>(rank)]);
    for (int n = 0; n < kEventsAtOnce && !events_.empty() && events_.top().atNs <= until; ++n)
      any |= handleNext();
    if (deaths_.empty()) return any;
  }
  reportDeaths();
  return any;
}

// ---- looking at it

size_t SimNetwork::linkCount() const {
  std::lock_guard lock(mutex_);
  return links_.size();
}

uint64_t SimNetwork::traceHash() const {
  std::lock_guard lock(mutex_);
  return trace_.hash();
}

uint64_t SimNetwork::count(Happening what) const {
  std::lock_guard lock(mutex_);
  return trace_.count(what);
}

size_t SimNetwork::pendingEvents() const {
  std::lock_guard lock(mutex_);
  return events_.size();
}

std::string SimNetwork::describe() const {
  std::lock_guard lock(mutex_);
  const SimOptions& o = options_;
  return base::message("simulated network of ", size_, " ranks, seed ", o.seed, ", latency ",
                       o.minLatencyNs, " to ", o.maxLatencyNs, " ns, reorder ", o.reorder,
                       ", loss ", o.loss, ", duplicate ", o.duplicate, ", at ", nowNs_, " ns, ",
                       links_.size(), " links, ", events_.size(), " events pending\n",
                       trace_.describe());
}

}  // namespace tutti::transports::sim
