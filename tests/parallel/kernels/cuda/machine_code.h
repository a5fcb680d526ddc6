#pragma once

// Machine code as nvcc left it in an object: a cubin inside, which is an ELF file with a section
// for each kernel; an instruction is 16 bytes, its opcode the low 12 bits. The object is one for a
// single architecture, which is not compressed.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tutti::parallel::cuda {

/// wgmma with its left factor in shared memory and in registers, TMA, TMA for several blocks.
inline constexpr uint32_t kWgmma = 0x9f0, kWgmmaOfRegisters = 0xdf0, kTensorLoad = 0x5b4,
                          kTensorLoadMulticast = 0x3b4;
/// Bits of a wgmma: which factors are turned.
inline constexpr uint64_t kTurnsA = uint64_t{1} << 61, kTurnsB = uint64_t{1} << 62;

/// The machine code of each kernel, by name.
std::map<std::string, std::string> kernelsIn(const std::string& bytes);

/// The first word of each instruction of an opcode.
std::vector<uint64_t> instructions(const std::string& code, uint32_t opcode);

/// Instructions that multiply, add or compare in float64, wherever their operands are.
int doubleInstructions(const std::string& code);

}  // namespace tutti::parallel::cuda
