// What nvcc made of the kernels for Hopper, read out of the machine code: each has wgmma, its
// operands' majors among the instruction's bits, and TMA, for one block and for clusters. An object
// has a cubin inside, which is an ELF file with a section for each kernel; an instruction is 16
// bytes, its opcode the low 12 bits.

#include <gtest/gtest.h>

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tutti::parallel::cuda {
namespace {

/// From the command line: the object, and what else is searched.
std::string object;
std::vector<std::string> libraries;

constexpr uint32_t kWgmma = 0x9f0, kTensorLoad = 0x5b4, kTensorLoadMulticast = 0x3b4;
constexpr uint64_t kTurnsA = uint64_t{1} << 61, kTurnsB = uint64_t{1} << 62;

std::string contentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
T valueAt(const std::string& bytes, size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// The machine code of each kernel.
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

/// The first word of each instruction of an opcode.
std::vector<uint64_t> instructions(const std::string& code, uint32_t opcode) {
  std::vector<uint64_t> found;
  for (size_t at = 0; at + 16 <= code.size(); at += 16)
    if (const auto word = valueAt<uint64_t>(code, at); (word & 0xfff) == opcode)
      found.push_back(word);
  return found;
}

TEST(Opcodes, HopperKernelsUseItsTensorCoresAndTma) {
  const auto kernels = kernelsIn(contentsOf(object));
  EXPECT_EQ(kernels.size(), 24u);
  std::map<uint64_t, int> kernelsOfMajors;
  for (const auto& [name, code] : kernels) {
    SCOPED_TRACE(name);
    EXPECT_NE(name.find("wgmmaGemm"), std::string::npos);
    const std::vector<uint64_t> products = instructions(code, kWgmma);
    EXPECT_GE(products.size(), 4u);  // 16 of the depth each
    std::set<uint64_t> majors;
    for (const uint64_t word : products) majors.insert(word & (kTurnsA | kTurnsB));
    EXPECT_EQ(majors.size(), 1u);
    for (const uint64_t each : majors) ++kernelsOfMajors[each];
    EXPECT_FALSE(instructions(code, kTensorLoad).empty());
    EXPECT_FALSE(instructions(code, kTensorLoadMulticast).empty());
  }
  EXPECT_EQ(kernelsOfMajors,
            (std::map<uint64_t, int>{{0, 6}, {kTurnsA, 6}, {kTurnsB, 6}, {kTurnsA | kTurnsB, 6}}));
}

TEST(Opcodes, LibrariesHaveNothingOfOtherLibrariesOfProducts) {
  ASSERT_FALSE(libraries.empty());
  for (const std::string& library : libraries) {
    const std::string bytes = contentsOf(library);
    EXPECT_GT(bytes.size(), 1000u);
    for (const char* const name : {"cublas", "cudnn", "cutlass", "cute4"})
      EXPECT_EQ(bytes.find(name), std::string::npos) << name << " in " << library;
  }
}

}  // namespace
}  // namespace tutti::parallel::cuda

/// usage: opcodes_test OBJECT LIBRARY...
int main(int argc, char** argv) {
  using namespace tutti::parallel::cuda;
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) object = argv[1];
  for (int i = 2; i < argc; ++i) libraries.push_back(argv[i]);
  return RUN_ALL_TESTS();
}
