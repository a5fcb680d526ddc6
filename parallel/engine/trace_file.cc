#include "parallel/engine/trace_file.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

#include "parallel/engine/agreement.h"

namespace tutti::parallel {

namespace {

constexpr int kBarriers = 9;

/// What all processes that share a clock read the same of; empty when it cannot be read.
std::string bootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

int64_t nanoseconds(Trace::Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

/// Its boot, then when it left each barrier.
struct ClockReadings {
  std::string boot;
  std::vector<int64_t> left;
};

ClockReadings parseReadings(const std::string& text) {
  ClockReadings readings;
  size_t at = text.find(' ');
  readings.boot = text.substr(0, at);
  while (at != std::string::npos && at + 1 < text.size()) {
    readings.left.push_back(std::stoll(text.substr(at + 1)));
    at = text.find(' ', at + 1);
  }
  return readings;
}

std::string laneName(int rank, int lane, const char* name) {
  return message(R"({"name":"thread_name","ph":"M","pid":)", rank, R"(,"tid":)", lane,
                 R"(,"args":{"name":")", name, R"("}})");
}

}  // namespace

TraceFile::TraceFile(DeviceMesh& mesh) : mesh_(mesh) {
  std::string mine = bootId();
  std::vector<int64_t> own;
  MeshCommunicator* all = mesh.communicator(AxisSet::all());
  for (int i = 0; i < kBarriers; ++i) {
    if (all != nullptr) all->barrier();
    own.push_back(nanoseconds(Trace::Clock::now()));
    mine += message(" ", own.back());
  }
  const ClockReadings first = parseReadings(exchangeTexts(all, mine)[0]);
  int64_t ahead = 0;  // of this rank's clock before rank 0's
  if (first.boot != bootId() || first.boot.empty()) {
    std::vector<int64_t> differences;
    for (size_t i = 0; i < own.size(); ++i) differences.push_back(own[i] - first.left[i]);
    std::nth_element(differences.begin(), differences.begin() + kBarriers / 2, differences.end());
    ahead = differences[kBarriers / 2];
  }
  start_ = Trace::Clock::time_point(std::chrono::nanoseconds(first.left.back() + ahead));
  mesh.trace().start();
}

/// Of this rank, with a comma behind each.
std::string TraceFile::ownEvents() const {
  const int rank = mesh_.rank();
  const Trace& trace = mesh_.trace();
  std::string text =
      message(R"({"name":"process_name","ph":"M","pid":)", rank, R"(,"args":{"name":"rank )", rank,
              R"( of )", mesh_.shape().describe(), R"("}},)", "\n", laneName(rank, 0, "compute"),
              ",\n", laneName(rank, 1, "checkpoint"));
  const auto microseconds = [&](Trace::Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  char line[256];
  for (const Trace::Event& event : trace.events()) {
    std::string args = event.waits ? R"("waits":true)" : "";
    if (event.microBatch >= 0)
      args = message(R"("chunk":)", event.chunk, R"(,"micro_batch":)", event.microBatch);
    std::snprintf(line, sizeof(line),
                  ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
                  "\"args\":{%s}}",
                  event.name, rank, static_cast<int>(event.lane),
                  microseconds(event.begin - start_), microseconds(event.end - event.begin),
                  args.c_str());
    text += line;
  }
  if (trace.dropped() > 0)
    text +=
        message(",\n", R"({"name":"and )", trace.dropped(), R"( more","ph":"i","s":"p","pid":)",
                rank, R"(,"tid":0,"ts":)", microseconds(trace.events().back().end - start_), "}");
  return text;
}

void TraceFile::write(const std::string& path) const {
  MeshCommunicator* all = mesh_.communicator(AxisSet::all());
  const std::vector<std::string> texts = exchangeTexts(all, ownEvents());
  together(all, [&] {
    if (mesh_.rank() != 0) return;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (size_t rank = 0; rank < texts.size(); ++rank) file << (rank ? ",\n" : "") << texts[rank];
    file << "\n]}\n";
    if (!file.flush()) fail(ErrorCode::System, "--trace ", path, " cannot be written");
  });
}

}  // namespace tutti::parallel
