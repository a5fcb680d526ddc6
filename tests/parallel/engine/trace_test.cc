// The trace of a training: a lane for each thread and stream of a rank, spans that lie inside each
// other or apart, as many as its schedule has actions and its store collectives, one rank's after
// what it waited for on another, by one clock; and what it says of waiting is what the steps
// report.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "parallel/engine/trace_file.h"
#include "tests/parallel/parity/overflow.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

using Json = nlohmann::json;

constexpr int kSteps = 3;
constexpr double kRounding = 0.002;  // microseconds: times have three digits
// Lanes of a rank.
constexpr int kCompute = 0, kCheckpoint = 1, kStore = 2, kStages = 3, kPositions = 4;

/// Spans of one name on one rank, by chunk and micro-batch, in their order.
struct Span {
  double begin, end;
  std::string name;
  int microBatch;
  std::string waitsFor;
};

/// What a rank reports of its steps.
struct Reported {
  Waited waited;
  StoreCounters counters;  // of the last
};

/// The first column of its table of what a rank does in a step.
std::set<std::string> wordsOfTheArchitecture() {
  std::istringstream lines(tests::contentsOf(TUTTI_ARCHITECTURE));
  std::set<std::string> words;
  const std::regex word("`([a-z_ ]+)`");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::string cell = line.substr(2, line.find(" | ") - 2);
    for (std::sregex_iterator at(cell.begin(), cell.end(), word), end; at != end; ++at)
      words.insert((*at)[1]);
  }
  return words;
}

class Traces : public testing::Test {
 protected:
  /// Three steps.
  void train(const Arrangement& layout) {
    reported_ = onRanks(layout.mesh, false, [&](DeviceMesh& mesh) {
      SmallTraining training(mesh, kRunGpt, layout.policy, {}, layout.pipeline);
      const TraceFile trace(mesh, path_);
      Reported all;
      for (int i = 0; i < kSteps; ++i) {
        const StepReport step = training.step();
        all.waited += step.waited;
        all.counters = step.counters;
      }
      training.engine.saveInBackground(folder_.path() / "run", kSteps, *training.adam);
      training.engine.awaitSave();
      trace.write();
      return all;
    });
    read();
  }
  void read() {
    const Json whole = Json::parse(tests::contentsOf(path_));
    for (const Json& event : whole.at("traceEvents")) {
      const int rank = event.at("pid");
      if (event.at("ph") == "M") {
        names_[rank].insert(event.at("args").at("name"));
        continue;
      }
      ASSERT_EQ(event.at("ph"), "X");
      const Json& args = event.at("args");
      lanes_[{rank, event.at("tid")}].push_back(
          {event.at("ts"), event.at("ts").get<double>() + event.at("dur").get<double>(),
           event.at("name"), args.value("micro_batch", -1), args.value("waits_for", "")});
    }
  }
  std::vector<Span> named(int rank, const std::string& name, int lane = kCompute) const {
    std::vector<Span> found;
    if (const auto spans = lanes_.find({rank, lane}); spans != lanes_.end())
      for (const Span& span : spans->second)
        if (span.name == name) found.push_back(span);
    return found;
  }

  tests::TemporaryFolder folder_;
  const std::string path_ = folder_.path() / "trace.json";
  std::vector<Reported> reported_;  // by rank
  std::map<int, std::set<std::string>> names_;
  std::map<std::pair<int, int>, std::vector<Span>> lanes_;  // by rank and thread
};

