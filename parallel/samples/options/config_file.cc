#include "parallel/samples/options/config_file.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/samples/options/flags.h"
#include "parallel/tensor/check.h"
#include "src/base/toml.h"

namespace tutti::parallel {

namespace {

class TomlFile final : public CLI::Config {
 public:
  explicit TomlFile(CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> flags;
    for (const auto& [key, value] : parse(input)) {
      CLI::ConfigItem item;
      item.name = std::string(key.str());
      CLI::Option* const option = app_.get_option_no_throw("--" + item.name);
      require(option != nullptr, at(key.source()), item.name, " is no flag of ", app_.get_name(),
              option == nullptr ? nearestFlag(app_, "--" + item.name) : "");
      require(option->get_configurable(), at(key.source()), item.name,
              " is for the command line alone");
      item.inputs = textsOf(item.name, value);
      if (option->get_expected_min() == 0)
        require(value.is_boolean(), at(value.source()), item.name, " is neither true nor false");
      else if (option->empty())
        tryOut(*option, item.inputs, value.source());
      flags.push_back(std::move(item));
    }
    return flags;
  }
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

 private:
  toml::table parse(std::istream& input) const {
    const std::string name = app_.get_config_ptr()->as<std::string>();
    std::string text(kMostConfigBytes + 1, '\0');
    input.read(text.data(), std::ssize(text));
    text.resize(static_cast<size_t>(input.gcount()));
    require(!input.bad(), name, " cannot be read");
    require(text.size() <= kMostConfigBytes, name, " has more than ", kMostConfigBytes,
            " bytes, and no flags need so many");
    try {
      return toml::parse(text);
    } catch (const toml::parse_error& error) {
      fail(ErrorCode::InvalidArgument, at(error.source()), error.description());
    }
  }

  /// CLI11 does the same behind from_config(), and then does not know of lines any more.
  void tryOut(CLI::Option& option, const std::vector<std::string>& values,
              const toml::source_region& place) const {
    try {
      option.add_result(values);
      option.run_callback();
      option.clear();
    } catch (const CLI::ParseError& error) {
      fail(ErrorCode::InvalidArgument, at(place), error.what());
    }
  }

  std::string at(const toml::source_region& place) const {
    return message(app_.get_config_ptr()->as<std::string>(), ", line ", place.begin.line, ": ");
  }

  std::vector<std::string> textsOf(const std::string& key, const toml::node& value) const {
    if (const auto* values = value.as_array()) {
      std::vector<std::string> texts;
      for (const toml::node& element : *values) texts.push_back(textOf(key, element));
      require(!texts.empty(), at(value.source()), key, " is an empty array");
      return texts;
    }
    return {textOf(key, value)};
  }

  std::string textOf(const std::string& key, const toml::node& value) const {
    if (const auto* text = value.as_string()) {
      // It would end whatever is made of it, a file's name for one.
      require(text->get().find('\0') == std::string::npos, at(value.source()), key,
              " has a zero byte");
      return text->get();
    }
    if (const auto* whole = value.as_integer()) return std::to_string(whole->get());
    if (const auto* number = value.as_floating_point()) {
      char text[32];
      std::snprintf(text, sizeof(text), "%.17g", number->get());
      return text;
    }
    if (const auto* flag = value.as_boolean()) return flag->get() ? "true" : "false";
    fail(ErrorCode::InvalidArgument, at(value.source()), key,
         " is neither text, a number, true or false, nor an array of these");
  }

  CLI::App& app_;
};

}  // namespace

void addConfigFlag(CLI::App& app) {
  app.set_config("--config", "",
                 "file with flags in TOML, as in layers = 4; those given here go before");
  app.config_formatter(std::make_shared<TomlFile>(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
}

}  // namespace tutti::parallel
