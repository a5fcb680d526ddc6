// Tuning tables as files in TOML.

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/check.h"
#include "src/base/nearest_name.h"
#include "src/base/printable.h"
#include "src/base/read_text.h"
#include "src/base/toml.h"
#include "src/topology/tuning.h"

namespace tutti::topology {
namespace {

// Of a file: the text of all constants has about four hundred, that of a preference some ninety.
constexpr size_t kMostBytes = 512 * 1024;

constexpr const char* kPrefer = "prefer";

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Constant& constant : constants()) all.emplace_back(constant.name);
  all.emplace_back(kPrefer);
  return all;
}

/// One file, whose name stands in each refusal.
class TuningReader {
 public:
  TuningReader(const std::string& where, const PreferenceCheck& check)
      : where_(where), check_(check) {}

  Tuning read(const std::string& text) {
    Tuning tuning;
    for (const auto& [key, value] : parse(text)) {
      const std::string_view name = key.str();
      if (name == kPrefer)
        addPreferences(value, tuning);
      else
        setConstant(name, value, at(key.source()), tuning);
    }
    return tuning;
  }

 private:
  std::string at(const toml::source_region& place) const {
    return base::message(where_, ", line ", place.begin.line);
  }

  toml::table parse(const std::string& text) const {
    try {
      return toml::parse(text);
    } catch (const toml::parse_error& error) {
      base::fail(ErrorCode::InvalidArgument, at(error.source()), ": ", error.description(),
                 "; a tuning file is TOML, as tutti tune -o writes it");
    }
  }

  [[noreturn]] static void refuse(std::string_view name, const std::string& place) {
    std::string all;
    for (const std::string& known : names()) all += (all.empty() ? "" : ", ") + known;
    base::fail(ErrorCode::InvalidArgument, place, ": \"", base::printable(name), "\" is none of ",
               all, base::didYouMean(name, names()));
  }

  static void setConstant(std::string_view name, const toml::node& value, const std::string& place,
                          Tuning& tuning) {
    const Constant* constant = nullptr;
    for (const Constant& each : constants())
      if (name == each.name) constant = &each;
    if (!constant) refuse(name, place);
    double number = -1;
    if (const auto* whole = value.as_integer()) number = static_cast<double>(whole->get());
    if (const auto* real = value.as_floating_point()) number = real->get();
    TUTTI_REQUIRE(value.is_number() && constant->allows(number), place, ": ", constant->name,
                  " is not a number from ", constant->least, " to ", constant->most);
    tuning.*constant->value = number;
  }

  void addPreferences(const toml::node& value, Tuning& tuning) const {
    const toml::array* const list = value.as_array();
    TUTTI_REQUIRE(list, at(value.source()), ": ", kPrefer, " is not an array of tables");
    TUTTI_REQUIRE(list->size() <= Tuning::kMostPreferences, at(value.source()), ": more than ",
                  Tuning::kMostPreferences, " preferences");
    for (const toml::node& element : *list) {
      const std::string place = at(element.source());
      const toml::table* const table = element.as_table();
      const auto preference = table ? preferenceOf(*table) : std::nullopt;
      TUTTI_REQUIRE(preference && preference->isPossible(), place,
                    ": this is no preference like { collective = \"all_reduce\", ranks = 4, hosts "
                    "= 1, bytes = 4096, algorithm = \"ring\" }, with a power of two of bytes from "
                    "8 on");
      if (check_) check_(*preference, place);
      tuning.preferences.push_back(*preference);
    }
  }

  /// Nothing where a member is missing, of another type, or one too many.
  static std::optional<Preference> preferenceOf(const toml::table& table) {
    const auto collective = table["collective"].value_exact<std::string>();
    const auto ranks = table["ranks"].value_exact<int64_t>();
    const auto hosts = table["hosts"].value_exact<int64_t>();
    const auto bytes = table["bytes"].value_exact<int64_t>();
    const auto algorithm = table["algorithm"].value_exact<std::string>();
    constexpr int64_t kMost = 1 << 24;
    const auto isCount = [](int64_t number) { return number >= 1 && number <= kMost; };
    if (!collective || !ranks || !hosts || !bytes || !algorithm || table.size() != 5) return {};
    if (!isCount(*ranks) || !isCount(*hosts) || *bytes < 0) return {};
    return Preference{.collective = *collective,
                      .ranks = static_cast<int>(*ranks),
                      .hosts = static_cast<int>(*hosts),
                      .blockBytes = static_cast<uint64_t>(*bytes),
                      .algorithm = *algorithm};
  }

  const std::string& where_;
  const PreferenceCheck& check_;
};

}  // namespace

std::string Tuning::text() const {
  std::string text;
  for (const Constant& constant : constants()) {
    std::array<char, 64> number;
    const auto end =
        std::to_chars(number.data(), number.data() + number.size(), this->*constant.value).ptr;
    text += base::message(constant.name, " = ", std::string(number.data(), end), "\n");
  }
  if (preferences.empty()) return text;
  text += base::message(kPrefer, " = [\n");
  for (const Preference& p : preferences)  // whose names have letters that need no escape
    text += base::message("  { collective = \"", p.collective, "\", ranks = ", p.ranks,
                          ", hosts = ", p.hosts, ", bytes = ", p.blockBytes, ", algorithm = \"",
                          p.algorithm, "\" },\n");
  return text + "]\n";
}

Tuning Tuning::parse(const std::string& text, const std::string& where,
                     const PreferenceCheck& check) {
  TUTTI_REQUIRE(text.size() <= kMostBytes, where, " has ", text.size(),
                " bytes; a tuning file has at most ", kMostBytes);
  return TuningReader(where, check).read(text);
}

Tuning Tuning::read(const std::string& path, const PreferenceCheck& check) {
  return parse(base::readText("the tuning file", path, kMostBytes), base::printable(path), check);
}

}  // namespace tutti::topology
