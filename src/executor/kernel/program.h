#pragma once

// A plan's program as the kernel reads it: one image in device memory, made once per plan and rank.
// Host and device agree on these structs. What does not change from round to round is worked out
// here: which messages of a link a step takes, so that the kernel counts none.

#include <cstdint>
#include <vector>

namespace tutti::plan {
struct PlanSpec;
struct Program;
}  // namespace tutti::plan

namespace tutti::executor::kernel {

enum class PortKind : uint8_t { Local, Mapped, Channel };
enum class PortBuffer : uint8_t { In, Out, Scratch };
enum class StepFold : uint8_t { None, Listed, Canonical };

struct PortCode {
  PortKind kind;
  PortBuffer buffer;
  uint16_t unused;
  int32_t rank;
  uint32_t chunk, chunks;
  uint32_t link;      ///< of a channel: channel * ranks + peer
  uint32_t ordinal;   ///< of a channel: of the messages of one round, counted from 0
  uint32_t perRound;  ///< of a channel: messages of one round
};
static_assert(sizeof(PortCode) == 28);

struct DependencyCode {
  uint32_t lane, step;
};

struct StepCode {
  uint32_t firstPort;         ///< sources, then targets
  uint16_t sources, targets;  ///< ports
  uint32_t firstAfter;
  uint16_t afters;
  StepFold fold;
  uint8_t completes;
  uint8_t awaited;  ///< another lane waits for it
  uint8_t unused;
  uint16_t dataPort;  ///< whose chunks say how much is moved; `sources + targets` where nothing is
};
static_assert(sizeof(StepCode) == 20);

/// What a lane sends and receives on a link in one round.
struct LaneLink {
  uint32_t link, sends, receives;
};

struct LaneCode {
  uint32_t firstStep, steps;
  uint32_t firstLink, links;
};

inline constexpr uint32_t kProgramMagic = 0x31495454;  // "TTI1"

/// The image begins with it; offsets are in bytes from its begin.
struct ProgramHeader {
  uint32_t magic, bytes;
  uint32_t rank, ranks;
  uint32_t lanes, steps, ports;
  uint32_t laneOffset, stepOffset, portOffset, afterOffset, linkOffset;
  uint32_t mostPorts;  ///< of one step
  uint32_t maps;       ///< 1: entries are exchanged first
};

/// Throws InvalidArgument where the program has more than the layout can say, naming what.
std::vector<unsigned char> encode(const plan::PlanSpec& spec, const plan::Program& program,
                                  int rank);

/// Whether all that the program does is to send its input, which is one chunk, to all others, and
/// to fold what they send in the order of ranks.
bool isOneShot(const plan::PlanSpec& spec, const plan::Program& program, int rank);

}  // namespace tutti::executor::kernel
