#pragma once

// --device of the samples: where a rank's tensors are, and what computes with them.

#include <memory>
#include <string>

#include <tutti/device.h>
#include "parallel/kernels/kernels.h"
#include "parallel/mesh/device_mesh.h"

namespace tutti::parallel {

inline constexpr const char* kDeviceHelp =
    "where it computes: host, cuda (GPUs, which ranks take in turn), or, in the programs of "
    "build/tests/emulated, emulated";

/// Throws InvalidArgument for what is none of host, cuda, emulated, and for what this program has
/// not: the emulation is linked into test programs alone, instead of CUDA.
void requireDeviceWord(const std::string& word);

/// Of what such a rank has its tensors on; of `dry`, the host.
DeviceKind kindOf(const std::string& word);

/// The device of a rank. Throws Unsupported where there is none.
Device deviceFor(const std::string& word, int rank);

/// A rank of a job along `shape`; of several this process is the one that a launcher
/// has started. `gpuBlocks` is CommunicatorOptions'. Collective, and throws as
/// Communicator::create() does.
DeviceMesh joinMesh(const MeshShape& shape, const std::string& device, bool deterministic,
                    int gpuBlocks = 0);

/// What computes with the tensors of that rank; the mesh must outlive it.
std::unique_ptr<Kernels> kernelsFor(const DeviceMesh& mesh);

}  // namespace tutti::parallel
