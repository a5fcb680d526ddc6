#include "src/tools/common/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "src/base/check.h"

namespace tutti::tools {
namespace {

using ElfHeader = ElfW(Ehdr);
using ElfSegment = ElfW(Phdr);
using DynamicEntry = ElfW(Dyn);

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE;
#endif

/// The bytes of a file, mapped.
class FileBytes {
 public:
  explicit FileBytes(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status = {};
    const bool isFound = file >= 0 && ::fstat(file, &status) == 0;
    const int error = errno;
    void* const start =
        isFound && status.st_size > 0
            ? ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0)
            : nullptr;
    if (file >= 0) ::close(file);
    TUTTI_REQUIRE(isFound && start != MAP_FAILED, path,
                  " cannot be read: ", std::strerror(isFound ? errno : error));
    if (start != nullptr)
      all_ = {static_cast<const char*>(start), static_cast<size_t>(status.st_size)};
  }
  ~FileBytes() {
    if (!all_.empty()) ::munmap(const_cast<char*>(all_.data()), all_.size());
  }
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::string_view all() const { return all_; }
  /// Nothing where the file ends before.
  template <class Value>
  std::optional<Value> at(size_t offset) const {
    Value value;
    if (offset > all_.size() || sizeof value > all_.size() - offset) return std::nullopt;
    std::memcpy(&value, all_.data() + offset, sizeof value);
    return value;
  }
  /// Up to its zero.
  std::string textAt(size_t offset) const {
    if (offset >= all_.size()) return {};
    const std::string_view rest = all_.substr(offset);
    return std::string(rest.substr(0, rest.find('\0')));
  }

 private:
  std::string_view all_;
};

std::vector<ElfSegment> segmentsOf(const FileBytes& file, const ElfHeader& header) {
  std::vector<ElfSegment> all;
  for (size_t i = 0; i < header.e_phnum; ++i)
    if (const auto segment = file.at<ElfSegment>(header.e_phoff + i * sizeof(ElfSegment)))
      all.push_back(*segment);
  return all;
}

/// Where the file has what the program will have at that address; nothing where it has not.
std::optional<size_t> placeOf(const std::vector<ElfSegment>& segments, size_t address) {
  for (const ElfSegment& each : segments)
    if (each.p_type == PT_LOAD && address >= each.p_vaddr && address - each.p_vaddr < each.p_filesz)
      return each.p_offset + (address - each.p_vaddr);
  return std::nullopt;
}

std::vector<std::string> neededOf(const FileBytes& file, const std::vector<ElfSegment>& segments,
                                  const ElfSegment& dynamic) {
  std::vector<size_t> names;
  std::optional<size_t> texts;
  for (size_t at = 0; at + sizeof(DynamicEntry) <= dynamic.p_filesz; at += sizeof(DynamicEntry)) {
    const auto entry = file.at<DynamicEntry>(dynamic.p_offset + at);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) texts = placeOf(segments, entry->d_un.d_ptr);
  }
  std::vector<std::string> needed;
  for (const size_t name : names)
    if (texts) needed.push_back(file.textAt(*texts + name));
  return needed;
}

/// Whether the file has this text as one of its own, between zeros.
bool hasText(const FileBytes& file, std::string_view text) {
  const std::string whole = '\0' + std::string(text) + '\0';
  return file.all().find(whole) != std::string_view::npos;
}

}  // namespace

ElfFile readElfFile(const std::string& path) {
  const FileBytes file(path);
  ElfFile found;
  const auto header = file.at<ElfHeader>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return found;
  found.isElf = true;
  found.isOfThisMachine =
      header->e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) &&
      header->e_machine == kMachine;
  if (!found.isOfThisMachine || header->e_phentsize != sizeof(ElfSegment)) return found;
  const std::vector<ElfSegment> segments = segmentsOf(file, *header);
  for (const ElfSegment& each : segments) {
    if (each.p_type == PT_INTERP) found.isDynamic = true;
    if (each.p_type == PT_DYNAMIC) found.needed = neededOf(file, segments, each);
  }
  // The runtime opens the driver, and has names of errors that no program has.
  found.hasCudaRuntime =
      hasText(file, "libcuda.so.1") && hasText(file, "cudaErrorInvalidKernelImage");
  return found;
}

}  // namespace tutti::tools
