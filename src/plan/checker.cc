#include "src/plan/checker.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/plan/flat_plan.h"
#include "src/plan/machine.h"
#include "src/plan/step_rules.h"

namespace tutti::plan {
namespace {

/// Which chunk of the buffer of all blocks a port begins with; kNone where a Shape could not say.
uint32_t commonChunk(const PlanSpec& spec, const FlatPort& port) {
  if (port.kind == Port::Kind::Channel) return port.chunk;
  if (port.buffer == Buffer::Scratch) return kNone;  // has none
  const bool many =
      port.buffer == Buffer::In ? givesBlocks(spec.collective) : getsBlocks(spec.collective);
  if (!many && port.kind == Port::Kind::Mapped) return kNone;  // another rank's only block
  return port.chunk + (many ? 0 : static_cast<uint32_t>(port.rank) * spec.divisions);
}

/// Every step is about the same blocks in all its ports.
bool isUnevenSafe(const PlanSpec& spec, const FlatPlan& flat) {
  if (givesBlocks(spec.collective) == getsBlocks(spec.collective)) return false;
  for (const FlatStep& step : flat.steps) {
    std::optional<uint32_t> first;
    for (const auto& ports : {flat.sources(step), flat.targets(step)})
      for (const FlatPort& port : ports) {
        if (port.chunks == 0) continue;
        const uint32_t chunk = commonChunk(spec, port);
        if (chunk == kNone || chunk != first.value_or(chunk)) return false;
        first = chunk;
      }
  }
  return true;
}

/// The facts that can be read off the steps: largest message, scratch, mapped buffers.
std::string faultOfFacts(const PlanSpec& spec, const FlatPlan& flat) {
  uint32_t message = 0, scratch = 0;
  AccessSet mapped;
  for (const FlatPort& port : flat.ports) {
    if (port.kind == Port::Kind::Channel)
      message = std::max(message, port.chunks);
    else if (port.buffer == Buffer::Scratch)
      scratch = std::max(scratch, port.chunk + port.chunks);
    if (port.kind != Port::Kind::Mapped) continue;
    (port.buffer == Buffer::In ? mapped.in : mapped.out) = true;
  }
  const uint32_t blocks = (scratch + spec.divisions - 1) / spec.divisions;
  if (message != spec.messageChunks)
    return base::message("messages carry up to ", message, " chunks, the spec says ",
                         spec.messageChunks);
  if (blocks != spec.scratchBlocks)
    return base::message("scratch is used up to block ", blocks, " of ", spec.scratchBlocks);
  if (!(mapped == spec.mapped)) return "the spec maps buffers that no step maps";
  if (isUnevenSafe(spec, flat) != spec.unevenSafe)
    return base::message(
        "steps are ", spec.unevenSafe ? "not " : "",
        "each about the same blocks in all their ports, unlike what the spec says");
  return {};
}

CheckError wrongSpec(const PlanSpec& spec, const std::string& what) {
  return {.message = spec.describe() + ": " + what};
}

/// Builders may rely on a sound spec; of another one nothing is built, and check() refuses it.
std::vector<Program> buildAll(const PlanSpec& spec, const BuildFunction& build) {
  std::vector<Program> programs;
  if (!faultOfSpec(spec).empty()) return programs;
  for (int rank = 0; rank < spec.ranks; ++rank) programs.push_back(build(spec, rank));
  return programs;
}

}  // namespace

PlanChecker::PlanChecker(const PlanSpec& spec, const BuildFunction& build)
    : spec_(spec), programs_(buildAll(spec, build)) {}

PlanChecker::PlanChecker(const PlanSpec& spec, std::vector<Program> programs)
    : spec_(spec), programs_(std::move(programs)) {}

CheckResult PlanChecker::check(std::initializer_list<int> rounds) const {
  CheckResult result;
  const auto refuse = [&](const std::string& what) { result.error = wrongSpec(spec_, what); };
  if (std::string fault = faultOfSpec(spec_); !fault.empty()) return refuse(fault), result;
  FlatPlan flat;
  result.error = flatten(spec_, programs_, flat);
  if (result.error) return result;
  const int most = std::max(rounds);
  TUTTI_REQUIRE(std::min(rounds) >= 1 && most <= 8, "rounds to check must be 1 to 8");
  Expressions expressions(spec_.ranks, blocksOf(spec_, Buffer::In) * spec_.divisions, most);
  for (int count : rounds)
    for (bool inPlace : {false, true}) {
      if (inPlace && !spec_.inPlaceSafe) continue;
      SymbolicMachine machine(spec_, programs_, flat, expressions, count, inPlace);
      result.error = machine.run();
      if (result.error) {
        result.error->message += base::message(" (", count, count == 1 ? " round" : " rounds",
                                               inPlace ? ", in place)" : ", out of place)");
        return result;
      }
      if (count == 1 && !inPlace) result.measured = machine.measured();
      if (machine.measured().canonicalOrder != spec_.canonicalOrder)
        return refuse("the order of additions is " + machine.measured().expression +
                      (spec_.canonicalOrder
                           ? ", which is not the canonical order that the spec names"
                           : ", the canonical order, which the spec does not name")),
               result;
    }
  if (std::string fault = faultOfFacts(spec_, flat); !fault.empty()) refuse(fault);
  return result;
}

}  // namespace tutti::plan
