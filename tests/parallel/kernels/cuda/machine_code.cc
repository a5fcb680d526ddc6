#include "tests/parallel/kernels/cuda/machine_code.h"

#include <gtest/gtest.h>

#include <elf.h>

#include <cstring>

namespace tutti::parallel::cuda {

namespace {

template <class T>
T valueAt(const std::string& bytes, size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::map<std::string, std::string> kernelsIn(const std::string& bytes) {
  constexpr uint16_t kCuda = 190;
  std::map<std::string, std::string> kernels;
  for (size_t begin = bytes.find(ELFMAG); begin != std::string::npos;
       begin = bytes.find(ELFMAG, begin + 1)) {
    const auto header = valueAt<Elf64_Ehdr>(bytes, begin);
    if (header.e_machine != kCuda) continue;
    const auto section = [&](size_t index) {
      return valueAt<Elf64_Shdr>(bytes, begin + header.e_shoff + index * sizeof(Elf64_Shdr));
    };
    const size_t names = begin + section(header.e_shstrndx).sh_offset;
    for (size_t i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr each = section(i);
      const std::string name = bytes.c_str() + names + each.sh_name;
      if (name.rfind(".text.", 0) == 0)
        kernels[name.substr(6)] = bytes.substr(begin + each.sh_offset, each.sh_size);
    }
  }
  return kernels;
}

std::vector<uint64_t> instructions(const std::string& code, uint32_t opcode) {
  std::vector<uint64_t> found;
  for (size_t at = 0; at + 16 <= code.size(); at += 16)
    if (const auto word = valueAt<uint64_t>(code, at); (word & 0xfff) == opcode)
      found.push_back(word);
  return found;
}

int doubleInstructions(const std::string& code) {
  constexpr uint64_t kOperation = 0x1ff, kFirst = 0x28, kLast = 0x2b;  // DMUL, DADD, DSETP, DFMA
  int count = 0;
  for (size_t at = 0; at + 16 <= code.size(); at += 16) {
    const uint64_t operation = valueAt<uint64_t>(code, at) & kOperation;
    count += operation >= kFirst && operation <= kLast ? 1 : 0;
  }
  return count;
}

}  // namespace tutti::parallel::cuda
