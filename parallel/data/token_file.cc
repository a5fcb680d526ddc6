#include "parallel/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "parallel/checkpoint/hash.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

static_assert(std::endian::native == std::endian::little, "ids are written as they lie");

constexpr size_t kBlockBytes = size_t{1} << 20, kDigits = 32;
constexpr uint32_t kVersion = 1;

struct Header {
  std::array<char, 8> magic;
  uint32_t version, idBytes;
  uint64_t vocabulary, count;
  std::array<char, kDigits> tokenizer, zeros, checksum;
};
static_assert(sizeof(Header) == 128);
constexpr std::array<char, 8> kMagic{'T', 'U', 'T', 'T', 'I', 'T', 'O', 'K'};

std::string checksumOf(const Header& header, std::string_view table) {
  Hash128 hash;
  hash.add(&header, offsetof(Header, checksum));
  hash.add(table.data(), table.size());
  return hash.digits();
}

std::string_view textOf(const std::array<char, kDigits>& field) {
  return {field.data(), std::find(field.begin(), field.end(), '\0')};
}

/// Two bytes can have 65536 ids.
int idBytesFor(int64_t vocabulary) { return vocabulary <= 65536 ? 2 : 4; }

TokenFileFacts checkedFacts(const std::string& name, const Header& header) {
  require(header.magic == kMagic, name, ": magic: this is no token file, or was not completed");
  require(header.version == kVersion, name, ": version: ", header.version, " is not known, ",
          kVersion, " is");
  require(header.idBytes == 2 || header.idBytes == 4, name, ": bytes of an id: ", header.idBytes,
          " is neither 2 nor 4");
  const uint64_t most = header.idBytes == 2 ? 65536 : std::numeric_limits<int32_t>::max();
  require(header.vocabulary >= 1 && header.vocabulary <= most, name,
          ": vocabulary: ", header.vocabulary, " is not between 1 and ", most);
  return {.vocabulary = static_cast<int64_t>(header.vocabulary),
          .count = static_cast<int64_t>(header.count),
          .idBytes = static_cast<int>(header.idBytes),
          .tokenizer = std::string(textOf(header.tokenizer))};
}

/// Of a file that is to be made.
TokenFileFacts checkedFacts(const std::filesystem::path& path, int64_t vocabulary,
                            const std::string& tokenizer) {
  require(vocabulary >= 1 && vocabulary <= std::numeric_limits<int32_t>::max(), path.string(),
          ": a vocabulary of ", vocabulary, " ids");
  if (std::filesystem::exists(path))
    fail(ErrorCode::InvalidUsage, path.string(), " is there already");
  return {.vocabulary = vocabulary,
          .idBytes = idBytesFor(vocabulary),
          .tokenizer = tokenizer.substr(0, kDigits)};
}

/// How many bytes of ids a file of so many bytes has, if it can have `count` of them.
size_t checkedDataBytes(const std::string& name, size_t fileBytes, const Header& header) {
  uint64_t data = 0, all = 0;
  const bool fits = !__builtin_mul_overflow(header.count, uint64_t{header.idBytes}, &data) &&
                    data <= uint64_t{std::numeric_limits<int64_t>::max()};
  if (fits) all = sizeof(Header) + data + (data + kBlockBytes - 1) / kBlockBytes * kDigits;
  require(fits && all == fileBytes, name, ": count: the file has ", fileBytes, " bytes, and ",
          header.count, " ids of ", header.idBytes, " bytes need ",
          fits ? message(all) : "more than there can be");
  return data;
}

template <class Id>
void copyIds(const char* from, int64_t count, int32_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    Id id;
    std::memcpy(&id, from + i * int64_t{sizeof(Id)}, sizeof(Id));
    to[i] = static_cast<int32_t>(id);
  }
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::filesystem::path& path, int64_t vocabulary,
                                 const std::string& tokenizer)
    : path_(path), facts_(checkedFacts(path, vocabulary, tokenizer)), pending_(path) {
  block_.reserve(kBlockBytes);
}

void TokenFileWriter::add(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= facts_.vocabulary)
      fail(ErrorCode::InvalidArgument, path_.string(), ": token ", facts_.count, ": ", id,
           " is not in a vocabulary of ", facts_.vocabulary);
    const auto* bytes = reinterpret_cast<const std::byte*>(&id);
    block_.insert(block_.end(), bytes, bytes + facts_.idBytes);
    ++facts_.count;
    if (block_.size() == kBlockBytes) writeBlock();
  }
}

