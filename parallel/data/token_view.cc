#include "parallel/data/token_view.h"

#include <algorithm>
#include <span>
#include <utility>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

/// In memory: a vector that it owns, or a span of somebody else's.
template <class Elements>
class InMemory final : public TokenSource {
 public:
  explicit InMemory(Elements elements) : elements_(std::move(elements)) {}
  int64_t size() const override { return static_cast<int64_t>(elements_.size()); }
  void read(int64_t first, int64_t count, int32_t* ids) const override {
    std::copy_n(elements_.begin() + first, count, ids);
  }

 private:
  const Elements elements_;
};

template <class Elements>
TokenView viewOf(Elements elements) {
  return TokenView(std::make_shared<InMemory<Elements>>(std::move(elements)));
}

}  // namespace

TokenView::TokenView(const std::vector<uint8_t>& bytes)
    : TokenView(viewOf(std::span<const uint8_t>(bytes))) {}
TokenView TokenView::owning(std::vector<uint8_t> bytes) { return viewOf(std::move(bytes)); }
TokenView TokenView::owning(std::vector<int32_t> ids) { return viewOf(std::move(ids)); }
TokenView::TokenView(std::shared_ptr<const TokenSource> source)
    : source_(std::move(source)), end_(source_->size()) {}

TokenView TokenView::part(int64_t begin, int64_t end) const {
  ensure(begin >= 0 && begin <= end && end <= size(), "tokens ", begin, " to ", end, " of ",
         size());
  TokenView view = *this;
  view.begin_ = begin_ + begin;
  view.end_ = begin_ + end;
  return view;
}

void TokenView::read(int64_t first, int64_t count, int32_t* ids) const {
  ensure(first >= 0 && count >= 0 && first <= size() - count, "tokens from ", first, ", ", count,
         " of them, of ", size());
  source_->read(begin_ + first, count, ids);
}

}  // namespace tutti::parallel
