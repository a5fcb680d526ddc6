#pragma once

// Schedules as text.

#include <string>

#include "parallel/pipeline/timeline.h"

namespace tutti::parallel {

/// Its ranks as lines and time from left to right: "F3" is the forward of micro-batch 3, "B3.1" its
/// backward in chunk 1, a dot a time in which the rank idles. Where that is too wide for a line it
/// goes on below.
std::string drawText(const Schedule& schedule, const Timeline& timeline);

/// Each rank's actions, transfers too: those of one group in brackets.
std::string actionsText(const Schedule& schedule);

/// "3/11 (27.3%)".
std::string shareText(const Fraction& share);
/// "33", "12.5", "33 1/3": as few words as are exact.
std::string numberText(const Fraction& number);

}  // namespace tutti::parallel
