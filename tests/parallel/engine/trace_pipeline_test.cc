// What a trace file says of a pipeline whose stages sleep: how long ranks idle, and for what they
// wait, is the bubble of its schedule, within a tenth.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "parallel/engine/trace_file.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/pipeline/timeline.h"
#include "parallel/samples/sample.h"
#include "parallel/samples/sleeper.h"
#include "tests/parallel/support/on_ranks.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

using Json = nlohmann::json;

constexpr int kRanks = 4, kMicroBatches = 8;
// Sleep takes a little longer than asked for, and much longer where others compute, so each
// attempt's sleeps are twice as long as those of the one before.
constexpr int kAttempts = 5, kFirstMilliseconds = 6;
constexpr double kBound = 0.1;

/// How often a computation of that name is in the file.
std::ptrdiff_t countOf(const std::string& path, const char* name) {
  const Json events = Json::parse(tests::contentsOf(path)).at("traceEvents");
  return std::count_if(events.begin(), events.end(),
                       [&](const Json& event) { return event.at("name") == name; });
}

/// Two steps of the schedule, the second of them with a trace.
double traced(ScheduleKind kind, int milliseconds, const std::string& path) {
  const Costs costs{milliseconds, milliseconds, milliseconds};
  double bubble = 0;
  onRanks(MeshShape::along(Axis::Pipeline, kRanks), false, [&](DeviceMesh& mesh) {
    HostKernels kernels;
    Sleeper model(2 * kRanks, kRanks, costs);
    Engine engine(
        mesh, kernels, model,
        {.reductionGroups = kMicroBatches, .pipeline = {.schedule = kind, .costs = costs}});
    const std::vector<uint8_t> text = sampleText();
    Loader loader(text, 4, kMicroBatches, kSampleSeed);
    engine.gradients(loader, 0);
    const TraceFile trace(mesh, path);
    engine.gradients(loader, 1);
    trace.write();
    if (mesh.rank() == 0) bubble = timelineOf(engine.pipeline().schedule(), costs).bubble().value();
  });
  return bubble;
}

/// Of the time from the first computation to the last one, on all ranks.
struct Idle {
  double notComputing = 0, waiting = 0;
};

Idle idleOf(const std::string& path) {
  const Json events = Json::parse(tests::contentsOf(path)).at("traceEvents");
  const auto computes = [](const Json& event) {
    return event.at("name") == "forward" || event.at("name") == "backward" ||
           event.at("name") == "weights";
  };
  const auto endOf = [](const Json& event) {
    return event.at("ts").get<double>() + event.at("dur").get<double>();
  };
  double begin = HUGE_VAL, end = 0, computing = 0, waiting = 0;
  for (const Json& event : events)
    if (computes(event)) {
      // The first waits at its beginning for what it reads.
      begin = std::min(begin, event.at("ts").get<double>());
      end = std::max(end, endOf(event));
      computing += event.at("dur").get<double>();
    }
  for (const Json& event : events) {
    if (event.at("ph") != "X" || !event.at("args").contains("waits_for")) continue;
    const double from = std::max(begin, event.at("ts").get<double>());
    waiting += std::max(0.0, std::min(end, endOf(event)) - from);
    // Within the computation that needs what is waited for.
    const bool inside = std::any_of(events.begin(), events.end(), [&](const Json& outer) {
      return computes(outer) && outer.at("pid") == event.at("pid") &&
             outer.at("ts") <= event.at("ts") && endOf(outer) >= endOf(event);
    });
    if (inside) computing -= event.at("dur").get<double>();
  }
  const double all = kRanks * (end - begin);
  return {1 - computing / all, waiting / all};
}

TEST(TracedPipeline, IdlesAsItsScheduleSays) {
  const tests::TemporaryFolder folder;
  const std::string path = folder.path() / "trace.json";
  for (const ScheduleKind kind : {ScheduleKind::GPipe, ScheduleKind::OneFOneB,
                                  ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleH1}) {
    bool within = false;
    std::string seen;
    for (int attempt = 0; attempt < kAttempts && !within; ++attempt) {
      const double bubble = traced(kind, kFirstMilliseconds << attempt, path);
      const Idle idle = idleOf(path);
      const int chunks = kind == ScheduleKind::Interleaved ? 2 : 1;
      const int splits = kind == ScheduleKind::ZeroBubbleH1 ? 1 : 0;
      ASSERT_EQ(countOf(path, "forward"), kRanks * chunks * kMicroBatches);
      ASSERT_EQ(countOf(path, "backward"), kRanks * chunks * kMicroBatches);
      ASSERT_EQ(countOf(path, "weights"), splits * kRanks * kMicroBatches);
      within = std::abs(idle.notComputing / bubble - 1) < kBound &&
               std::abs(idle.waiting / bubble - 1) < kBound;
      seen += message(toString(kind), ": ", idle.notComputing, " idle, ", idle.waiting,
                      " waiting, predicted ", bubble, "\n");
    }
    EXPECT_TRUE(within) << seen;
    std::cout << seen;
  }
}

}  // namespace
}  // namespace tutti::parallel