TEST_F(Traces, HaveALaneForEachRankWithTheWordsOfTheLibrary) {
  train(piped(arrangement("dp=2,tp=2,pp=2"), {}));
  ASSERT_EQ(names_.size(), 8u);
  const std::set<std::string> words = wordsOfTheArchitecture();
  for (const auto& [lane, spans] : lanes_)
    for (const Span& span : spans) EXPECT_TRUE(words.contains(span.name)) << span.name;
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_TRUE(std::any_of(names_[rank].begin(), names_[rank].end(), [&](const auto& name) {
      return name.starts_with(message("rank ", rank, " of "));
    }));
    for (const char* lane : {"compute", "checkpoint", "weights and gradients", "stages"})
      EXPECT_TRUE(names_[rank].contains(lane)) << lane;
    EXPECT_EQ(named(rank, "step").size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(named(rank, "optimizer").size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(named(rank, "checkpoint").size(), 1u);
    EXPECT_FALSE(named(rank, "all_reduce").empty());
    EXPECT_EQ(lanes_.at({rank, kCheckpoint}).size(), 1u) << "the thread that saves";
  }
}

TEST_F(Traces, HaveSpansThatLieInsideEachOtherOrApart) {
  train(piped(arrangement("fsdp=2,pp=2", zero(3)), {}));
  for (auto& [lane, spans] : lanes_) {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
    });
    std::vector<Span> open;
    for (const Span& span : spans) {
      EXPECT_GE(span.begin, 0) << span.name;
      while (!open.empty() && open.back().end <= span.begin + kRounding) open.pop_back();
      const double outer = open.empty() ? HUGE_VAL : open.back().end;
      EXPECT_LE(span.end, outer + kRounding) << span.name;
      open.push_back(span);
    }
  }
}

// With one chunk each, a micro-batch goes forward through the stages and back: what a rank does
// with it follows what it has waited for. The clocks of threads are one.
TEST_F(Traces, ShowAPipelineAndItsIdleTime) {
  train(piped(arrangement("pp=2"), {}));
  for (const std::string name : {"forward", "backward"}) {
    const std::vector<Span> first = named(0, name), second = named(1, name);
    ASSERT_EQ(first.size(), static_cast<size_t>(4 * kSteps));
    ASSERT_EQ(second.size(), first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].microBatch, static_cast<int>(i % 4));
      EXPECT_EQ(second[i].microBatch, static_cast<int>(i % 4));
      // The receiving one begins its span before it waits, and ends it behind the sender's.
      const bool forward = name == "forward";
      EXPECT_GT(forward ? second[i].end : first[i].end, forward ? first[i].end : second[i].end);
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    double busy = 0, steps = 0;
    Waited waits;
    const std::vector<Span> all = named(rank, "step");
    const auto inStep = [&](const Span& span) {
      return std::any_of(all.begin(), all.end(), [&](const Span& step) {
        return span.begin >= step.begin - kRounding && span.end <= step.end + kRounding;
      });
    };
    for (const Span& span : lanes_.at({rank, 0})) {
      const double time = span.end - span.begin;
      for (const Awaited awaited : kAwaited)
        if (span.waitsFor == toString(awaited) && inStep(span)) waits[awaited] += time;
      if (span.name == "forward" || span.name == "backward") busy += time;
      if (span.name == "step") steps += time;
    }
    EXPECT_GT(waits[Awaited::Pipeline], 0) << "one stage waits for the other";
    for (const Awaited none : {Awaited::Data, Awaited::Tensor, Awaited::Context, Awaited::Experts})
      EXPECT_EQ(waits[none], 0) << toString(none);
    EXPECT_LT(waits.total(), steps);
    EXPECT_GT(busy, 0);
    for (const Awaited awaited : kAwaited)
      EXPECT_NEAR(waits[awaited], 1e6 * reported_[static_cast<size_t>(rank)].waited[awaited],
                  kRounding * static_cast<double>(lanes_.at({rank, kCompute}).size()))
          << "rank " << rank << " for " << toString(awaited);
  }
}

