#include "src/tools/perf/perf_plot.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/file_descriptor.h"
#include "src/launch/child_end.h"
#include "src/tools/common/output_file.h"

namespace tutti::tools {
namespace {

constexpr const char* kTerminal =
    R"(set terminal svg size 900,620 dynamic noenhanced font "sans-serif,13" background "white"
)";
constexpr const char* kAxes =
    R"(set logscale x 2
set format x "%.0b%B"
set grid linecolor rgb "#dddddd"
set key top left
set lmargin 11
set style data linespoints
)";
constexpr const char* kFirst = "linecolor rgb \"#1b6ca8\" pointtype 7 pointsize 0.5";
constexpr const char* kSecond = "linecolor rgb \"#d1495b\" pointtype 5 pointsize 0.5";

/// A block of gnuplot's data: bytes, median and 99th percentile in microseconds, GB/s.
void writeData(std::ostream& out, const char* name, const std::vector<PerfRow>& rows,
               bool inPlace) {
  out << name << " << EOD\n";
  for (const PerfRow& row : rows)
    if (const PerfTiming& t = inPlace ? *row.inPlace : row.outOfPlace; row.bytes > 0)
      out << row.bytes << ' ' << t.timeUs << ' ' << t.p99Us << ' ' << t.busGBps << '\n';
  out << "EOD\n";
}

std::set<uint64_t> sizesOf(const std::vector<PerfRow>& rows) {
  std::set<uint64_t> sizes;
  for (const PerfRow& row : rows)
    if (row.bytes > 0) sizes.insert(row.bytes);
  return sizes;
}

/// Of a single size, for which gnuplot would say that the range is empty; "" for several.
std::string xRange(const std::set<uint64_t>& sizes) {
  if (sizes.size() != 1) return "";
  return base::message("set xrange [", *sizes.begin(), "/2.:", *sizes.begin(), "*2.]\n");
}

