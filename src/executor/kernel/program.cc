#include "src/executor/kernel/program.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "src/base/check.h"
#include "src/plan/plan.h"

namespace tutti::executor::kernel {
namespace {

using plan::Port;

static_assert(static_cast<int>(PortKind::Channel) == static_cast<int>(Port::Kind::Channel));
static_assert(static_cast<int>(PortBuffer::Scratch) == static_cast<int>(plan::Buffer::Scratch));
static_assert(static_cast<int>(StepFold::Canonical) == static_cast<int>(plan::Fold::Canonical));

template <class Narrow>
Narrow narrow(size_t value, const char* what) {
  TUTTI_REQUIRE(value <= std::numeric_limits<Narrow>::max(), "a step with ", value, " ", what,
                " is more than the kernel can run");
  return static_cast<Narrow>(value);
}

/// Makes the tables of one program.
class Encoder {
 public:
  Encoder(const plan::PlanSpec& spec, const plan::Program& program, int rank)
      : spec_(spec), program_(program), rank_(rank) {
    findAwaited();
    for (uint32_t lane = 0; lane < program.lanes.size(); ++lane) addLane(lane);
    // A rank that has nothing to do counts the operation all the same.
    if (lanes_.empty()) lanes_.push_back({0, 0, 0, 0});
  }

