// Variables of the environment, "NAME=VALUE" a line: who a rank is, where its job meets, and the
// library's settings. Names of hosts are not looked up.

#include <netdb.h>

#include <map>
#include <sstream>

#include "src/base/env.h"
#include "src/bootstrap/discover.h"
#include "src/bootstrap/job_key.h"
#include "src/bootstrap/network_interface.h"
#include "tests/fuzz/fuzz.h"

// The linker leads the calls of getaddrinfo() here.
extern "C" int __real_getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**);
extern "C" int __wrap_getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                                  addrinfo** found) {
  addrinfo numeric = hints ? *hints : addrinfo{};
  numeric.ai_flags |= AI_NUMERICHOST;
  return __real_getaddrinfo(host, service, &numeric, found);
}

namespace tutti::fuzz {
namespace {

std::map<std::string, std::string> variablesOf(const std::string& text) {
  std::map<std::string, std::string> variables;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // Neither a name nor a value can have a zero byte.
    line = line.substr(0, line.find('\0'));
    const size_t equals = line.find('=');
    if (equals != line.npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return variables;
}

void chooseInterface(const base::Env& env) {
  std::vector<bootstrap::InterfaceEntry> up;
  for (const auto& [name, address] :
       {std::pair("lo", "127.0.0.1"), {"eth0", "10.0.0.1"}, {"ib0", "fd00::1"}})
    up.push_back({.interface = {.name = name, .address = wire::resolve(address, 0)},
                  .loopback = std::string_view(name) == "lo"});
  bootstrap::chooseInterface(up, {.one = env.interface, .list = env.socketInterfaces}, {}, {});
}

/// A key itself, or where Argon2id would take its time for it a random one.
std::string quickKey(const std::string& key) {
  using bootstrap::KeyStrength;
  const KeyStrength strength = bootstrap::strengthOf(key);
  return strength == KeyStrength::Typed || strength == KeyStrength::Weak
             ? "5f0c6d1e8a39b7427d90e3c4f1a6258b"
             : key;
}

void run(const std::string& text) {
  static const Silence silence;
  const auto variables = variablesOf(text);
  const bootstrap::Lookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return name == "TUTTI_JOB_KEY" ? quickKey(found->second) : found->second;
  };
  takes({ErrorCode::InvalidArgument, ErrorCode::Refused}, [&] {
    const bootstrap::Identity identity = bootstrap::discover({}, lookup);
    expect(identity.malformed || identity.rank < identity.size, "a rank is below its world's size");
    expect(!identity.describe().empty(), "a rank has a name");
  });
  if (const auto address = lookup("TUTTI_ADDRESS"))
    takes({ErrorCode::InvalidArgument, ErrorCode::Refused},
          [&] { bootstrap::idAt(*address, lookup); });
  const base::EnvReading reading = base::readEnv([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  expect(reading.env.timeoutMs > 0 && reading.env.gpuQueues > 0, "settings are possible");
  takes({ErrorCode::InvalidArgument}, [&] { chooseInterface(reading.env); });
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::run(tutti::fuzz::Input(data, size).text());
  return 0;
}
