// Makes short calls of two ranks on one thread, where none has to wait: the instructions that a
// call takes are those of the library alone. call_cost KIND TURNS: each turn is a call of each
// rank, on two elements.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <tutti/tutti.h>

int main(int argc, char** argv) {
  using tutti::Communicator;
  auto ranks = Communicator::createLocal(2, {.transport = "shm"});
  std::vector<float> in(2, 1.0F), out(2);
  std::vector<tutti::PreparedCall> prepared;
  for (Communicator& c : ranks)
    prepared.push_back(c.prepare(tutti::BroadcastArgs{.send = in, .recv = in}));

  const std::map<std::string, std::function<void()>> kinds{
      // Rank 0 gives, then rank 1 takes.
      {"broadcast",
       [&] {
         for (Communicator& c : ranks) c.broadcast({.send = in, .recv = in});
       }},
      // The same, which its options keep from being short.
      {"general",
       [&] {
         for (Communicator& c : ranks)
           c.broadcast({.send = in, .recv = in, .options = {.algorithm = "one_shot"}});
       }},
      {"prepared",
       [&] {
         for (auto& call : prepared) call.start();
       }},
      // Each sends, and takes what the other one has sent before.
      {"exchange",
       [&] {
         for (const int r : {0, 1}) {
           tutti::Group both;
           ranks[r].send({.send = in, .peer = 1 - r});
           ranks[r].receive({.recv = out, .peer = 1 - r});
           both.end();
         }
       }},
      // Rank 1 gives, then rank 0 takes and adds.
      {"reduce", [&] {
         for (const int r : {1, 0}) ranks[r].reduce({.send = in, .recv = out});
       }}};
  const auto kind = argc == 3 ? kinds.find(argv[1]) : kinds.end();
  if (kind == kinds.end()) {
    std::fprintf(stderr, "call_cost broadcast|exchange|general|prepared|reduce TURNS\n");
    return 2;
  }
  if (kind->first == "exchange") ranks[1].send({.send = in, .peer = 0});
  for (long turn = std::atol(argv[2]); turn > 0; --turn) kind->second();
  return kind->first == "reduce" && out[0] != 2.0F ? 1 : 0;
}
