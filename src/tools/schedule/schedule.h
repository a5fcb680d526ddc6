#pragma once

// `tutti schedule`: what the ranks of a pipeline do when, how long they idle, and what they hold.

#include <string>
#include <variant>

#include "parallel/pipeline/builders.h"
#include "parallel/pipeline/timeline.h"

namespace tutti::tools {

struct ScheduleCommand {
  parallel::ScheduleOptions schedule;
  bool actions = false;  ///< print them, with the transfers
  std::string jsonFile;  ///< empty: none
  std::string svgFile;   ///< where a picture goes too; or nowhere
};

/// What the command line asks for (argv[0] is the sub-command's name), or the exit code where
/// nothing is left to do. Throws InvalidArgument naming an option whose value makes no sense.
std::variant<ScheduleCommand, int> parseSchedule(int argc, const char* const* argv);

/// As text, as one line of JSON, and as a picture.
std::string scheduleText(const parallel::Schedule& schedule, const parallel::Costs& costs,
                         bool actions);
std::string scheduleJson(const parallel::Schedule& schedule, const parallel::Costs& costs);
std::string scheduleSvg(const parallel::Schedule& schedule, const parallel::Costs& costs);

/// Runs the sub-command. Returns the exit code: 0, 1 when it failed, 2 for a wrong command line.
int scheduleMain(int argc, char** argv);

}  // namespace tutti::tools