  std::vector<unsigned char> image() const {
    std::vector<unsigned char> bytes(sizeof(ProgramHeader));
    ProgramHeader header{.magic = kProgramMagic,
                         .rank = static_cast<uint32_t>(rank_),
                         .ranks = static_cast<uint32_t>(spec_.ranks),
                         .lanes = static_cast<uint32_t>(lanes_.size()),
                         .steps = static_cast<uint32_t>(steps_.size()),
                         .ports = static_cast<uint32_t>(ports_.size()),
                         .mostPorts = mostPorts_,
                         .maps = spec_.mapped.any() ? 1U : 0U};
    header.laneOffset = append(bytes, lanes_);
    header.stepOffset = append(bytes, steps_);
    header.portOffset = append(bytes, ports_);
    header.afterOffset = append(bytes, afters_);
    header.linkOffset = append(bytes, links_);
    header.bytes = static_cast<uint32_t>(bytes.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
  }

 private:
  using Counts = std::map<uint32_t, std::pair<uint32_t, uint32_t>>;  // by link: sends, receives

  template <class Row>
  static uint32_t append(std::vector<unsigned char>& bytes, const std::vector<Row>& rows) {
    const size_t begin = (bytes.size() + 15) / 16 * 16, size = rows.size() * sizeof(Row);
    TUTTI_REQUIRE(begin + size <= std::numeric_limits<uint32_t>::max(), "a program of ",
                  begin + size, " bytes is more than the kernel can run");
    bytes.resize(begin + size);
    if (size > 0) std::memcpy(bytes.data() + begin, rows.data(), size);
    return static_cast<uint32_t>(begin);
  }

  void findAwaited() {
    for (const plan::Lane& lane : program_.lanes) awaited_.emplace_back(lane.steps.size());
    for (const plan::Lane& lane : program_.lanes)
      for (const plan::Step& step : lane.steps)
        for (const plan::Dependency& d : step.after) awaited_[d.lane][d.step] = true;
  }

  uint32_t linkOf(const plan::Lane& lane, const Port& port) const {
    return static_cast<uint32_t>(lane.channel * spec_.ranks + port.rank);
  }

  void addLane(uint32_t number) {
    const plan::Lane& lane = program_.lanes[number];
    Counts total, soFar;
    for (const plan::Step& step : lane.steps) {
      for (const Port& p : step.sources)
        if (p.kind == Port::Kind::Channel) ++total[linkOf(lane, p)].second;
      for (const Port& p : step.targets)
        if (p.kind == Port::Kind::Channel) ++total[linkOf(lane, p)].first;
    }
    lanes_.push_back({.firstStep = static_cast<uint32_t>(steps_.size()),
                      .steps = static_cast<uint32_t>(lane.steps.size()),
                      .firstLink = static_cast<uint32_t>(links_.size()),
                      .links = static_cast<uint32_t>(total.size())});
    for (const auto& [link, counts] : total) links_.push_back({link, counts.first, counts.second});
    for (uint32_t step = 0; step < lane.steps.size(); ++step)
      addStep(lane, lane.steps[step], awaited_[number][step], total, soFar);
  }

  void addStep(const plan::Lane& lane, const plan::Step& step, bool awaited, const Counts& total,
               Counts& soFar) {
    const size_t count = step.sources.size() + step.targets.size();
    StepCode code{.firstPort = static_cast<uint32_t>(ports_.size()),
                  .sources = narrow<uint16_t>(step.sources.size(), "sources"),
                  .targets = narrow<uint16_t>(step.targets.size(), "targets"),
                  .firstAfter = static_cast<uint32_t>(afters_.size()),
                  .afters = narrow<uint16_t>(step.after.size(), "dependencies"),
                  .fold = static_cast<StepFold>(step.fold),
                  .completes = step.completes,
                  .awaited = awaited,
                  .unused = 0,
                  .dataPort = narrow<uint16_t>(count, "ports")};
    for (const Port& p : step.sources) addPort(lane, p, false, total, soFar);
    for (const Port& p : step.targets) addPort(lane, p, true, total, soFar);
    for (size_t i = step.sources.size(); i < count; ++i)
      if (ports_[code.firstPort + i].chunks > 0) {
        code.dataPort = static_cast<uint16_t>(i);
        break;
      }
    for (const plan::Dependency& d : step.after) afters_.push_back({d.lane, d.step});
    mostPorts_ = std::max(mostPorts_, static_cast<uint32_t>(count));
    steps_.push_back(code);
  }

  void addPort(const plan::Lane& lane, const Port& port, bool target, const Counts& total,
               Counts& soFar) {
    PortCode code{.kind = static_cast<PortKind>(port.kind),
                  .buffer = static_cast<PortBuffer>(port.buffer),
                  .unused = 0,
                  .rank = port.rank,
                  .chunk = port.chunk,
                  .chunks = port.chunks,
                  .link = 0,
                  .ordinal = 0,
                  .perRound = 0};
    if (port.kind == Port::Kind::Channel) {
      code.link = linkOf(lane, port);
      auto& count = soFar[code.link];
      code.ordinal = target ? count.first++ : count.second++;
      code.perRound = target ? total.at(code.link).first : total.at(code.link).second;
    }
    ports_.push_back(code);
  }

  const plan::PlanSpec& spec_;
  const plan::Program& program_;
  const int rank_;
  std::vector<std::vector<bool>> awaited_;
  std::vector<LaneCode> lanes_;
  std::vector<StepCode> steps_;
  std::vector<PortCode> ports_;
  std::vector<DependencyCode> afters_;
  std::vector<LaneLink> links_;
  uint32_t mostPorts_ = 0;
};

}  // namespace

std::vector<unsigned char> encode(const plan::PlanSpec& spec, const plan::Program& program,
                                  int rank) {
  return Encoder(spec, program, rank).image();
}

bool isOneShot(const plan::PlanSpec& spec, const plan::Program& program, int rank) {
  if (spec.ranks < 2 || spec.divisions != 1 || spec.mapped.any()) return false;
  plan::Step send{.sources = {plan::local(plan::Buffer::In, 0)}};
  plan::Step fold{.targets = {plan::local(plan::Buffer::Out, 0)},
                  .fold = plan::Fold::Canonical,
                  .completes = true};
  for (int r = 0; r < spec.ranks; ++r) {
    fold.sources.push_back(r == rank ? plan::local(plan::Buffer::In, 0) : plan::channel(r, 0));
    if (r != rank) send.targets.push_back(plan::channel(r, 0));
  }
  if (program.lanes.size() != 1 || program.lanes[0].channel != 0 ||
      program.lanes[0].steps.size() != 2)
    return false;
  // A plan begins with the next rank; all are sent to side by side.
  plan::Step first = program.lanes[0].steps[0];
  std::ranges::sort(first.targets);
  return first == send && program.lanes[0].steps[1] == fold;
}

}  // namespace tutti::executor::kernel
