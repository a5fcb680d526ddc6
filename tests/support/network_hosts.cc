#include "tests/support/network_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdlib>

#include <filesystem>
#include <string_view>

#include "src/base/check.h"
#include "src/base/file_descriptor.h"

namespace tutti::tests {
namespace {

// With a /sys of its own: UCX looks there for the interfaces that a host has.
constexpr int kNamespaces = CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS;

base::FileDescriptor open(const std::string& path, int flags) {
  base::FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC));
  if (!file) base::failSyscall("open", errno, path);
  return file;
}

/// To have the powers there that whoever made it has: a step for those only who are not in it.
void enterUserNamespace(pid_t holder) {
  const std::string there = base::message("/proc/", holder, "/ns/user");
  if (std::filesystem::equivalent(there, "/proc/self/ns/user")) return;
  TUTTI_SYSCALL(::setns(open(there, O_RDONLY).get(), CLONE_NEWUSER));
}

/// Makes it "/" again: a process that comes to a namespace of mounts has that one's, which is not
/// the chroot's where there is one.
void makeRoot(const base::FileDescriptor& folder) {
  TUTTI_SYSCALL(::fchdir(folder.get()));
  TUTTI_SYSCALL(::chroot("."));
}

/// Of a process that holds a host or the switch.
void enterNamespaces(pid_t holder) {
  const std::string process = base::message("/proc/", holder);
  enterUserNamespace(holder);
  const base::FileDescriptor root = open(process + "/root", O_PATH | O_DIRECTORY);
  // ThreadSanitizer's own thread shares what a mount namespace replaces.
  TUTTI_SYSCALL(::unshare(CLONE_FS));
  for (const char* kind : {"net", "uts", "mnt"})
    TUTTI_SYSCALL(::setns(open(process + "/ns/" + kind, O_RDONLY).get(), 0));
  makeRoot(root);
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

void writeTo(const char* path, const std::string& text) {
  const base::FileDescriptor file = open(path, O_WRONLY);
  TUTTI_SYSCALL(::write(file.get(), text.data(), text.size()));
}

/// An ordinary user may have a namespace of users too, and is root in it.
void unshareAll() {
  const std::string user = base::message("0 ", ::geteuid(), " 1");
  const std::string group = base::message("0 ", ::getegid(), " 1");
  if (::unshare(kNamespaces) == 0) return;
  if (errno != EPERM) base::failSyscall("unshare", errno);
  TUTTI_SYSCALL(::unshare(CLONE_NEWUSER | kNamespaces));
  writeTo("/proc/self/setgroups", "deny");
  writeTo("/proc/self/uid_map", user);
  writeTo("/proc/self/gid_map", group);
}

/// Nothing that is mounted from now on is seen outside. In a chroot "/" need be no mount point:
/// what it lies in is reached from outside of it.
void keepMountsPrivate() {
  const base::FileDescriptor root = open("/", O_PATH | O_DIRECTORY);
  TUTTI_SYSCALL(::setns(open("/proc/self/ns/mnt", O_RDONLY).get(), CLONE_NEWNS));
  TUTTI_SYSCALL(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  makeRoot(root);
}

/// For this process: a network of its own and what sysfs shows of it, and a host name.
void makeNamespaces() {
  unshareAll();
  keepMountsPrivate();
  TUTTI_SYSCALL(::mount("sysfs", "/sys", "sysfs", 0, nullptr));
}

}  // namespace

std::string networkTransportName() {
  const char* const value = std::getenv("TUTTI_TRANSPORT");
  const std::string name = value ? value : "";
  return name.ends_with("ucx") ? "ucx" : "tcp";
}

std::optional<std::string> NetworkHosts::unavailable() {
  if (execute({"ip", "-V"}, 0).first != 0) return "there is no ip command (package iproute2)";
  ChildProcesses tried;
  tried.start([] {
    try {
      makeNamespaces();
    } catch (const Error&) {
      return 1;
    }
    const bool links =
        execute({"ip", "link", "add", "bridge", "type", "bridge"}, 0).first == 0 &&
        execute({"ip", "link", "add", "end0", "type", "veth", "peer", "name", "end1"}, 0).first ==
            0;
    return links ? 0 : 2;
  });
  switch (tried.wait(0, std::chrono::seconds(10))) {
    case 0: return std::nullopt;
    case 1: return "this process may make network namespaces neither by itself nor in one of users";
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
  for (int host = 0; host < hosts; ++host) startHolder(name(host));
  startHolder("switch");
  runIn(hosts, {"ip", "link", "add", "bridge", "type", "bridge"});
  runIn(hosts, {"ip", "link", "set", "bridge", "up"});
  for (int host = 0; host < hosts; ++host) {
    plugIn(host, link);
    runIn(hosts, {"ip", "link", "set", port(host), "master", "bridge", "up"});
    run(host, {"ip", "link", "set", "lo", "up"});
    run(host, {"ip", "address", "add", address(host) + "/24", "dev", kInterface});
    run(host, {"ip", "link", "set", kInterface, "up"});
    if (!link.rate.empty()) limit(host, link);
  }
}

void NetworkHosts::plugIn(int host, const Link& link) {
  const std::string mtu = std::to_string(link.mtu);
  if (!link.delayed) {
    runIn(hosts_, {"ip", "link", "add", port(host), "mtu", mtu, "type", "veth", "peer", "name",
                   kInterface, "mtu", mtu, "netns", std::to_string(holders_.pid(host))});
    return;
  }
  int ready[2];
  TUTTI_SYSCALL(::pipe2(ready, O_CLOEXEC));
  cables_.start([&] {
    enterNamespaces(holders_.pid(host));
    const int near = openTap(kInterface);
    enterNamespaces(holders_.pid(hosts_));
    const int far = openTap(port(host));
    if (::write(ready[1], "", 1) == 1) carry(near, far, *link.delayed);
    return 1;
  });
  ::close(ready[1]);
  const base::FileDescriptor readEnd(ready[0]);
  char made = 0;
  if (::read(readEnd.get(), &made, 1) != 1)
    base::fail(ErrorCode::System, "this kernel has no tap devices for a long cable of ",
               name(host));
  runIn(hosts_, {"ip", "link", "set", port(host), "mtu", mtu});
  run(host, {"ip", "link", "set", kInterface, "mtu", mtu});
}

void NetworkHosts::limit(int host, const Link& link) const {
  // TCP hands over packets of many frames, which a real link's hardware cuts. The token bucket lets
  // no packet pass that is larger than its burst, and cuts larger ones by the CPU into frames,
  // which then pass the switch one by one: two cores do little else at 4 x 1 Gbit/s.
  const int frames = kBurst / (link.mtu + 14);
  if (frames > 1)
    run(host, {"ip", "link", "set", kInterface, "gso_max_size", std::to_string(frames * link.mtu)});
  run(host, {"tc", "qdisc", "add", "dev", kInterface, "root", "tbf", "rate", link.rate, "burst",
             std::to_string(kBurst), "latency", "100ms"});
}

void NetworkHosts::startHolder(const std::string& name) {
  int ready[2];
  TUTTI_SYSCALL(::pipe2(ready, O_CLOEXEC));
  holders_.start([&] {
    std::string problem;
    try {
      // All in the first one's, so that each may plug cables into the others.
      if (holders_.count() > 0) enterUserNamespace(holders_.pid(0));
      makeNamespaces();
      TUTTI_SYSCALL(::sethostname(name.data(), name.size()));
    } catch (const std::exception& error) {
      problem = error.what();
    }
    [[maybe_unused]] const ssize_t told = ::write(ready[1], problem.c_str(), problem.size() + 1);
    while (true) ::pause();
    return 0;
  });
  ::close(ready[1]);
  const base::FileDescriptor readEnd(ready[0]);
  char problem[1024] = "its process has ended";
  const ssize_t told = ::read(readEnd.get(), problem, sizeof problem - 1);
  if (told != 1)
    base::fail(ErrorCode::System, "the namespaces of ", name, " cannot be made: ", problem);
}

void NetworkHosts::enter(int host) const { enterNamespaces(holders_.pid(host)); }

std::string NetworkHosts::address(int host) const { return base::message("10.77.0.", host + 1); }
std::string NetworkHosts::name(int host) const { return base::message("n", host); }
std::string NetworkHosts::port(int host) const { return base::message("port", host); }

void NetworkHosts::unplug(int host) const {
  runIn(hosts_, {"ip", "link", "set", port(host), "down"});
}

void NetworkHosts::plug(int host) const { runIn(hosts_, {"ip", "link", "set", port(host), "up"}); }

void NetworkHosts::addTunnel() const {
  for (const int host : {0, 1}) {
    runIn(host, {"ip", "link", "add", kTunnel, "type", "vxlan", "id", "7", "dstport", "4789",
                 "remote", address(1 - host)});
    runIn(host, {"ip", "address", "add", tunnelAddress(host) + "/24", "dev", kTunnel});
    runIn(host, {"ip", "link", "set", kTunnel, "up"});
  }
}

std::string NetworkHosts::tunnelAddress(int host) const {
  return "10.78.0." + std::to_string(host + 1);
}

void NetworkHosts::cutTunnel() const {
  for (const int host : {0, 1})
    runIn(host, {"ip", "neighbour", "replace", tunnelAddress(1 - host), "lladdr",
                 "02:00:00:00:00:01", "dev", kTunnel, "nud", "permanent"});
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

std::string NetworkHosts::run(int host, const std::vector<std::string>& command) const {
  return runIn(host, command);
}

std::string NetworkHosts::runIn(int process, const std::vector<std::string>& command) const {
  const auto [code, text] = execute(command, holders_.pid(process));
  if (code == 0) return text;
  std::string line;
  for (const std::string& word : command) line += word + " ";
  base::fail(ErrorCode::System, line, "ended with ", code, ": ", text);
}

}  // namespace tutti::tests
