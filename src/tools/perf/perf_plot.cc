#include "src/tools/perf/perf_plot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::tools {
namespace {

constexpr const char* kStyle =
    R"(set terminal svg size 900,620 dynamic noenhanced font "sans-serif,13" background "white"
set multiplot layout 2,1 title TITLE
set logscale x 2
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

/// Of a single size, for which gnuplot would say that the range is empty; "" for several.
std::string xRange(const std::vector<PerfRow>& rows) {
  std::set<uint64_t> sizes;
  for (const PerfRow& row : rows)
    if (row.bytes > 0) sizes.insert(row.bytes);
  if (sizes.size() != 1) return "";
  return base::message("set xrange [", *sizes.begin(), "/2.:", *sizes.begin(), "*2.]\n");
}

base::FileDescriptor openPlot(const std::string& file, int flags) {
  base::FileDescriptor svg(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666));
  if (!svg) base::failSyscall("open", errno, "--plot " + file);
  return svg;
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
  openPlot(file, 0);
}

std::string plotScript(const PerfOptions& options, int ranks, const std::vector<PerfRow>& rows) {
  std::ostringstream out;
  const bool both = options.inPlace();
  out << "TITLE = \"" << options.collectiveName << " of " << toString(options.type) << ", " << ranks
      << (ranks == 1 ? " rank" : " ranks") << "\"\n";
  writeData(out, "$OUT", rows, false);
  if (both) writeData(out, "$IN", rows, true);
  out << kStyle << xRange(rows) << "set logscale y\nset ylabel \"time, us\"\n"
      << "plot $OUT using 1:2 title \"median\" " << kFirst
      << ", $OUT using 1:3 title \"99th percentile\" dashtype 2 " << kFirst;
  if (both) out << ", $IN using 1:2 title \"median, in place\" " << kSecond;
  out << "\nunset logscale y\nset ylabel \"bus bandwidth, GB/s\"\nset xlabel \"size, bytes\"\n"
      << "set yrange [0:*]\nplot $OUT using 1:4 title \"out of place\" " << kFirst;
  if (both) out << ", $IN using 1:4 title \"in place\" " << kSecond;
  out << "\nunset multiplot\n";
  return out.str();
}

namespace {

/// From its beginning to its end.
void copyFile(const base::FileDescriptor& from, const base::FileDescriptor& to) {
  char block[65536];
  TUTTI_SYSCALL(::lseek(from.get(), 0, SEEK_SET));
  for (ssize_t bytes = 0; (bytes = TUTTI_SYSCALL(::read(from.get(), block, sizeof block))) > 0;)
    for (ssize_t written = 0; written < bytes;)
      written +=
          TUTTI_SYSCALL(::write(to.get(), block + written, static_cast<size_t>(bytes - written)));
}

}  // namespace

// gnuplot does not say when what it writes is not taken.
void writePlot(const std::string& file, const std::string& script) {
  const base::FileDescriptor svg = openPlot(file, O_TRUNC);
  const base::FileDescriptor drawn(TUTTI_SYSCALL(::memfd_create("tutti-plot", MFD_CLOEXEC)));
  int input[2];  // sockets, so that gnuplot's end is an error here and no signal
  TUTTI_SYSCALL(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input));
  base::FileDescriptor readEnd(input[0]), writeEnd(input[1]);
  const pid_t child = TUTTI_SYSCALL(::fork());
  if (child == 0) {
    ::dup2(readEnd.get(), 0);
    ::dup2(drawn.get(), 1);
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
  int status = 0;
  TUTTI_SYSCALL(::waitpid(child, &status, 0));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    base::fail(ErrorCode::Internal, "gnuplot failed with status ", status);
  try {
    copyFile(drawn, svg);
  } catch (const Error& error) {
    base::fail(error.code(), "--plot ", file, " did not take the picture: ", error.what());
  }
}

}  // namespace tutti::tools