// As many as were counted, in the order of the stream, and ended before whoever waits goes on.
TEST_F(Traces, ShowWhenCollectivesOnStreamsRun) {
  train(piped(arrangement("dp=2,fsdp=2,pp=2", zero(3)), {}));
  for (int rank = 0; rank < 8; ++rank) {
    const StoreCounters& counted = reported_[static_cast<size_t>(rank)].counters;
    const auto expectCalls = [&](const char* name, int calls) {
      EXPECT_EQ(named(rank, name, kStore).size(), static_cast<size_t>(kSteps * calls))
          << name << " of rank " << rank;
      EXPECT_GT(calls, 0) << name;
    };
    expectCalls("all_gather", counted.allGather.calls);
    expectCalls("reduce_scatter", counted.reduceScatter.calls);
    expectCalls("all_reduce", counted.allReduce.calls + (rank < 4 ? 0 : 1));  // the loss
    EXPECT_GE(named(rank, "send and receive", kStages).size(), size_t{kSteps}) << "rank " << rank;
    EXPECT_FALSE(lanes_.contains({rank, kPositions}));
    for (const int lane : {kStore, kStages}) {
      const std::vector<Span>& spans = lanes_.at({rank, lane});
      for (size_t i = 0; i < spans.size(); ++i) {
        EXPECT_LT(spans[i].begin, spans[i].end) << spans[i].name;
        if (i > 0) {
          EXPECT_LE(spans[i - 1].end, spans[i].begin + kRounding) << spans[i].name;
        }
      }
    }
    // Whoever waits goes on when it has ended; the update comes after all of them.
    EXPECT_LT(named(rank, "reduce_scatter", kStore).back().end,
              named(rank, "optimizer").back().end);
  }
}

TEST_F(Traces, ShowTheRing) {
  train(arrangement("cp=2"));
  EXPECT_FALSE(named(0, "send and receive", kPositions).empty());
  EXPECT_FALSE(lanes_.contains({0, kStages}));
}

// Nobody leaves a barrier before all have come.
TEST_F(Traces, OfRanksOfOneHostHaveOneClock) {
  constexpr int kRanks = 4, kBarriers = 50;
  onRanks(kRanks, false, [&](DeviceMesh& mesh) {
    const TraceFile trace(mesh, path_);
    for (int i = 0; i < kBarriers; ++i) {
      const Trace::Span span(mesh.trace(), "barrier");
      mesh.communicator(AxisSet::all())->barrier();
    }
    trace.write();
  });
  read();
  for (size_t i = 0; i < kBarriers; ++i) {
    double come = 0, left = HUGE_VAL;
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<Span> barriers = named(rank, "barrier");
      ASSERT_EQ(barriers.size(), size_t{kBarriers});
      come = std::max(come, barriers[i].begin);
      left = std::min(left, barriers[i].end);
    }
    EXPECT_LE(come, left + kRounding) << "barrier " << i;
  }
}

TEST_F(Traces, AreSaidOnAllRanksWhenTheyCannotBeWritten) {
  onRanks(MeshShape::parse("dp=2"), false, [&](DeviceMesh& mesh) {
    try {
      const TraceFile trace(mesh, "/no/such/folder/trace.json");
      ADD_FAILURE() << "it was written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::System);
      EXPECT_NE(std::string(error.what()).find("/no/such/folder/trace.json"), std::string::npos);
    }
  });
}

// Without it nothing is kept, and waits are counted all the same.
TEST_F(Traces, CostNothingWhenTheyAreOff) {
  onRanks(MeshShape::parse("dp=2"), false, [&](DeviceMesh& mesh) {
    SmallTraining training(mesh, kRunGpt, ShardPolicy::ddp());
    EXPECT_GT(training.step().waited.total(), 0);
    EXPECT_TRUE(mesh.trace().events().empty());
  });
}

TEST(Trace, CountsWhatItDoesNotKeep) {
  Trace trace;
  trace.start();
  for (size_t i = 0; i < Trace::kMostEvents + 7; ++i) trace.add({.name = "step"});
  EXPECT_EQ(trace.events().size(), Trace::kMostEvents);
  EXPECT_EQ(trace.dropped(), 7);
}

TEST(Trace, CountsAWaitInsideAnotherOnce) {
  Trace trace;
  trace.start();
  {
    const Trace::Wait outer(trace, "outer", Awaited::Data);
    const Trace::Wait inner(trace, "inner", Awaited::Tensor);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_EQ(trace.events().size(), 1u);
  EXPECT_STREQ(trace.events()[0].name, "outer");
  EXPECT_EQ(trace.waited()[Awaited::Data],
            std::chrono::duration<double>(trace.events()[0].end - trace.events()[0].begin).count());
}

}  // namespace
}  // namespace tutti::parallel
