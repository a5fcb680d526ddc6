#include "parallel/tensor/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tutti::parallel {

namespace {
constexpr size_t kAlignment = 64;
constexpr int64_t kWordBytes = 16;
// Larger blocks start at a multiple of it and ask for pages of that size: a matrix's rows are far
// apart, and with pages of 4 KiB their addresses do not all stay in the processor's tables.
constexpr size_t kHugePage = size_t{1} << 21;
size_t alignUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// On 64-bit processors that Linux runs on, user space ends below it.
constexpr uintptr_t kDryBase = uintptr_t{1} << 63;
}  // namespace

void* dryAddress(size_t offset) {
  return reinterpret_cast<void*>(kDryBase + offset);  // NOLINT: an address is what is asked for
}

void Arena::Free::operator()(std::byte* memory) const {
  if (dry || ofDevice) return;
  if (mapped > 0) {
    ::munmap(memory, mapped);
  } else {
    ::operator delete (memory, std::align_val_t{alignment});
  }
}

Arena::Arena(std::string name, Backing backing, size_t blockBytes)
    : name_(std::move(name)), backing_(std::move(backing)), blockBytes_(alignUp(blockBytes)) {
  if (backing_.stream && !backing_.folder.empty())
    fail(ErrorCode::Unsupported, "the ", name_, " arena is memory of ",
         toString(StreamRef(*backing_.stream).device()), ", and cannot be files in ",
         backing_.folder);
}

Arena::~Arena() {
  if (!backing_.stream || blocks_.empty()) return;
  try {
    backing_.stream->synchronize();
  } catch (const std::exception&) {  // whoever works there next is told
  }
}

Arena::Block Arena::grow(size_t bytes) const {
  if (backing_.dry) {
    auto* memory = static_cast<std::byte*>(dryAddress(heldBytes()));
    return {std::unique_ptr<std::byte, Free>(memory, Free{.dry = true}), bytes};
  }
  if (backing_.stream) return growDevice(bytes);
  if (!backing_.folder.empty()) return growFile(bytes);
  const size_t alignment = bytes < kHugePage ? kAlignment : kHugePage;
  auto* memory =
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment}, std::nothrow));
  if (memory == nullptr)
    fail(ErrorCode::OutOfMemory, "the ", name_, " arena could not grow by ", bytes,
         " bytes; it holds ", heldBytes());
  // A kernel without huge pages refuses, and then small ones do.
  if (alignment == kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);
  return {std::unique_ptr<std::byte, Free>(memory, Free{.alignment = alignment}), bytes};
}

Arena::Block Arena::growFile(size_t bytes) const {
  std::string path = backing_.folder + "/tutti-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0)
    fail(ErrorCode::System, "the ", name_, " arena has no file in ", backing_.folder, ": ",
         std::strerror(errno));
  ::unlink(path.c_str());
  // Room for all of it now: a disk that is full later would end the process.
  const int error = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* memory =
      error == 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int reason = error != 0 ? error : errno;
  ::close(file);
  if (memory == MAP_FAILED)
    fail(ErrorCode::OutOfMemory, "the ", name_, " arena could not grow by ", bytes, " bytes in ",
         backing_.folder, ": ", std::strerror(reason));
  return {std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(memory), Free{.mapped = bytes}),
          bytes};
}

Arena::Block Arena::growDevice(size_t bytes) const {
  try {
    auto memory = std::make_shared<Memory>(
        backing_.pinned ? allocatePinned(bytes)
                        : allocateOn(StreamRef(*backing_.stream).device(), bytes));
    auto* const begin = memory->as<std::byte>();
    return {std::unique_ptr<std::byte, Free>(begin, Free{.ofDevice = std::move(memory)}), bytes};
  } catch (const Error& error) {
    fail(error.code(), "the ", name_, " arena, which holds ", heldBytes(),
         ", could not grow: ", error.what());
  }
}

void* Arena::take(size_t bytes) {
  Mark next = mark_;
  while (next.block < blocks_.size() && blocks_[next.block].bytes - next.offset < bytes) {
    ++next.block;
    next.offset = 0;
  }
  if (next.block == blocks_.size()) blocks_.push_back(grow(std::max(bytes, blockBytes_)));
  void* result = blocks_[next.block].memory.get() + next.offset;
  next.offset += bytes;
  next.used += bytes;
  mark_ = next;
  peak_ = std::max(peak_, mark_.used);
  return result;
}

Tensor Arena::allocate(DType type, const Shape& shape) {
  const size_t bytes = alignUp(byteCount(type, shape));
  return Tensor(bytes == 0 ? nullptr : take(bytes), type, shape);
}

Tensor Arena::allocateRows(DType type, const Shape& shape) {
  const auto run = std::max<int64_t>(kWordBytes / static_cast<int64_t>(sizeOf(type)), 1);
  const int last = shape.rank() - 1;
  if (last < 1 || run < 4 || shape[last] % run == 0) return allocate(type, shape);
  Shape padded = shape;
  padded[last] += run - shape[last] % run;
  return allocate(type, padded).part(last, 0, shape[last]);
}

void Arena::rewind(const Mark& mark) {
  ensure(mark.used <= mark_.used, "the ", name_, " arena cannot be rewound forward, from ",
         mark_.used, " to ", mark.used, " bytes");
  mark_ = mark;
}

Tensor Arena::retain(const Mark& mark, const Tensor& tensor) {
  ensure(tensor.contiguous(), "only a contiguous tensor can be retained: ", tensor);
  rewind(mark);
  Tensor result = allocate(tensor.type, tensor.shape);
  result.layout = tensor.layout;
  // Blocks are only appended, so the old elements are still there; the two may overlap.
  if (tensor.bytes() > 0 && !dry() && result.data != tensor.data) moveDown(tensor, result);
  return result;
}

/// Within a block to lower addresses. Copies of a GPU do not overlap: there are as many as it
/// takes.
void Arena::moveDown(const Tensor& from, const Tensor& to) const {
  if (!backing_.stream) {
    std::memmove(to.data, from.data, from.bytes());
    return;
  }
  const auto* const source = static_cast<const std::byte*>(from.data);
  auto* const target = static_cast<std::byte*>(to.data);
  const bool overlap = target < source && source < target + from.bytes();
  const size_t atOnce = overlap ? static_cast<size_t>(source - target) : from.bytes();
  for (size_t done = 0; done < from.bytes(); done += atOnce)
    copy({target + done, source + done, std::min(atOnce, from.bytes() - done)}, *backing_.stream);
}

size_t Arena::heldBytes() const {
  size_t total = 0;
  for (const Block& block : blocks_) total += block.bytes;
  return total;
}

}  // namespace tutti::parallel