bool onPath(const char* program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

void requirePlottable(const std::string& file) {
  if (!onPath("gnuplot"))
    base::fail(ErrorCode::Unsupported, "--plot needs gnuplot (Debian's package gnuplot-nox)");
  requireWritable("--plot", file);
}

std::string plotScript(const PerfOptions& options, int ranks, const std::vector<PerfRow>& rows) {
  std::ostringstream out;
  const bool both = options.inPlace();
  out << "TITLE = \"" << options.collectiveName << " of " << toString(options.type) << ", " << ranks
      << (ranks == 1 ? " rank" : " ranks") << "\"\n";
  writeData(out, "$OUT", rows, false);
  if (both) writeData(out, "$IN", rows, true);
  out << kTerminal << "set multiplot layout 2,1 title TITLE\n"
      << kAxes << xRange(sizesOf(rows)) << "set logscale y\nset ylabel \"time, us\"\n"
      << "plot $OUT using 1:2 title \"median\" " << kFirst
      << ", $OUT using 1:3 title \"99th percentile\" dashtype 2 " << kFirst;
  if (both) out << ", $IN using 1:2 title \"median, in place\" " << kSecond;
  out << "\nunset logscale y\nset ylabel \"bus bandwidth, GB/s\"\nset xlabel \"size, bytes\"\n"
      << "set yrange [0:*]\nplot $OUT using 1:4 title \"out of place\" " << kFirst;
  if (both) out << ", $IN using 1:4 title \"in place\" " << kSecond;
  out << "\nunset multiplot\n";
  return out.str();
}

// Names of files are not in it: to gnuplot a text may be a command.
std::string comparisonScript(const PerfComparison& comparison) {
  std::map<std::string, std::vector<const ComparedRow*>> curves;
  std::set<uint64_t> sizes;
  bool spread = true;
  int count = 0;
  for (const ComparedRow& row : comparison.rows) {
    if (row.call.bytes == 0) continue;
    curves[row.call.series()].push_back(&row);
    sizes.insert(row.call.bytes);
    spread = spread && row.spread;
  }
  TUTTI_REQUIRE(!sizes.empty(), "--plot draws nothing of 0 bytes");
  std::ostringstream data, plot;
  for (const auto& [name, rows] : curves) {
    const std::string block = base::message("$CURVE", ++count);
    data << block << " << EOD\n";
    for (const ComparedRow* row : rows) {
      data << row->call.bytes << ' ' << row->ratio;
      if (spread) data << ' ' << row->spread->least << ' ' << row->spread->most;
      data << '\n';
    }
    data << "EOD\n";
    plot << ", " << block << " using " << (spread ? "1:2:3:4 with yerrorlines" : "1:2")
         << " title \"" << name << "\" pointtype 7 pointsize 0.5";
  }
  return data.str() + kTerminal + kAxes + xRange(sizes) +
         "set title \"B's time over A's; below 1 B is faster\"\nset xlabel \"size, bytes\"\n"
         "set ylabel \"ratio of times\"\nplot 1 linecolor rgb \"#888888\" with lines notitle" +
         plot.str() + "\n";
}

namespace {

constexpr std::chrono::seconds kKilledEndsIn(5);

std::string contents(const base::FileDescriptor& file) {
  std::string text(static_cast<size_t>(TUTTI_SYSCALL(::lseek(file.get(), 0, SEEK_END))), '\0');
  TUTTI_SYSCALL(::lseek(file.get(), 0, SEEK_SET));
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = TUTTI_SYSCALL(::read(file.get(), &text[done], text.size() - done));
    if (count == 0) text.resize(done);
    done += static_cast<size_t>(count);
  }
  return text;
}

/// What gnuplot makes of the script on its standard input. It has ended, or was killed.
int endOf(pid_t gnuplot, base::Deadline deadline) {
  const bool inTime = launcher::endsBy(gnuplot, deadline);
  if (!inTime) TUTTI_SYSCALL(::kill(gnuplot, SIGKILL));
  if (!inTime && !launcher::endsBy(gnuplot, base::Deadline::after(kKilledEndsIn))) return SIGKILL;
  int status = 0;
  TUTTI_SYSCALL(::waitpid(gnuplot, &status, WNOHANG));
  return status;
}

}  // namespace

void writePlot(const std::string& file, const std::string& script,
               std::chrono::milliseconds longest) {
  const auto deadline = base::Deadline::after(longest);
  const base::FileDescriptor drawn(TUTTI_SYSCALL(::memfd_create("tutti-plot", MFD_CLOEXEC)));
  int input[2];  // sockets, so that gnuplot's end is an error here and no signal
  TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input));
  base::FileDescriptor readEnd(input[0]), writeEnd(input[1]);
  const timeval send = {.tv_sec = longest.count() / 1000, .tv_usec = longest.count() % 1000 * 1000};
  TUTTI_SYSCALL(::setsockopt(writeEnd.get(), SOL_SOCKET, SO_SNDTIMEO, &send, sizeof send));
  const pid_t child = TUTTI_SYSCALL(::fork());
  if (child == 0) {
    if (::dup2(readEnd.get(), 0) == 0 && ::dup2(drawn.get(), 1) == 1)
      ::execlp("gnuplot", "gnuplot", "-", nullptr);
    ::_exit(127);
  }
  readEnd.reset();
  for (size_t sent = 0; sent < script.size();) {
    const ssize_t n =
        ::send(writeEnd.get(), script.data() + sent, script.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;  // it has ended; its exit code says why
    sent += static_cast<size_t>(n);
  }
  writeEnd.reset();
  const int status = endOf(child, deadline);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    base::fail(ErrorCode::Internal, "gnuplot failed with status ", status,
               deadline.passed() ? ", as it drew for too long" : "");
  writeFile("--plot", file, contents(drawn));
}

}  // namespace tutti::tools
