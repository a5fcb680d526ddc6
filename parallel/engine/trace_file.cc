#include "parallel/engine/trace_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "parallel/checkpoint/pending_file.h"
#include "parallel/engine/agreement.h"
#include "parallel/engine/clocks.h"

namespace tutti::parallel {

namespace {

/// By Trace::Lane.
constexpr std::array kLanes{"compute", "checkpoint", "weights and gradients", "stages",
                            "positions"};

std::string laneName(int rank, int lane, const char* name) {
  return message(R"({"name":"thread_name","ph":"M","pid":)", rank, R"(,"tid":)", lane,
                 R"(,"args":{"name":")", name, R"("}})");
}

double microseconds(Trace::Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
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
      message(R"({"name":"process_name","ph":"M","pid":)", rank, R"(,"args":{"name":"rank )", rank,
              R"( of )", mesh_.shape().describe(), R"("}})");
  for (size_t lane = 0; lane < kLanes.size(); ++lane)
    text += ",\n" + laneName(rank, static_cast<int>(lane), kLanes[lane]);
  Trace::Clock::time_point last = start_;
  for (const auto& events : {trace.events(), trace.streamEvents()})
    for (const Trace::Event& event : events) {
      text += ",\n" + eventText(event);
      last = std::max(last, event.end);
    }
  if (trace.dropped() > 0)
    text += message(",\n", R"({"name":"and )", trace.dropped(), R"( more","ph":"i","s":"p","pid":)",
                    rank, R"(,"tid":0,"ts":)", microseconds(last - start_), "}");
  return text;
}

std::string TraceFile::eventText(const Trace::Event& event) const {
  std::string args;
  if (event.waitsFor) args = message(R"("waits_for":")", toString(*event.waitsFor), R"(")");
  if (event.microBatch >= 0)
    args = message(R"("chunk":)", event.chunk, R"(,"micro_batch":)", event.microBatch);
  char line[256];
  std::snprintf(line, sizeof(line),
                "{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
                "\"args\":{%s}}",
                event.name, mesh_.rank(), static_cast<int>(event.lane),
                microseconds(event.begin - start_), microseconds(event.end - event.begin),
                args.c_str());
  return line;
}

void TraceFile::write() const {
  MeshCommunicator* all = mesh_.communicator(AxisSet::all());
  const std::vector<std::string> texts = exchangeTexts(all, ownEvents());
  together(all, [&] {
    if (mesh_.rank() != 0) return;
    std::string whole = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (size_t rank = 0; rank < texts.size(); ++rank) whole += (rank ? ",\n" : "") + texts[rank];
    naming("--trace", [&] { replaceText(path_, whole + "\n]}\n"); });
  });
}

}  // namespace tutti::parallel
