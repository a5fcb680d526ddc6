#include "src/plan/holders.h"

#include <map>

namespace tutti::plan {
namespace {

bool hasData(const Port& port, Port::Kind kind) { return port.kind == kind && port.chunks > 0; }

/// Where the message of a step could be read, be it kept there or not. Scratch memory is used again
/// in the next round.
std::optional<Port> candidate(const Step& step) {
  bool sends = false;
  for (const Port& port : step.targets) sends |= hasData(port, Port::Kind::Channel);
  if (!sends) return std::nullopt;
  for (const Port& port : step.targets)
    if (hasData(port, Port::Kind::Local) && port.buffer != Buffer::Scratch) return port;
  int sources = 0;
  std::optional<Port> only;
  for (const Port& port : step.sources) {
    if (port.chunks == 0) continue;
    ++sources;
    only = port;
  }
  const bool copied = sources == 1 && only->kind == Port::Kind::Local && !step.completes;
  return copied && only->buffer != Buffer::Scratch ? only : std::nullopt;
}

/// Who writes each chunk of this rank's memory last.
class LastWriters {
 public:
  LastWriters(const PlanSpec& spec, const Program& program, int rank, bool inPlace)
      : spec_(spec), rank_(rank), inPlace_(inPlace) {
    for (uint32_t lane = 0; lane < program.lanes.size(); ++lane)
      for (uint32_t step = 0; step < program.lanes[lane].steps.size(); ++step)
        for (const Port& port : program.lanes[lane].steps[step].targets)
          if (port.kind == Port::Kind::Local) note(port, {lane, step});
  }

  /// Nobody writes there after that step, nor at a time that its lane does not know.
  bool none(const Port& port, Dependency after) const {
    for (uint32_t i = 0; i < port.chunks; ++i) {
      const auto found = writers_.find(placeOf(port.buffer, port.chunk + i));
      if (found == writers_.end()) continue;
      for (const Dependency& writer : found->second)
        if (writer.lane != after.lane || writer.step > after.step) return false;
    }
    return true;
  }

 private:
  using Place = std::pair<Buffer, uint32_t>;

  Place placeOf(Buffer buffer, uint32_t chunk) const {
    if (!inPlace_) return {buffer, chunk};
    const SharedChunk shared = sharedChunk(spec_, rank_, buffer, chunk);
    return {shared.buffer, shared.chunk};
  }
  void note(const Port& port, Dependency writer) {
    for (uint32_t i = 0; i < port.chunks; ++i)
      writers_[placeOf(port.buffer, port.chunk + i)].push_back(writer);
  }

  const PlanSpec& spec_;
  const int rank_;
  const bool inPlace_;
  std::map<Place, std::vector<Dependency>> writers_;
};

}  // namespace

SharedChunk sharedChunk(const PlanSpec& spec, int rank, Buffer buffer, uint32_t chunk) {
  if (buffer == Buffer::Scratch) return {buffer, chunk};
  const uint32_t inBlocks = blocksOf(spec, Buffer::In), outBlocks = blocksOf(spec, Buffer::Out);
  const Buffer larger = inBlocks > outBlocks ? Buffer::In : Buffer::Out;
  if (buffer != larger && inBlocks != outBlocks)
    chunk += static_cast<uint32_t>(rank) * spec.divisions;
  return {larger, chunk};
}

Holders holdersOf(const PlanSpec& spec, const Program& program, int rank, bool inPlace) {
  const LastWriters writers(spec, program, rank, inPlace);
  Holders holders(program.lanes.size());
  for (uint32_t lane = 0; lane < program.lanes.size(); ++lane)
    for (uint32_t step = 0; step < program.lanes[lane].steps.size(); ++step) {
      auto port = candidate(program.lanes[lane].steps[step]);
      if (port && !writers.none(*port, {lane, step})) port.reset();
      holders[lane].push_back(port);
    }
  return holders;
}

}  // namespace tutti::plan
