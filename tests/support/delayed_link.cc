#include "tests/support/delayed_link.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "src/base/check.h"

namespace tutti::tests {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr size_t kLongestFrame = 65536 + 64;

/// What lies between the two devices.
class Cable {
 public:
  Cable(int near, int far, const DelayedLink& link) : near_(near), far_(far), link_(link) {}

  /// Waits for frames, or until one is due. False when a device is gone.
  bool step() {
    std::array<pollfd, 2> taps{{{near_, POLLIN, 0}, {far_, POLLIN, 0}}};
    const timespec wait = untilDue();
    if (::ppoll(taps.data(), taps.size(), &wait, nullptr) < 0 && errno != EINTR) return false;
    const bool there = (taps[1].revents == 0 || readAll(far_, [&] { write(near_, frame_); })) &&
                       (taps[0].revents == 0 || readAll(near_, [&] { send(); }));
    deliver();
    return there;
  }

 private:
  struct Sent {
    Clock::time_point due;
    std::vector<std::byte> frame;
  };

  timespec untilDue() const {
    constexpr nanoseconds kMost = std::chrono::milliseconds(999);
    const nanoseconds left = under_.empty() ? kMost : under_.front().due - Clock::now();
    return {.tv_sec = 0, .tv_nsec = std::clamp(left, nanoseconds(0), kMost).count()};
  }
  /// Each frame that is there, in frame_.
  bool readAll(int tap, const std::function<void()>& take) {
    while (true) {
      frame_.resize(kLongestFrame);
      const ssize_t count = ::read(tap, frame_.data(), frame_.size());
      if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
      frame_.resize(static_cast<size_t>(count));
      take();
    }
  }
  static void write(int tap, const std::vector<std::byte>& frame) {
    // A device that is down takes nothing, and a cable does not care.
    [[maybe_unused]] const ssize_t written = ::write(tap, frame.data(), frame.size());
  }
  void send() {
    const auto now = Clock::now();
    const auto left = [&](const Sent& each) { return each.due - link_.delay <= now; };
    const auto waiting = std::partition_point(under_.begin(), under_.end(), left);
    if (under_.end() - waiting >= link_.mostWaiting) return;
    const double seconds = static_cast<double>(frame_.size()) / link_.bytesPerSecond;
    free_ = std::max(free_, now) + nanoseconds(static_cast<int64_t>(seconds * 1e9));
    under_.push_back({free_ + link_.delay, frame_});
  }
  void deliver() {
    for (; !under_.empty() && under_.front().due <= Clock::now(); under_.pop_front())
      write(far_, under_.front().frame);
  }

  const int near_, far_;
  const DelayedLink link_;
  std::deque<Sent> under_;    // on the way, or waiting for the rate
  Clock::time_point free_{};  // when the last of them has left
  std::vector<std::byte> frame_;
};

}  // namespace

int openTap(const std::string& name) {
  const int tap = TUTTI_SYSCALL(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  TUTTI_SYSCALL(::ioctl(tap, TUNSETIFF, &request));
  return tap;
}

void carry(int near, int far, const DelayedLink& link) {
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  for (Cable cable(near, far, link); cable.step();) {
  }
}

}  // namespace tutti::tests
