#pragma once

// The purposes of the training library (parallel/mesh/purpose.h): whether every collective and
// every scale factor has one, so that tests can break it (tests/parallel/parity). All folders of
// parallel/ are read but kernels/, which computes what one rank has by itself.

#include <string>
#include <vector>

#include "tests/repository/tokens.h"

namespace tutti::repository {

/// Those of `files`, which have to outlive them, that are held to it.
std::vector<TokenizedFile> trainingSources(const std::vector<SourceFile>& files);

/// Collectives that are called without naming a purpose: by a Communicator, anywhere but in
/// MeshCommunicator. "file:line: why", as all of these.
std::vector<std::string> callsWithoutPurpose(const std::vector<SourceFile>& files);

/// Purposes that no line of the library names, or more than one.
std::vector<std::string> purposesNotNamedOnce(const std::vector<SourceFile>& files);

/// A product or quotient that is no factor of what ranks add up.
struct AllowedScale {
  std::string file;  ///< its path, or how that begins
  std::string text;  ///< that is in the line
  std::string reason;
};
/// Products and quotients that are neither allowed nor made with factor(), unless both operands are
/// known to be integers, by what this file and headers declare; functions that multiply (ldexp,
/// fma, std::multiplies); and what a kernel is to multiply by (alpha, beta, scale, an argument that
/// is a number), where it is made up on the spot and not handed on. And what is allowed and not
/// there.
std::vector<std::string> scalesWithoutPurpose(const std::vector<SourceFile>& files,
                                              const std::vector<AllowedScale>& allowed);

}  // namespace tutti::repository
