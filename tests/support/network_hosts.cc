#include "tests/support/network_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::tests {
namespace {

// With a /sys of its own: UCX looks there for the interfaces that a host has.
constexpr int kNamespaces = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS;

/// Of a process that holds a host or the switch.
void enterNamespaces(pid_t holder) {
  // ThreadSanitizer's own thread shares what a mount namespace replaces.
  TUTTI_SYSCALL(::unshare(CLONE_FS));
  for (const char* kind : {"net", "uts", "mnt"}) {
    const std::string path = base::message("/proc/", holder, "/ns/", kind);
    const base::FileDescriptor space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!space) base::failSyscall("open", errno, path);
    TUTTI_SYSCALL(::setns(space.get(), 0));
  }
}

/// Exit code, and what the command printed.
std::pair<int, std::string> execute(const std::vector<std::string>& command, pid_t holder) {
  int output[2];
  TUTTI_SYSCALL(::pipe2(output, O_CLOEXEC));
  const pid_t child = TUTTI_SYSCALL(::fork());
  if (child == 0) {
    ::dup2(output[1], 1);
    ::dup2(output[1], 2);
    try {
      if (holder > 0) enterNamespaces(holder);
    } catch (const Error&) {
      ::_exit(126);
    }
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ::close(output[1]);
  const base::FileDescriptor readEnd(output[0]);
  std::string text;
  char buffer[1024];
  for (ssize_t n; (n = ::read(readEnd.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text};
}

/// For this process: a network of its own and what sysfs shows of it, and a host name.
bool makeNamespaces() {
  return ::unshare(kNamespaces) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
}

}  // namespace

std::optional<std::string> NetworkHosts::unavailable() {
  if (execute({"ip", "-V"}, 0).first != 0) return "there is no ip command (package iproute2)";
  ChildProcesses tried;
  tried.start([] {
    if (!makeNamespaces()) return 1;
    const bool links =
        execute({"ip", "link", "add", "bridge", "type", "bridge"}, 0).first == 0 &&
        execute({"ip", "link", "add", "end0", "type", "veth", "peer", "name", "end1"}, 0).first ==
            0;
    return links ? 0 : 2;
  });
  switch (tried.wait(0, std::chrono::seconds(10))) {
    case 0: return std::nullopt;
    case 1: return "this process may not make network namespaces (root may)";
    default: return "this kernel has no bridges or no veth";
  }
}

std::optional<std::string> NetworkHosts::netemUnavailable() {
  if (auto reason = unavailable()) return reason;
  try {
    NetworkHosts(1).disturb(0, {"loss", "1%"});
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

NetworkHosts::NetworkHosts(int hosts, const Link& link) : hosts_(hosts) {
  const std::string mtu = std::to_string(link.mtu);
  for (int host = 0; host < hosts; ++host) startHolder(name(host));
  startHolder("switch");
  runIn(hosts, {"ip", "link", "add", "bridge", "type", "bridge"});
  runIn(hosts, {"ip", "link", "set", "bridge", "up"});
  for (int host = 0; host < hosts; ++host) {
    runIn(hosts, {"ip", "link", "add", port(host), "mtu", mtu, "type", "veth", "peer", "name",
                  kInterface, "mtu", mtu, "netns", std::to_string(holders_.pid(host))});
    runIn(hosts, {"ip", "link", "set", port(host), "master", "bridge", "up"});
    run(host, {"ip", "link", "set", "lo", "up"});
    run(host, {"ip", "address", "add", address(host) + "/24", "dev", kInterface});
    run(host, {"ip", "link", "set", kInterface, "up"});
    if (!link.rate.empty())
      run(host, {"tc", "qdisc", "add", "dev", kInterface, "root", "tbf", "rate", link.rate, "burst",
                 "32kb", "latency", "100ms"});
  }
}

void NetworkHosts::startHolder(const std::string& name) {
  int ready[2];
  TUTTI_SYSCALL(::pipe2(ready, O_CLOEXEC));
  holders_.start([&] {
    const bool made = makeNamespaces() && ::sethostname(name.data(), name.size()) == 0;
    [[maybe_unused]] const ssize_t told = ::write(ready[1], made ? "y" : "n", 1);
    while (true) ::pause();
    return 0;
  });
  ::close(ready[1]);
  const base::FileDescriptor readEnd(ready[0]);
  char made = 'n';
  if (::read(readEnd.get(), &made, 1) != 1 || made != 'y')
    base::fail(ErrorCode::System, "the namespaces of ", name, " cannot be made");
}

void NetworkHosts::enter(int host) const { enterNamespaces(holders_.pid(host)); }

std::string NetworkHosts::address(int host) const { return base::message("10.77.0.", host + 1); }
std::string NetworkHosts::name(int host) const { return base::message("n", host); }
std::string NetworkHosts::port(int host) const { return base::message("port", host); }

void NetworkHosts::unplug(int host) const {
  runIn(hosts_, {"ip", "link", "set", port(host), "down"});
}

void NetworkHosts::disturb(int host, const std::vector<std::string>& netem) const {
  std::vector<std::string> command = {"tc",   "qdisc", "replace", "dev",   kInterface,
                                      "root", "netem", "limit",   "100000"};
  command.insert(command.end(), netem.begin(), netem.end());
  runIn(host, command);
}

int64_t NetworkHosts::lostPackets(int host) const {
  const std::string text = runIn(host, {"tc", "-s", "qdisc", "show", "dev", kInterface});
  constexpr std::string_view kBefore = "(dropped ";
  const size_t at = text.find(kBefore);
  if (at == std::string::npos) base::fail(ErrorCode::System, "tc tells of no losses: ", text);
  return std::stoll(text.substr(at + kBefore.size()));
}

void NetworkHosts::run(int host, const std::vector<std::string>& command) const {
  runIn(host, command);
}

std::string NetworkHosts::runIn(int process, const std::vector<std::string>& command) const {
  const auto [code, text] = execute(command, holders_.pid(process));
  if (code == 0) return text;
  std::string line;
  for (const std::string& word : command) line += word + " ";
  base::fail(ErrorCode::System, line, "ended with ", code, ": ", text);
}

}  // namespace tutti::tests
