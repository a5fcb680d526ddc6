#pragma once

// Walks a plan: all its programs together, event by event, in the order of time. One rank is one
// thread: its lanes take turns, and so do ranks that share cores. A step costs its rank its own
// overhead and the bytes it folds and copies; then its messages pass links, one after another with
// whatever else wants to. Free slots are not waited for (transports have more than a plan needs).
// Two things use it: the choice of a plan (cost_walk.h) and the simulation of clusters
// (simulate.h).

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "src/plan/flat_plan.h"

namespace tutti::collectives {

/// What a step costs its rank.
struct StepRates {
  double step;                  ///< microseconds for it and again for each message beyond the first
  double copy, reduce, mapped;  ///< microseconds per byte copied to a target, folded from a source,
                                ///< touched in mapped memory
  double read = 0, readByte = 0;  ///< microseconds of a read of another rank's memory, and per
                                  ///< byte; of a plan that is attached, and otherwise 0
};

/// The cores of each host, where its ranks share them. A core runs one step at a time.
struct Cores {
  std::vector<int> hostOf;  ///< of each rank; empty: all are on one
  int perHost = 0;          ///< 0: each rank has its own
  double handOver = 0;      ///< microseconds from one rank to another
  size_t host(int rank) const {
    return hostOf.empty() ? 0 : static_cast<size_t>(hostOf[static_cast<size_t>(rank)]);
  }
};

/// The links that messages pass, by number. Bytes flow through all links of a path at once: each
/// may begin as soon as the one before it does.
class Links {
 public:
  static constexpr size_t kMostOnPath = 4;
  struct Path {
    double microseconds = 0;  ///< from when the last byte has passed to when the message is seen
    std::array<uint32_t, kMostOnPath> links{};
    uint8_t count = 0;
    uint8_t ofSender = 0;  ///< the first of them are on the sender's side, the others on the
                           ///< receiver's
  };
  virtual ~Links() = default;
  virtual size_t count() const = 0;
  virtual double microsecondsPerByte(uint32_t link) const = 0;
  /// What a message takes of it beside its bytes (the gap of LogGP, Alexandrov et al.).
  virtual double microsecondsPerMessage(uint32_t /*link*/) const { return 0; }
  double microsecondsOf(uint32_t link, double bytes) const {
    return microsecondsPerMessage(link) + bytes * microsecondsPerByte(link);
  }
  virtual Path path(int from, int to) const = 0;
  /// Whom a link on the receivers' side serves first when messages come at the same time: the one
  /// that a receiver takes first (of one step's, the one with the longest way to go), which looks
  /// the same to ranks that are alike; otherwise the one that was sent first.
  virtual bool servesByReceipt() const = 0;
};

/// How long each link is in use.
class LinkUse {
 public:
  explicit LinkUse(const Links& links) : links_(links), used_(links.count(), 0) {}
  /// A message of so many bytes.
  void add(const Links::Path& path, double bytes) {
    for (size_t hop = 0; hop < path.count; ++hop)
      used_[path.links[hop]] += links_.microsecondsOf(path.links[hop], bytes);
  }
  double most() const;  ///< microseconds

 private:
  const Links& links_;
  std::vector<double> used_;
};

/// Microseconds of a step of these ports: of a program or of a flat plan. Overhead for the step and
/// each message beyond the first, one fold of all sources, and a copy to each target (the fold
/// writes the first one). Attached, each operand of another rank is read before.
template <class Ports>
double durationOf(const Ports& from, const Ports& to, const StepRates& rates, double chunkBytes) {
  using Kind = plan::Port::Kind;
  int messages = 0, sources = 0, targets = 0, mappedPorts = 0;
  double bytes = 0;
  const auto look = [&](const auto& port, int& count) {
    messages += port.kind == Kind::Channel;
    if (port.chunks == 0) return;
    ++count;
    mappedPorts += port.kind == Kind::Mapped;
    bytes = port.chunks * chunkBytes;
  };
  for (const auto& port : from) look(port, sources);
  for (const auto& port : to) look(port, targets);
  double time = rates.step * std::max(1, messages);
  if (rates.readByte > 0 && messages == 0) {
    time += mappedPorts * (rates.read + bytes * rates.readByte);
    const bool isRead = mappedPorts == 1 && sources == 1;
    return time + (isRead ? 0 : bytes * (sources + targets) * rates.mapped);
  }
  if (mappedPorts > 0) return time + bytes * (sources + targets) * rates.mapped;
  if (sources > 1) time += bytes * (sources * rates.reduce + (targets - 1) * rates.copy);
  if (sources == 1) time += bytes * targets * rates.copy;
  return time;
}

/// Microseconds for all rounds. After a few rounds each further one is taken to last as long as the
/// last that was walked, or as the busiest rank works or the busiest link or host's cores are in
/// use if that is longer.
double walkMicroseconds(const plan::FlatPlan& flat, const StepRates& rates, const Links& links,
                        double chunkBytes, int64_t rounds, const Cores& cores = {});

/// What such a walk takes: steps, and messages over links, in all rounds that are walked.
uint64_t walkEvents(const plan::FlatPlan& flat, const Links& links, int64_t rounds);

}  // namespace tutti::collectives
