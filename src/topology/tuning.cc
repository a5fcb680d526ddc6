#include "src/topology/tuning.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "src/base/check.h"

namespace tutti::topology {
namespace {

constexpr uint32_t kTuningVersion = 7;
// Of a file: the text of all constants has about four hundred, that of a preference some forty.
constexpr size_t kMostBytes = 512 * 1024;
constexpr size_t kMostNameBytes = 32;
constexpr int kMostRanks = 1 << 24;

constexpr std::array kConstants{
    Constant{"messageMicroseconds", &Tuning::messageMicroseconds, 0, 1e6},
    Constant{"stepMicroseconds", &Tuning::stepMicroseconds, 0, 1e6},
    Constant{"copyGigabytesPerSecond", &Tuning::copyGigabytesPerSecond, 1e-6, 1e6},
    Constant{"reduceGigabytesPerSecond", &Tuning::reduceGigabytesPerSecond, 1e-6, 1e6},
    Constant{"mappedGigabytesPerSecond", &Tuning::mappedGigabytesPerSecond, 1e-6, 1e6},
    Constant{"entryMicroseconds", &Tuning::entryMicroseconds, 0, 1e6},
    Constant{"yieldMicroseconds", &Tuning::yieldMicroseconds, 0, 1e6},
    Constant{"networkMicroseconds", &Tuning::networkMicroseconds, 0, 1e6},
    Constant{"networkGapMicroseconds", &Tuning::networkGapMicroseconds, 0, 1e6},
    Constant{"networkGigabytesPerSecond", &Tuning::networkGigabytesPerSecond, 1e-6, 1e6},
};

bool plausible(const Constant& constant, double value) {
  return std::isfinite(value) && value >= constant.least && value <= constant.most;
}

/// Names are looked at by who knows them.
bool plausible(const Preference& p) {
  return !p.collective.empty() && p.collective.size() <= kMostNameBytes && !p.algorithm.empty() &&
         p.algorithm.size() <= kMostNameBytes && p.ranks >= 2 && p.ranks <= kMostRanks &&
         p.hosts >= 1 && p.hosts <= p.ranks && p.blockBytes >= 8 &&
         std::has_single_bit(p.blockBytes);
}

/// "COLLECTIVE RANKS HOSTS BYTES ALGORITHM", or nothing.
std::optional<Preference> parsePreference(const std::string& text) {
  std::istringstream in(text);
  Preference p;
  std::string rest;
  if (!(in >> p.collective >> p.ranks >> p.hosts >> p.blockBytes >> p.algorithm) || in >> rest ||
      !plausible(p))
    return std::nullopt;
  return p;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string names() {
  std::string all;
  for (const Constant& constant : kConstants)
    all += base::message(all.empty() ? "" : ", ", constant.name);
  return all;
}

}  // namespace

std::span<const Constant> constants() { return kConstants; }

base::Bytes Tuning::serialize() const {
  base::ByteWriter writer;
  writer.put(kTuningVersion);
  for (const Constant& constant : kConstants)
    writer.put(std::bit_cast<uint64_t>(this->*constant.value));
  writer.put(static_cast<uint32_t>(preferences.size()));
  for (const Preference& p : preferences)
    writer.put(p.collective).put(p.ranks).put(p.hosts).put(p.blockBytes).put(p.algorithm);
  return writer.take();
}

Tuning Tuning::deserialize(const base::Bytes& bytes) {
  base::ByteReader reader(bytes);
  const auto version = reader.get<uint32_t>("tuning version");
  if (version != kTuningVersion)
    base::fail(ErrorCode::Refused, "tuning table of version ", version, ", not ", kTuningVersion);
  Tuning tuning;
  for (const Constant& constant : kConstants) {
    const auto value = std::bit_cast<double>(reader.get<uint64_t>(constant.name));
    if (!plausible(constant, value))
      base::fail(ErrorCode::Refused, "tuning table: ", constant.name, " is ", value,
                 ", not between ", constant.least, " and ", constant.most);
    tuning.*constant.value = value;
  }
  const auto count = reader.get<uint32_t>("number of preferences");
  if (count > kMostPreferences)
    base::fail(ErrorCode::Refused, "tuning table with ", count, " preferences, more than ",
               kMostPreferences);
  for (uint32_t i = 0; i < count; ++i) {
    Preference p;
    p.collective = reader.getString("preferred for", kMostNameBytes);
    p.ranks = reader.get<int>("preferred for ranks");
    p.hosts = reader.get<int>("preferred for hosts");
    p.blockBytes = reader.get<uint64_t>("preferred for bytes");
    p.algorithm = reader.getString("preferred", kMostNameBytes);
    if (!plausible(p)) base::fail(ErrorCode::Refused, "tuning table: preference ", i, " cannot be");
    tuning.preferences.push_back(std::move(p));
  }
  reader.requireEnd();
  return tuning;
}

std::string Tuning::text() const {
  std::string text;
  for (const Constant& constant : kConstants) {
    std::array<char, 64> number;
    const auto end =
        std::to_chars(number.data(), number.data() + number.size(), this->*constant.value).ptr;
    text += base::message(constant.name, " = ", std::string(number.data(), end), "\n");
  }
  for (const Preference& p : preferences)
    text += base::message("prefer = ", p.collective, " ", p.ranks, " ", p.hosts, " ", p.blockBytes,
                          " ", p.algorithm, "\n");
  return text;
}

Tuning Tuning::parse(const std::string& text, const std::string& where,
                     const PreferenceCheck& check) {
  TUTTI_REQUIRE(text.size() <= kMostBytes, where, " has ", text.size(),
                " bytes; a tuning file has at most ", kMostBytes);
  Tuning tuning;
  std::set<std::string> seen;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const auto equals = line.find('=');
    TUTTI_REQUIRE(equals != std::string::npos, where, ", line ", number, ": \"", line,
                  "\" is not like \"name = value\"");
    const std::string name = trimmed(line.substr(0, equals));
    const std::string value = trimmed(line.substr(equals + 1));
    if (name == "prefer") {
      auto preference = parsePreference(value);
      TUTTI_REQUIRE(
          preference, where, ", line ", number, ": \"", value,
          "\" is not like \"COLLECTIVE RANKS HOSTS BYTES ALGORITHM\", with a power of two "
          "of bytes from 8 on");
      if (check) check(*preference, base::message(where, ", line ", number));
      tuning.preferences.push_back(std::move(*preference));
      TUTTI_REQUIRE(tuning.preferences.size() <= kMostPreferences, where, ", line ", number,
                    ": more than ", kMostPreferences, " preferences");
      continue;
    }
    const Constant* constant = nullptr;
    for (const Constant& c : kConstants)
      if (name == c.name) constant = &c;
    TUTTI_REQUIRE(constant, where, ", line ", number, ": \"", name, "\" is none of ", names(),
                  ", prefer");
    TUTTI_REQUIRE(seen.insert(name).second, where, ", line ", number, ": ", name,
                  " was given before");
    double parsed = 0;
    const char* const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, parsed);
    TUTTI_REQUIRE(error == std::errc() && rest == end && plausible(*constant, parsed), where,
                  ", line ", number, ": ", name, " is \"", value, "\", not a number from ",
                  constant->least, " to ", constant->most);
    tuning.*constant->value = parsed;
  }
  return tuning;
}

Tuning Tuning::read(const std::string& path, const PreferenceCheck& check) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  TUTTI_REQUIRE(file.eof() && !file.bad(), "the tuning file ", path,
                file.is_open() ? " is too long, or is no file" : " cannot be opened");
  text.resize(static_cast<size_t>(file.gcount()));
  return parse(text, path, check);
}

}  // namespace tutti::topology
