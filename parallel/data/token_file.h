#pragma once

// Token files: the ids of a text, once computed, for any number of trainings. Little-endian:
//
//   0   8 bytes   "TUTTITOK"
//   8   u32       version: 1
//   12  u32       bytes of an id: 2 or 4
//   16  u64       vocabulary: all ids are below it
//   24  u64       how many ids
//   32  32 bytes  fingerprint of the tokenizer that made them, zeros behind it: "bytes", or 32
//   digits 64  32 bytes  zeros 96  32 bytes  checksum of bytes 0 to 96 and of the table 128 the ids
//   then          the table: for each MiB of ids, the last may be shorter, 32 bytes of checksum
//
// Checksums are xxHash-128 in digits, as `xxhsum -H2` prints them. A file gets its name when it is
// complete.

#include <atomic>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/checkpoint/pending_file.h"
#include "parallel/data/mapped_file.h"
#include "parallel/data/token_view.h"

namespace tutti::parallel {

/// What a token file says of itself.
struct TokenFileFacts {
  int64_t vocabulary = 0, count = 0;
  int idBytes = 2;
  std::string tokenizer;  ///< its fingerprint
};

/// Writes one file, which gets its name in finish(); without that there is none.
class TokenFileWriter {
 public:
  /// Throws InvalidUsage when there is a file already, InvalidArgument for a vocabulary of none or
  /// more than 2^31 - 1 ids.
  TokenFileWriter(const std::filesystem::path& path, int64_t vocabulary,
                  const std::string& tokenizer);

  /// Throws InvalidArgument, naming its number, for an id that is not in the vocabulary.
  void add(std::span<const int32_t> ids);
  /// The file is complete, and the disk has it. Throws InvalidUsage when there is one by now.
  TokenFileFacts finish();

 private:
  void writeBlock();
  const std::filesystem::path path_;
  TokenFileFacts facts_;
  PendingFile pending_;
  std::vector<std::byte> block_;
  uint64_t written_ = 0;  ///< bytes of ids
  std::string table_;
};

/// A file that is mapped. Its header and table are checked when it is opened, each block of ids
/// against its checksum and the vocabulary when something of it is first read.
class TokenFile final : public TokenSource {
 public:
  /// Throws InvalidArgument, naming file and member, for what is no token file or not a whole one.
  explicit TokenFile(const std::string& path);
  const TokenFileFacts& facts() const { return facts_; }
  int64_t size() const override { return facts_.count; }
  void read(int64_t first, int64_t count, int32_t* ids) const override;
  /// Checks all of it.
  void verify() const;

 private:
  void verifyBlock(size_t block) const;
  MappedFile file_;
  TokenFileFacts facts_;
  size_t dataBytes_ = 0, blocks_ = 0;
  std::unique_ptr<std::atomic<bool>[]> verified_;
};

}  // namespace tutti::parallel
