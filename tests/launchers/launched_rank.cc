// A rank under somebody else's launcher.
//
//   launched_rank meet WORD [LATE]     joins, LATE a little after the others, says who it is, and
//                                      fails unless all ranks of its world have the same WORD
//   launched_rank lose exit|kill DIR   rank 1 ends in that way; each other rank writes what it is
//                                      told to DIR/RANK

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <tutti/launch.h>
#include <tutti/tutti.h>

namespace {

int meet(uint64_t word, int late) {
  const auto launched = tutti::launchedRank();
  if (launched && launched->rank == late)
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  tutti::Communicator c = tutti::Communicator::create();
  std::vector<uint64_t> words(static_cast<size_t>(c.size()));
  c.allGather({.send = &word, .recv = words.data(), .count = 1, .type = tutti::DataType::UInt64});
  std::printf("%s: rank %d of %d\n", launched ? launched->launcher.c_str() : "nobody", c.rank(),
              c.size());
  for (const uint64_t other : words)
    if (other != word) {
      std::fprintf(stderr, "rank %d met a rank of another job\n", c.rank());
      return 1;
    }
  return 0;
}

int lose(const std::string& how, const std::string& folder) {
  tutti::Communicator c = tutti::Communicator::create();
  if (c.rank() == 1) {
    c.barrier();
    if (how == "kill") raise(SIGKILL);
    _exit(3);
  }
  std::string told = "nothing";
  try {
    c.barrier();  // which rank 1 may pass, and end, before the others
    c.barrier();
  } catch (const tutti::Error& error) {
    told = std::string(toString(error.code())) + ": " + error.what();
  }
  const std::string name = folder + "/" + std::to_string(c.rank());
  std::ofstream(name + ".new") << told << "\n";
  std::filesystem::rename(name + ".new", name);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() >= 2 && words[0] == "meet")
      return meet(std::stoull(words[1]), words.size() > 2 ? std::stoi(words[2]) : -1);
    if (words.size() == 3 && words[0] == "lose") return lose(words[1], words[2]);
    std::fputs("usage: launched_rank meet WORD [LATE] | lose exit|kill DIR\n", stderr);
    return 2;
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "launched_rank: %s\n", error.what());
    return 1;
  }
}
