#include "tests/support/board_processes.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "src/base/check.h"
#include "tests/support/leftovers.h"

namespace tutti::tests {
namespace {

std::string runBody(const BoardProcesses::Body& body, int rank, BoardProcesses::Board& board) {
  try {
    return body(rank, board);
  } catch (const Error& error) {
    return base::message("error ", toString(error.code()), ": ", error.what());
  } catch (const std::exception& error) {
    return base::message("exception: ", error.what());
  }
}

}  // namespace

void BoardProcesses::Board::publish(const UniqueId& made) {
  std::memcpy(id, made.bytes.data(), sizeof id);
  published.store(1);
}

UniqueId BoardProcesses::Board::awaitId() {
  UniqueId made;
  if (!eventually([&] { return published.load() == 1; }))
    base::fail(ErrorCode::Timeout, "no id was published");
  std::memcpy(made.bytes.data(), id, sizeof id);
  return made;
}

BoardProcesses::BoardProcesses(int count, const Body& body) {
  TUTTI_REQUIRE(count <= kMaxRanks, count, " ranks");
  void* memory =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) base::failSyscall("mmap", errno);
  board_ = new (memory) Board;
  for (int rank = 0; rank < count; ++rank)
    processes_.start([&] {
      const std::string result = runBody(body, rank, *board_);
      board_->lines[rank].saidNs.store(std::chrono::steady_clock::now().time_since_epoch() /
                                       std::chrono::nanoseconds(1));
      std::strncpy(board_->lines[rank].text, result.c_str(), sizeof board_->lines[rank].text - 1);
      return 0;
    });
}

BoardProcesses::~BoardProcesses() { ::munmap(board_, sizeof(Board)); }

bool BoardProcesses::awaitStep(int rank, int step) {
  return eventually([&] { return board_->lines[rank].step.load() >= step; });
}

std::chrono::steady_clock::time_point BoardProcesses::saidAt(int rank) const {
  return std::chrono::steady_clock::time_point(
      std::chrono::nanoseconds(board_->lines[rank].saidNs.load()));
}

std::vector<std::string> BoardProcesses::results() {
  std::vector<std::string> texts;
  for (int rank = 0; rank < processes_.count(); ++rank) {
    const int status = processes_.wait(rank, kPatience);
    if (status < 0)
      texts.push_back("hangs");
    else if (status > 128)
      texts.push_back(base::message("killed by signal ", status - 128));
    else if (status != 0)
      texts.push_back(base::message("exit code ", status));
    else
      texts.push_back(board_->lines[rank].text);
  }
  return texts;
}

}  // namespace tutti::tests
