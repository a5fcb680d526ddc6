#pragma once

// Flags that several samples have.

#include <CLI/CLI.hpp>
#include <cstdint>

#include "parallel/nn/gpt.h"

namespace tutti::parallel {

/// Of any size: up to a thousand million, which is above all use, and two of them multiply in 64
/// bits.
CLI::Validator positiveSize();
CLI::Validator notNegativeSize();

void addRanksFlag(CLI::App& app, int& ranks);
void addStepFlags(CLI::App& app, int64_t& steps, int64_t& batch);
void addModelFlags(CLI::App& app, GptOptions& model);

}  // namespace tutti::parallel