void TokenFileWriter::writeBlock() {
  pending_.file().write(sizeof(Header) + written_, block_.data(), block_.size());
  table_ += hash128(block_.data(), block_.size());
  written_ += block_.size();
  block_.clear();
}

TokenFileFacts TokenFileWriter::finish() {
  if (!block_.empty()) writeBlock();
  Header header{.magic = kMagic,
                .version = kVersion,
                .idBytes = static_cast<uint32_t>(facts_.idBytes),
                .vocabulary = static_cast<uint64_t>(facts_.vocabulary),
                .count = static_cast<uint64_t>(facts_.count),
                .tokenizer = {},
                .zeros = {},
                .checksum = {}};
  std::ranges::copy(facts_.tokenizer, header.tokenizer.begin());
  std::ranges::copy(checksumOf(header, table_), header.checksum.begin());
  pending_.file().write(sizeof(Header) + written_, table_.data(), table_.size());
  pending_.file().write(0, &header, sizeof(header));
  pending_.publish(PendingFile::Existing::Refuse);
  return facts_;
}

TokenFile::TokenFile(const std::string& path) : file_("the token file", path) {
  const std::string_view bytes = file_.bytes();
  require(!bytes.empty(), file_.name(), " is empty");
  require(bytes.size() >= sizeof(Header), file_.name(), ": the header: the file has ", bytes.size(),
          " bytes");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  facts_ = checkedFacts(file_.name(), header);
  dataBytes_ = checkedDataBytes(file_.name(), bytes.size(), header);
  blocks_ = (dataBytes_ + kBlockBytes - 1) / kBlockBytes;
  const std::string checksum = checksumOf(header, bytes.substr(sizeof(Header) + dataBytes_));
  require(textOf(header.checksum) == checksum, file_.name(),
          ": checksum: bytes 0 to 96 or those from ", sizeof(Header) + dataBytes_,
          " on have changed since they were written");
  require(facts_.count > 0, file_.name(), ": count: it has no tokens");
  verified_ = std::make_unique<std::atomic<bool>[]>(blocks_);
}

void TokenFile::read(int64_t first, int64_t count, int32_t* ids) const {
  if (count == 0) return;
  file_.requireWhole();
  const size_t begin = static_cast<size_t>(first * facts_.idBytes);
  const size_t end = static_cast<size_t>((first + count) * facts_.idBytes);
  for (size_t block = begin / kBlockBytes; block * kBlockBytes < end; ++block)
    if (!verified_[block].load(std::memory_order_relaxed)) verifyBlock(block);
  const char* const from = file_.bytes().data() + sizeof(Header) + begin;
  facts_.idBytes == 2 ? copyIds<uint16_t>(from, count, ids) : copyIds<uint32_t>(from, count, ids);
}

void TokenFile::verify() const {
  file_.requireWhole();
  for (size_t block = 0; block < blocks_; ++block) verifyBlock(block);
}

void TokenFile::verifyBlock(size_t block) const {
  const size_t begin = block * kBlockBytes, size = std::min(kBlockBytes, dataBytes_ - begin);
  const std::string_view bytes = file_.bytes().substr(sizeof(Header) + begin, size);
  const std::string_view written =
      file_.bytes().substr(sizeof(Header) + dataBytes_ + block * kDigits, kDigits);
  const std::string checksum = hash128(bytes.data(), bytes.size());
  require(checksum == written, file_.name(), ": bytes ", sizeof(Header) + begin, " to ",
          sizeof(Header) + begin + size,
          " have changed since they were written: their checksum is ", checksum, ", not ", written);
  std::vector<int32_t> ids(size / static_cast<size_t>(facts_.idBytes));
  const auto count = static_cast<int64_t>(ids.size());
  facts_.idBytes == 2 ? copyIds<uint16_t>(bytes.data(), count, ids.data())
                      : copyIds<uint32_t>(bytes.data(), count, ids.data());
  // Ids of 2^31 and more are negative here.
  const auto bad =
      std::ranges::find_if(ids, [&](int32_t id) { return id < 0 || id >= facts_.vocabulary; });
  if (bad != ids.end()) {
    const size_t at = begin + static_cast<size_t>((bad - ids.begin()) * facts_.idBytes);
    fail(ErrorCode::InvalidArgument, file_.name(), ": byte ", sizeof(Header) + at, ": token ",
         at / static_cast<size_t>(facts_.idBytes), " is ", static_cast<uint32_t>(*bad),
         ", and the vocabulary has ", facts_.vocabulary);
  }
  verified_[block].store(true, std::memory_order_relaxed);
}

}  // namespace tutti::parallel
