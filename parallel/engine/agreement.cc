#include "parallel/engine/agreement.h"

#include <exception>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

std::vector<std::string> exchangeTexts(MeshCommunicator* all, const std::string& mine) {
  if (all == nullptr) return {mine};
  const auto ranks = static_cast<size_t>(all->size());
  const uint64_t length = mine.size();
  std::vector<uint64_t> lengths(ranks);
  all->allGather(Purpose::TextLengths,
                 {.send = &length, .recv = lengths.data(), .count = 1, .type = DataType::UInt64});
  const std::vector<size_t> counts(lengths.begin(), lengths.end());
  size_t total = 0;
  for (const size_t count : counts) total += count;
  std::string joined(total, '\0');
  all->allGatherV(Purpose::Texts, {.send = mine.data(),
                                   .recv = joined.data(),
                                   .counts = counts,
                                   .offsets = {},
                                   .type = DataType::UInt8});
  std::vector<std::string> texts;
  for (size_t rank = 0, at = 0; rank < ranks; at += counts[rank++])
    texts.push_back(joined.substr(at, counts[rank]));
  return texts;
}

int64_t largestOf(MeshCommunicator* all, int64_t mine) {
  if (all != nullptr)
    all->allReduce(Purpose::LargestWord, {&mine, &mine, 1, DType::Int64, ReduceOp::Max});
  return mine;
}

void together(MeshCommunicator* all, const std::function<void()>& work) {
  std::exception_ptr own;
  std::string said;  // the code, then the message
  const auto note = [&](const Error& error) {
    own = std::make_exception_ptr(error);
    said = static_cast<char>(error.code()) + std::string(error.what());
  };
  try {
    work();
  } catch (const Error& error) {
    note(error);
  } catch (const std::bad_alloc&) {
    note(Error(ErrorCode::OutOfMemory, "there is no memory for what a file holds"));
  } catch (const std::exception& error) {
    note(Error(ErrorCode::System, error.what()));
  }
  const std::vector<std::string> failures = exchangeTexts(all, said);
  for (size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    if (all == nullptr || static_cast<int>(rank) == all->rank()) std::rethrow_exception(own);
    fail(static_cast<ErrorCode>(failures[rank][0]), "rank ", rank, ": ", failures[rank].substr(1));
  }
}

}  // namespace tutti::parallel
