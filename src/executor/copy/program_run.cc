#include "src/executor/copy/program_run.h"

#include <algorithm>

#include "src/device/cuda/check.h"

namespace tutti::executor::copy {
namespace {

using plan::Buffer;

bool isReduced(DataType type) {
  return type == DataType::Float16 || type == DataType::BFloat16 || type == DataType::Float8E4M3 ||
         type == DataType::Float8E5M2;
}

size_t withChunks(const std::vector<plan::Port>& ports) {
  return static_cast<size_t>(
      std::ranges::count_if(ports, [](const plan::Port& port) { return port.chunks > 0; }));
}

/// Of cudaMemcpy2DAsync().
constexpr uint64_t kMostPitch = INT32_MAX;

}  // namespace

ProgramRun::ProgramRun(const CopyPlan& plan, const CollectiveCall& call,
                       const plan::PlanShape& shape, std::vector<CopyLane>& lanes,
                       unsigned char* scratch, uint32_t foldBlocks)
    : plan_(plan),
      call_(call),
      facts_(call.facts),
      shape_(shape),
      lanes_(lanes),
      scratch_(scratch),
      foldBlocks_(foldBlocks) {}

uint64_t ProgramRun::place() const {
  const plan::Waves& waves = plan_.waves_;
  if (round_ == shape_.rounds() || waves.turns.empty()) return kEnd;
  return static_cast<uint64_t>(round_) * waves.count + waves.turns[turn_].wave;
}

void ProgramRun::enqueueNext() {
  const auto& turns = plan_.waves_.turns;
  enqueueStep(turns[turn_].lane, turns[turn_].step);
  if (++turn_ < turns.size()) return;
  turn_ = 0;
  ++round_;
}

void ProgramRun::enqueueStep(uint32_t number, uint32_t stepNumber) {
  const plan::Lane& its = plan_.program_.lanes[number];
  const Step& step = its.steps[stepNumber];
  CopyLane& lane = lanes_[number];
  for (const plan::Dependency& d : step.after)
    if (d.lane != number) lane.awaitLane(lanes_[d.lane]);
  std::vector<CopyMessage> messages;  // by port, sources first
  for (const Port& port : step.sources) {
    messages.push_back(messageOf(its, port, received_));
    if (isChannel(port)) lane.awaitMessage(messages.back());
  }
  for (const Port& port : step.targets) {
    messages.push_back(messageOf(its, port, sent_));
    if (isChannel(port)) lane.awaitSlot(messages.back());
  }
  move(lane, step, piecesOf(lane, step, messages));
  for (size_t i = 0; i < step.targets.size(); ++i)
    if (isChannel(step.targets[i])) lane.tell(messages[step.sources.size() + i]);
  for (size_t i = 0; i < step.sources.size(); ++i)
    if (isChannel(step.sources[i])) lane.giveBack(messages[i]);
}

CopyMessage ProgramRun::messageOf(const plan::Lane& lane, const Port& port, Counts& counts) const {
  if (!isChannel(port)) return {};
  return {lane.channel, port.rank, counts[{lane.channel, port.rank}]++, messageBytes(port)};
}

uint64_t ProgramRun::messageBytes(const Port& port) const {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < port.chunks; ++i) bytes += shape_.chunkBytes(port, i, round_);
  return bytes;
}

// Chunks lie in slots as far apart as full ones are long, and so aligned.
unsigned char* ProgramRun::addressOf(CopyLane& lane, const Port& port, const CopyMessage& message,
                                     uint32_t index, bool isSource) const {
  if (isChannel(port))
    return (isSource ? lane.received(message) : lane.slot(message)) +
           index * shape_.fullChunkBytes();
  Address base = scratch_;
  if (port.buffer == Buffer::In)
    base = reinterpret_cast<Address>(const_cast<std::byte*>(call_.in));
  else if (port.buffer == Buffer::Out)
    base = reinterpret_cast<Address>(call_.out);
  return base + shape_.extent(port.buffer, port.chunk + index, round_).offset;
}

