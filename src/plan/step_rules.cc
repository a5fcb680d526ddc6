#include "src/plan/step_rules.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/plan/hosts.h"

namespace tutti::plan {
namespace {

uint32_t chunksOf(const PlanSpec& spec, const Port& port) {
  if (port.kind != Port::Kind::Channel) return blocksOf(spec, port.buffer) * spec.divisions;
  uint32_t blocks = 1;
  for (Buffer buffer : {Buffer::In, Buffer::Out, Buffer::Scratch})
    blocks = std::max(blocks, blocksOf(spec, buffer));
  return blocks * spec.divisions;
}

std::string faultOfPeer(const PlanSpec& spec, int rank, const Port& port) {
  if (port.rank < 0 || port.rank >= spec.ranks)
    return base::message("rank ", port.rank, " is not one of ", spec.ranks);
  if (port.rank == rank)
    return port.kind == Port::Kind::Channel ? "a channel to itself" : "maps its own buffer";
  return {};
}

std::string faultOfBuffer(const PlanSpec& spec, int owner, const Port& port, bool target) {
  if (port.chunks == 0) return "a buffer of no chunks";
  if (target && port.buffer == Buffer::In) return "writes an input";
  if (!isGiven(spec, port.buffer, owner))
    return base::message("rank ", owner, " has no ", toString(port.buffer), " buffer in ",
                         toString(spec.collective));
  if (port.kind != Port::Kind::Mapped) return {};
  if (spec.protocol == Protocol::Simple || port.buffer == Buffer::Scratch)
    return "maps what is not mapped";
  if (target && spec.protocol == Protocol::Attached) return "writes another rank's buffer";
  if (!(port.buffer == Buffer::In ? spec.mapped.in : spec.mapped.out))
    return base::message("maps an ", toString(port.buffer), " buffer, unlike the spec");
  return {};
}

std::string faultOfPort(const PlanSpec& spec, int rank, const Port& port, bool target) {
  std::string fault;
  if (port.kind != Port::Kind::Local) fault = faultOfPeer(spec, rank, port);
  if (fault.empty() && port.kind != Port::Kind::Channel)
    fault = faultOfBuffer(spec, port.kind == Port::Kind::Local ? rank : port.rank, port, target);
  if (!fault.empty()) return fault;
  const uint32_t most = chunksOf(spec, port);
  if (port.chunk > most || port.chunks > most - port.chunk)
    return base::message("chunks ", port.chunk, " to ", uint64_t{port.chunk} + port.chunks, " of ",
                         most);
  return {};
}

bool twiceTheSameChannel(const std::vector<Port>& ports) {
  if (ports.size() < 2) return false;
  std::vector<int> peers;
  for (const Port& port : ports)
    if (port.kind == Port::Kind::Channel) peers.push_back(port.rank);
  std::ranges::sort(peers);
  return std::ranges::adjacent_find(peers) != peers.end();
}

/// Ports with chunks have equally many, at the same place within their blocks.
std::string faultOfSizes(const PlanSpec& spec, const Step& step) {
  const Port* first = nullptr;
  for (const auto* ports : {&step.sources, &step.targets})
    for (const Port& port : *ports) {
      if (port.chunks == 0) continue;
      if (!first) first = &port;
      if (port.chunks != first->chunks)
        return base::message(port.chunks, " chunks and ", first->chunks, " in one step");
      if (port.chunk % spec.divisions != first->chunk % spec.divisions)
        return base::message("divisions ", port.chunk % spec.divisions, " and ",
                             first->chunk % spec.divisions, " in one step");
    }
  return {};
}

std::string faultOfFold(const PlanSpec& spec, const Step& step) {
  const auto withChunks = [](const Port& port) { return port.chunks > 0; };
  const auto sources = std::ranges::count_if(step.sources, withChunks);
  const auto targets = std::ranges::count_if(step.targets, withChunks);
  if (step.sources.empty() && step.targets.empty()) return "does nothing";
  if (sources > 0 && targets == 0) return "reads chunks and writes none";
  if (sources == 0 && targets > 0) return "writes chunks and reads none";
  if (step.fold == Fold::None && sources > 1) return "several sources and no fold";
  if (step.fold != Fold::None && sources < 2) return "folds fewer than two sources";
  if (step.completes && sources == 0) return "completes nothing";
  if (step.fold != Fold::None && !isReduction(spec.collective))
    return base::message("reduces in ", toString(spec.collective));
  if (step.completes && !reducesAll(spec.collective))
    return base::message("completes a sum in ", toString(spec.collective));
  return {};
}

}  // namespace

std::string faultOfStep(const PlanSpec& spec, int rank, const Step& step) {
  for (const Port& port : step.sources)
    if (std::string fault = faultOfPort(spec, rank, port, false); !fault.empty()) return fault;
  for (const Port& port : step.targets)
    if (std::string fault = faultOfPort(spec, rank, port, true); !fault.empty()) return fault;
  if (twiceTheSameChannel(step.sources)) return "takes two messages of one channel at once";
  if (twiceTheSameChannel(step.targets)) return "sends two messages on one channel at once";
  if (std::string fault = faultOfFold(spec, step); !fault.empty()) return fault;
  return faultOfSizes(spec, step);
}

std::string faultOfSpec(const PlanSpec& spec) {
  if (spec.ranks < 1) return base::message(spec.ranks, " ranks");
  if (spec.root < 0 || spec.root >= spec.ranks)
    return base::message("root ", spec.root, " of ", spec.ranks, " ranks");
  if (spec.root != 0 && !hasRoot(spec.collective))
    return base::message(toString(spec.collective), " has a root other than 0");
  if (spec.channels < 1 || spec.divisions < 1 || spec.minSlots < 1)
    return "channels, divisions and slots begin at 1";
  if ((spec.protocol != Protocol::Simple) != spec.mapped.any())
    return "mapped buffers go together with the mapped and the attached protocol";
  if (spec.hosts.empty()) return {};
  if (spec.hosts.size() != static_cast<size_t>(spec.ranks))
    return base::message("hosts of ", spec.hosts.size(), " ranks for ", spec.ranks, " ranks");
  if (spec.hosts != hostsInOrder(spec.hosts))
    return "hosts are two or more, numbered in the order of their first ranks";
  return {};
}

}  // namespace tutti::plan
