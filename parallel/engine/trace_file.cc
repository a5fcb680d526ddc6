#include "parallel/engine/trace_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/pending_file.h"
#include "parallel/engine/agreement.h"
#include "parallel/engine/clocks.h"

namespace tutti::parallel {

namespace {

/// By Trace::Lane.
constexpr std::array kLanes{"compute", "checkpoint", "weights and gradients", "stages",
                            "positions"};

/// Thousandths of a microsecond stay.
double microseconds(Trace::Clock::duration time) {
  return std::round(std::chrono::duration<double, std::nano>(time).count()) / 1000;
}

/// Names a process or a thread.
OrderedJson metadataEvent(const char* what, int rank, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", name}}}};
}

OrderedJson argumentsOf(const Trace::Event& event) {
  if (event.microBatch >= 0) return {{"chunk", event.chunk}, {"micro_batch", event.microBatch}};
  if (event.waitsFor) return {{"waits_for", toString(*event.waitsFor)}};
  return OrderedJson::object();
}

}  // namespace

TraceFile::TraceFile(DeviceMesh& mesh, std::string path) : mesh_(mesh), path_(std::move(path)) {
  MeshCommunicator* all = mesh.communicator(AxisSet::all());
  together(all, [&] {
    if (mesh_.rank() == 0) naming("--trace", [&] { requireReplaceable(path_); });
  });
  const ClockReadings own = readClock(all);
  const ClockReadings first = ClockReadings::parse(exchangeTexts(all, own.text())[0]);
  start_ = Trace::Clock::time_point(
      std::chrono::nanoseconds(first.left.back() + nanosecondsAhead(own, first)));
  mesh.trace().start();
}

/// Of this rank, without a comma at the end.
std::string TraceFile::ownEvents() const {
  const int rank = mesh_.rank();
  const Trace& trace = mesh_.trace();
  std::string text =
      metadataEvent("process_name", rank, message("rank ", rank, " of ", mesh_.shape().describe()))
          .dump();
  const auto add = [&](const OrderedJson& event) { text += ",\n" + event.dump(); };
  for (size_t lane = 0; lane < kLanes.size(); ++lane) {
    OrderedJson name = metadataEvent("thread_name", rank, kLanes[lane]);
    name["tid"] = lane;
    add(name);
  }
  Trace::Clock::time_point last = start_;
  for (const auto& events : {trace.events(), trace.streamEvents()})
    for (const Trace::Event& event : events) {
      add({{"name", event.name},
           {"ph", "X"},
           {"pid", rank},
           {"tid", static_cast<int>(event.lane)},
           {"ts", microseconds(event.begin - start_)},
           {"dur", microseconds(event.end - event.begin)},
           {"args", argumentsOf(event)}});
      last = std::max(last, event.end);
    }
  if (trace.dropped() > 0)
    add({{"name", message("and ", trace.dropped(), " more")},
         {"ph", "i"},
         {"s", "p"},
         {"pid", rank},
         {"tid", 0},
         {"ts", microseconds(last - start_)}});
  return text;
}

void TraceFile::write() const {
  MeshCommunicator* all = mesh_.communicator(AxisSet::all());
  const std::vector<std::string> texts = exchangeTexts(all, ownEvents());
  together(all, [&] {
    if (mesh_.rank() != 0) return;
    // As text: the events of all ranks as values would take several times the memory.
    std::string whole = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (size_t rank = 0; rank < texts.size(); ++rank) whole += (rank ? ",\n" : "") + texts[rank];
    naming("--trace", [&] { replaceText(path_, whole + "\n]}\n"); });
  });
}

}  // namespace tutti::parallel
