#pragma once

// Flags that several samples have.

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/nn/gpt.h"
#include "parallel/store/shard_policy.h"

namespace CLI {
class App;
class ParseError;
class Validator;
}  // namespace CLI

namespace tutti::parallel {

/// Of any size: up to a thousand million, which is above all use, and two of them multiply in 64
/// bits.
CLI::Validator positiveSize();
CLI::Validator notNegativeSize();
/// A number of bytes, also with K, M or G behind it, for Option::transform().
CLI::Validator byteSize();
/// Above 0, or from 0 on.
CLI::Validator finiteNumber(bool orZero);

/// "; did you mean --optimizer?" of what is no flag, or nothing where none is near.
std::string nearestFlag(const CLI::App& app, const std::string& flag);

/// Prints "train_gpt: what went wrong" to standard error, as a terminal may show it.
void sayError(const std::string& program, const std::string& what);
/// Prints what is wrong, behind the program's name, or --help. Returns the exit code: 0 behind
/// --help, 1 when that could not be written, 2 for a wrong command line.
int exitCodeOf(const CLI::App& app, const CLI::ParseError& error);

/// --version: the program's name and Tutti's version.
void addVersionFlag(CLI::App& app);
void addRanksFlag(CLI::App& app, int& ranks);
void addStepFlags(CLI::App& app, int64_t& steps, int64_t& batch);
/// Those of experts; all but --experts need that, unless `options` has some already.
void addExpertFlags(CLI::App& app, ExpertOptions& options);
/// What those flags leave open.
void fillExperts(ExpertOptions& options);
void addModelFlags(CLI::App& app, GptOptions& model);

/// When gathered weights are given back, as --reshard and --backwards say.
struct ReshardFlags {
  std::string when;   ///< empty: not given
  int backwards = 0;  ///< 0: not given
};
void addReshardFlags(CLI::App& app, ReshardFlags& flags);
/// What is not given is as in Reshard. Throws InvalidArgument for --backwards without the --reshard
/// that it is about.
Reshard reshardOf(const ReshardFlags& flags);

}  // namespace tutti::parallel
