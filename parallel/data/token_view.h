#pragma once

// Tokens wherever they are: TokenSource is what has them, TokenView a part of one, which copies as
// a value does and keeps its source.

#include <cstdint>
#include <memory>
#include <vector>

namespace tutti::parallel {

/// Thread safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t size() const = 0;
  /// Copies the tokens [first, first + count), which are all there, to `ids`. Throws
  /// InvalidArgument, naming the file and the place in it, where they are damaged.
  virtual void read(int64_t first, int64_t count, int32_t* ids) const = 0;
};

class TokenView {
 public:
  /// One token a byte. `bytes` stay where they are and as they are.
  TokenView(const std::vector<uint8_t>& bytes);
  static TokenView owning(std::vector<uint8_t> bytes);
  static TokenView owning(std::vector<int32_t> ids);
  explicit TokenView(std::shared_ptr<const TokenSource> source);

  int64_t size() const { return end_ - begin_; }
  /// The tokens [begin, end) of this.
  TokenView part(int64_t begin, int64_t end) const;
  /// As TokenSource::read().
  void read(int64_t first, int64_t count, int32_t* ids) const;

 private:
  std::shared_ptr<const TokenSource> source_;
  int64_t begin_ = 0, end_ = 0;
};

}  // namespace tutti::parallel
