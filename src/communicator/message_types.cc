#include "src/communicator/message_types.h"

#include <cctype>

#include "src/base/check.h"
#include "src/base/printable.h"

namespace tutti::communicator::message {
namespace {

// No algorithm or transport has a longer name; what a peer sends goes into messages.
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxPathBytes = 4096;
// Of a failure's text that is told to others.
constexpr size_t kMaxToldBytes = 4096;

// A peer's words as part of a line of ours: what() would end at a zero byte.
std::string oneLine(std::string text) {
  for (char& c : text)
    if (std::iscntrl(static_cast<unsigned char>(c))) c = '?';
  return text;
}

// The dead, as a rank that is alive sends them: ranks of the communicator in ascending order.
std::set<int> getDead(base::ByteReader& in, Origin from) {
  std::set<int> dead;
  const auto count = in.get<uint32_t>("number of the dead");
  for (uint32_t i = 0; i < count; ++i) {
    const auto rank = in.get<int32_t>("dead rank");
    const int least = dead.empty() ? 0 : *dead.rbegin() + 1;
    if (rank < least || rank >= from.size || rank == from.peer)
      base::fail(ErrorCode::Refused, "dead rank ", rank, " of ", from.size,
                 " is out of order or range, or the sender itself");
    dead.insert(rank);
  }
  return dead;
}

base::ByteWriter& putDead(base::ByteWriter& out, const std::set<int>& ranks) {
  out.put(static_cast<uint32_t>(ranks.size()));
  for (const int rank : ranks) out.put(static_cast<int32_t>(rank));
  return out;
}

}  // namespace

HelloMessage HelloMessage::of(const Settings& settings, const std::string& network) {
  return {.deterministic = settings.deterministic,
          .algorithm = settings.algorithm,
          .transport = settings.transport,
          .network = network,
          .signals = settings.signals,
          .algorithmFile = settings.algorithmFile ? settings.algorithmFile->digest() : 0,
          .algorithmFilePath = settings.algorithmFile
                                   ? settings.algorithmFile->path().substr(0, kMaxPathBytes)
                                   : ""};
}

std::string HelloMessage::algorithmFileText() const {
  if (algorithmFile == 0) return "no algorithm file";
  return base::message("the algorithm file ", base::printable(algorithmFilePath), " (digest ",
                       std::hex, algorithmFile, std::dec, ")");
}

std::string HelloMessage::wishes() const {
  return base::message("deterministic=", int{deterministic}, " algorithm='",
                       base::printable(algorithm), "' transport='", base::printable(transport),
                       "' between hosts='", base::printable(network), "' signals=", signals);
}

base::Bytes HelloMessage::write() const {
  return base::ByteWriter()
      .put(deterministic)
      .put(algorithm)
      .put(transport)
      .put(network)
      .put(signals)
      .put(algorithmFile)
      .put(algorithmFilePath)
      .put(tuning)
      .put(address)
      .put(gpu)
      .put(gpuDescriptors)
      .take();
}

HelloMessage HelloMessage::read(const base::Bytes& payload) {
  base::ByteReader in(payload);
  HelloMessage h;
  h.deterministic = in.getFlag("deterministic");
  h.algorithm = in.getString("algorithm", kMaxNameBytes);
  h.transport = in.getString("transport", kMaxNameBytes);
  h.network = in.getString("network", kMaxNameBytes);
  h.signals = in.get<uint32_t>("signals");
  h.algorithmFile = in.get<uint64_t>("algorithm file");
  h.algorithmFilePath = in.getString("path of the algorithm file", kMaxPathBytes);
  h.tuning = in.getBytes("tuning");
  h.address = in.getBytes("address");
  h.gpu = in.getBytes("GPU's address");
  h.gpuDescriptors = in.get<uint32_t>("descriptors of the GPU's address");
  in.requireEnd();
  return h;
}

base::Bytes ReadyMessage::write() const { return base::ByteWriter().put(readsMemory).take(); }

ReadyMessage ReadyMessage::read(const base::Bytes& payload, Origin) {
  base::ByteReader in(payload);
  const ReadyMessage ready{in.getFlag("reads memory")};
  in.requireEnd();
  return ready;
}

InquiryMessage InquiryMessage::about(const Recorder::Entry& entry, Inquirer by) {
  const CallFacts* facts = entry.collective();
  return {by, facts ? entry.sequence : 0, facts ? *facts : CallFacts()};
}

base::Bytes InquiryMessage::write() const {
  base::ByteWriter out;
  out.put(by).put(sequence);
  facts.write(out);
  return out.take();
}

InquiryMessage InquiryMessage::read(const base::Bytes& payload, Origin) {
  base::ByteReader in(payload);
  InquiryMessage inquiry;
  inquiry.by = in.getEnum("who asks", Inquirer::Host, Inquirer::GpuWaiting);
  inquiry.sequence = in.get<uint64_t>("operation");
  inquiry.facts = CallFacts::read(in);
  in.requireEnd();
  return inquiry;
}

std::string StatusMessage::describe() const {
  switch (activity) {
    case Activity::Exchange: return "sends and receives";
    case Activity::Collective: return base::message("is in operation ", sequence);
    case Activity::Nothing: break;
  }
  if (sequence == 0) return "has not called any collective";
  return base::message("has finished operation ", sequence, " and not called the next");
}

base::Bytes StatusMessage::write() const {
  return base::ByteWriter().put(sequence).put(activity).put(waitingFor).take();
}

StatusMessage StatusMessage::read(const base::Bytes& payload, Origin from) {
  base::ByteReader in(payload);
  StatusMessage status{.sequence = in.get<uint64_t>("operation")};
  status.activity = in.getEnum("activity", Activity::Nothing, Activity::Exchange);
  status.waitingFor = in.get<int32_t>("awaited rank");
  in.requireEnd();
  if (status.waitingFor < -1 || status.waitingFor >= from.size)
    base::fail(ErrorCode::Refused, "waits for rank ", status.waitingFor, " of ", from.size);
  return status;
}

base::Bytes FailureMessage::write() const {
  return base::ByteWriter().put(code).put(text.substr(0, kMaxToldBytes)).take();
}

FailureMessage FailureMessage::read(const base::Bytes& payload, Origin from) {
  base::ByteReader in(payload);
  FailureMessage failure;
  failure.code = in.getEnum("code", ErrorCode::InvalidArgument, ErrorCode::Internal);
  failure.text = oneLine(in.getString("text", kMaxToldBytes));
  in.requireEnd();
  const std::string by = " (reported by rank ";
  if (failure.text.find(by) == std::string::npos) failure.text += base::message(by, from.peer, ")");
  return failure;
}

base::Bytes GoodbyeMessage::write() const {
  return base::ByteWriter().put(collectives).put(onGpu).take();
}

GoodbyeMessage GoodbyeMessage::read(const base::Bytes& payload, Origin) {
  base::ByteReader in(payload);
  GoodbyeMessage goodbye;
  goodbye.collectives = in.get<uint64_t>("operations");
  goodbye.onGpu = in.get<uint64_t>("collectives on the GPU");
  in.requireEnd();
  return goodbye;
}

base::Bytes ViewMessage::write() const {
  base::ByteWriter out;
  out.put(collectives).put(vote).put(round);
  return putDead(out, dead).take();
}

ViewMessage ViewMessage::read(const base::Bytes& payload, Origin from) {
  base::ByteReader in(payload);
  ViewMessage view;
  view.collectives = in.get<uint64_t>("operations");
  view.vote = in.get<uint32_t>("vote");
  view.round = in.get<uint32_t>("round");
  view.dead = getDead(in, from);
  in.requireEnd();
  return view;
}

base::Bytes DecisionMessage::write() const {
  base::ByteWriter out;
  out.put(vote);
  return putDead(out, dead).take();
}

DecisionMessage DecisionMessage::read(const base::Bytes& payload, Origin from) {
  base::ByteReader in(payload);
  DecisionMessage decision;
  decision.vote = in.get<uint32_t>("vote");
  decision.dead = getDead(in, from);
  in.requireEnd();
  return decision;
}

base::Bytes WindowMessage::write() const {
  return base::ByteWriter()
      .put(kind)
      .put(window)
      .put(bytes)
      .put(ofGpu)
      .put(gpuAddress)
      .put(place.window)
      .put(place.offset)
      .put(address)
      .take();
}

WindowMessage WindowMessage::read(const base::Bytes& payload, Origin) {
  base::ByteReader in(payload);
  WindowMessage message;
  message.kind = in.getEnum("kind of a window's message", Kind::Join, Kind::Closed);
  message.window = in.get<uint64_t>("window");
  message.bytes = in.get<uint64_t>("bytes of a buffer");
  message.ofGpu = in.getFlag("memory of a GPU");
  message.gpuAddress = in.get<uint64_t>("address of a GPU's buffer");
  message.place.window = in.get<uint64_t>("place's window");
  message.place.offset = in.get<uint64_t>("place's offset");
  message.address = in.getBytes("address");
  in.requireEnd();
  return message;
}

}  // namespace tutti::communicator::message
