#pragma once

// Arena: bump allocation. Memory is taken in order and given back in exact reverse, by rewinding to
// a mark, so that a training step allocates nothing: the first step sizes the arena (it grows by
// whole blocks), every later step reuses it. Not thread safe; one arena serves one rank's thread.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <tutti/device.h>
#include "parallel/tensor/tensor.h"

namespace tutti::parallel {

/// What memory is taken from: the heap, unless one of these says otherwise.
struct Backing {
  /// Nothing: addresses that are only counted with (see dryAddress), for a run that touches no
  /// element. Comes before the others.
  bool dry = false;
  /// Files there that nobody else sees and that end with the memory: their pages leave main memory
  /// when it is needed for something else.
  std::string folder = {};
  /// The GPU of this stream, on which all that uses the memory runs. Not with `folder`.
  std::shared_ptr<Stream> stream = {};
  /// Page-locked memory of the host instead, which that GPU can address.
  bool pinned = false;
};

/// Aligned to pages, in the half of the address space that belongs to the kernel: the processor
/// stops whoever reads or writes there. It costs nothing, so a dry run has room for any model.
void* dryAddress(size_t offset = 0);

/// What an arena needed so far, in bytes.
struct ArenaUse {
  size_t peak = 0;  ///< allocated at one time, alignment included
  size_t held = 0;  ///< taken from the system for it: whole blocks
  bool operator==(const ArenaUse&) const = default;
};

class Arena {
 public:
  /// A position to return to.
  struct Mark {
    size_t block = 0;
    size_t offset = 0;
    size_t used = 0;
  };

  /// `name` appears in errors. `blockBytes` is the least that one growth takes from the system.
  /// Throws Unsupported for files on a GPU.
  explicit Arena(std::string name, Backing backing = {}, size_t blockBytes = size_t{1} << 22);
  /// Waits for what may still use the memory of a GPU.
  ~Arena();
  Arena(Arena&&) = default;

  /// Uninitialized memory, aligned to 64 bytes. Throws OutOfMemory naming the arena and the bytes,
  /// and the folder or the device, which has no room for them; System when no file can be made.
  Tensor allocate(DType type, const Shape& shape);
  /// The same with rows, of the last dimension, that begin at multiples of 16 bytes each, as loads
  /// of whole words and TMA need it: where a row has another length, one with gaps between rows,
  /// which nobody reads or writes. Of 8 bytes an element rows have no gaps.
  Tensor allocateRows(DType type, const Shape& shape);

  Mark mark() const { return mark_; }
  /// Gives back everything allocated since `mark`. Throws Internal when `mark` lies ahead.
  void rewind(const Mark& mark);
  /// Rewinds to `mark` but keeps the elements of `tensor`, if there are any, moved to the new end.
  Tensor retain(const Mark& mark, const Tensor& tensor);

  size_t usedBytes() const { return mark_.used; }  ///< allocated now, alignment included
  size_t peakBytes() const { return peak_; }       ///< the most that was
  size_t heldBytes() const;                        ///< taken from the system
  ArenaUse use() const { return {peakBytes(), heldBytes()}; }
  size_t growths() const { return blocks_.size(); }
  bool dry() const { return backing_.dry; }
  const Backing& backing() const { return backing_; }

 private:
  struct Free {
    bool dry = false;
    size_t mapped = 0;                      ///< bytes of a file; 0: of the heap
    size_t alignment = 0;                   ///< on the heap
    std::shared_ptr<Memory> ofDevice = {};  ///< then it is this
    void operator()(std::byte* memory) const;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    size_t bytes = 0;
  };
  void* take(size_t bytes);
  Block grow(size_t bytes) const;
  Block growFile(size_t bytes) const;
  Block growDevice(size_t bytes) const;
  void moveDown(const Tensor& from, const Tensor& to) const;

  std::string name_;
  Backing backing_;
  size_t blockBytes_;
  std::vector<Block> blocks_;
  Mark mark_;
  size_t peak_ = 0;
};

/// Rewinds an arena to where it was: `ArenaScope scope(context.scratch);`
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.rewind(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace tutti::parallel