// Chunks that follow each other in all operands are one piece.
std::vector<ProgramRun::Piece> ProgramRun::piecesOf(
    CopyLane& lane, const Step& step, const std::vector<CopyMessage>& messages) const {
  std::vector<Piece> pieces;
  const auto data =
      std::ranges::find_if(step.targets, [](const Port& port) { return port.chunks > 0; });
  for (uint32_t i = 0; data != step.targets.end() && i < data->chunks; ++i) {
    Piece piece{{}, shape_.chunkBytes(*data, i, round_)};
    if (piece.bytes == 0) continue;
    for (size_t p = 0; p < messages.size(); ++p) {
      const bool isSource = p < step.sources.size();
      const Port& port = isSource ? step.sources[p] : step.targets[p - step.sources.size()];
      if (port.chunks > 0)
        piece.operands.push_back(addressOf(lane, port, messages[p], i, isSource));
    }
    const bool follows =
        !pieces.empty() && std::ranges::equal(pieces.back().operands, piece.operands,
                                              [&](Address before, Address next) {
                                                return before + pieces.back().bytes == next;
                                              });
    if (follows)
      pieces.back().bytes += piece.bytes;
    else
      pieces.push_back(std::move(piece));
  }
  return pieces;
}

bool ProgramRun::isScaled(const Port& port) const {
  return facts_.op == ReduceOp::PreMulSum && plan::isReduction(plan_.spec_.collective) &&
         port.kind == Port::Kind::Local && port.buffer == Buffer::In &&
         (call_.scalarAt || call_.scalar != 1.0);
}

void ProgramRun::move(CopyLane& lane, const Step& step, const std::vector<Piece>& pieces) const {
  const bool divides = step.completes && facts_.op == ReduceOp::Avg;
  const bool scales = std::ranges::any_of(
      step.sources, [&](const Port& port) { return port.chunks > 0 && isScaled(port); });
  if (withChunks(step.sources) == 1 && !divides && !scales) return copy(lane, pieces);
  for (const Piece& piece : pieces) fold(lane, step, piece);
}

// Pieces that are alike and evenly spaced, as of several blocks in one message, are one copy.
void ProgramRun::copy(CopyLane& lane, const std::vector<Piece>& pieces) const {
  const auto pitch = [&](size_t operand) {
    return static_cast<uint64_t>(pieces[1].operands[operand] - pieces[0].operands[operand]);
  };
  for (size_t target = 1; !pieces.empty() && target < pieces[0].operands.size(); ++target) {
    bool isEven = pieces.size() > 1;
    for (size_t i = 1; i < pieces.size() && isEven; ++i)
      for (const size_t operand : {size_t{0}, target})
        isEven &= pieces[i].bytes == pieces[0].bytes && pitch(operand) >= pieces[0].bytes &&
                  pitch(operand) <= kMostPitch &&
                  pieces[i].operands[operand] == pieces[0].operands[operand] + i * pitch(operand);
    if (isEven && pieces[0].operands[0] != pieces[0].operands[target]) {
      lane.copyRows({pieces[0].operands[0], pieces[0].operands[target], pieces[0].bytes, pitch(0),
                     pitch(target), pieces.size()});
      continue;
    }
    for (const Piece& piece : pieces)
      lane.copy(piece.operands[target], piece.operands[0], piece.bytes);
  }
}

void ProgramRun::fold(CopyLane& lane, const Step& step, const Piece& piece) const {
  const size_t size = sizeOf(facts_.type), sources = withChunks(step.sources);
  FoldArguments arguments{};
  arguments.bytes = piece.bytes;
  arguments.scalar = call_.scalar;
  arguments.scalarAt = call_.scalarAt;
  arguments.divideBy = step.completes && facts_.op == ReduceOp::Avg ? plan_.spec_.ranks : 1;
  arguments.sources = static_cast<uint16_t>(sources);
  arguments.targets = static_cast<uint16_t>(piece.operands.size() - sources);
  arguments.type = static_cast<uint8_t>(facts_.type);
  arguments.op = static_cast<uint8_t>(facts_.op);
  arguments.isAligned = 1;
  // Two operands give the same by either fold.
  arguments.isTree = step.fold == plan::Fold::Canonical && sources > 2 &&
                     (facts_.deterministic || !isReduced(facts_.type));
  arguments.isRounded = facts_.deterministic;
  size_t next = 0;
  for (const Port& port : step.sources)
    if (port.chunks > 0) arguments.operands[next++].isScaled = isScaled(port);
  for (size_t i = 0; i < piece.operands.size(); ++i) {
    kernel::Operand& operand = arguments.operands[i];
    const auto address = reinterpret_cast<uint64_t>(operand.at = piece.operands[i]);
    operand.alignment = address % 16 == 0 ? 16 : address % size == 0 ? size : 1;
    arguments.isAligned &= operand.alignment == 16;
  }
  const uint64_t wanted = (piece.bytes / 16 + kFoldThreads) / kFoldThreads;
  const auto blocks = static_cast<uint32_t>(std::min<uint64_t>(wanted, foldBlocks_));
  TUTTI_CUDA(launchFold(size, blocks, arguments, lane.queue().flush()));
}

}  // namespace tutti::executor::copy
