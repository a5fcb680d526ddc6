// The trace of a training: a lane for each rank, spans that lie inside each other or apart, as many
// as its schedule has actions, one rank's after what it waited for on another; and what it says of
// waiting is what the steps report.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "parallel/engine/trace_file.h"
#include "tests/parallel/parity/overflow.h"
#include "tests/parallel/temporary_folder.h"

namespace tutti::parallel {
namespace {

using Json = nlohmann::json;

constexpr int kSteps = 3;
constexpr double kRounding = 0.002;  // microseconds: times have three digits

/// Spans of one name on one rank, by chunk and micro-batch, in their order.
struct Span {
  double begin, end;
  std::string name;
  int microBatch;
  bool waits;
};

class Traces : public testing::Test {
 protected:
  /// Three steps; the rank waits `waited_` microseconds in them.
  void train(const Arrangement& layout) {
    waited_ = onRanks(layout.mesh, false, [&](DeviceMesh& mesh) {
      SmallTraining training(mesh, kRunGpt, layout.policy, {}, layout.pipeline);
      const TraceFile trace(mesh);
      double waited = 0;
      for (int i = 0; i < kSteps; ++i) waited += training.step().waitedSeconds * 1e6;
      training.engine.saveInBackground(folder_.path() / "run", kSteps, *training.adam);
      training.engine.awaitSave();
      trace.write(path_);
      return waited;
    });
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
           event.at("name"), args.value("micro_batch", -1), args.value("waits", false)});
    }
  }
  std::vector<Span> named(int rank, const std::string& name) const {
    std::vector<Span> found;
    for (const Span& span : lanes_.at({rank, 0}))
      if (span.name == name) found.push_back(span);
    return found;
  }

  tests::TemporaryFolder folder_;
  const std::string path_ = folder_.path() / "trace.json";
  std::vector<double> waited_;  // by rank
  std::map<int, std::set<std::string>> names_;
  std::map<std::pair<int, int>, std::vector<Span>> lanes_;  // by rank and thread
};

TEST_F(Traces, HaveALaneForEachRankWithTheWordsOfTheLibrary) {
  train(piped(arrangement("dp=2,tp=2,pp=2"), {}));
  ASSERT_EQ(names_.size(), 8u);
  const std::set<std::string> words{"step",       "forward",          "backward",    "optimizer",
                                    "send",       "receive",          "all_reduce",  "checkpoint",
                                    "all_gather", "send and receive", "all_gather_v"};
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_TRUE(std::any_of(names_[rank].begin(), names_[rank].end(), [&](const auto& name) {
      return name.starts_with(message("rank ", rank, " of "));
    }));
    EXPECT_TRUE(names_[rank].contains("compute"));
    for (const Span& span : lanes_.at({rank, 0}))
      EXPECT_TRUE(words.contains(span.name)) << span.name;
    EXPECT_EQ(named(rank, "step").size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(named(rank, "optimizer").size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(named(rank, "checkpoint").size(), 1u);
    EXPECT_FALSE(named(rank, "all_reduce").empty());
    EXPECT_EQ(lanes_.at({rank, 1}).size(), 1u) << "the thread that saves";
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
    double waits = 0, busy = 0, steps = 0;
    const std::vector<Span> all = named(rank, "step");
    const auto inStep = [&](const Span& span) {
      return std::any_of(all.begin(), all.end(), [&](const Span& step) {
        return span.begin >= step.begin - kRounding && span.end <= step.end + kRounding;
      });
    };
    for (const Span& span : lanes_.at({rank, 0})) {
      const double time = span.end - span.begin;
      if (span.waits && inStep(span)) waits += time;
      if (span.name == "forward" || span.name == "backward") busy += time;
      if (span.name == "step") steps += time;
    }
    EXPECT_GT(waits, 0) << "one stage waits for the other";
    EXPECT_LT(waits, steps);
    EXPECT_GT(busy, 0);
    EXPECT_NEAR(waits, waited_[static_cast<size_t>(rank)],
                kRounding * static_cast<double>(lanes_.at({rank, 0}).size()))
        << "rank " << rank;
  }
}

TEST_F(Traces, AreSaidOnAllRanksWhenTheyCannotBeWritten) {
  onRanks(MeshShape::parse("dp=2"), false, [&](DeviceMesh& mesh) {
    const TraceFile trace(mesh);
    try {
      trace.write("/no/such/folder/trace.json");
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
    EXPECT_GT(training.step().waitedSeconds, 0);
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
    const Trace::Wait outer(trace, "outer");
    const Trace::Wait inner(trace, "inner");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_EQ(trace.events().size(), 1u);
  EXPECT_STREQ(trace.events()[0].name, "outer");
  EXPECT_EQ(trace.waited(),
            std::chrono::duration<double>(trace.events()[0].end - trace.events()[0].begin).count());
}

}  // namespace
}  // namespace tutti::parallel
