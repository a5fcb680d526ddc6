#include "parallel/samples/config_file.h"

#include <memory>
#include <string>
#include <vector>

#include <toml++/toml.h>

#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

class TomlFile final : public CLI::Config {
 public:
  explicit TomlFile(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> flags;
    for (const auto& [key, value] : parse(input)) {
      CLI::ConfigItem item;
      item.name = std::string(key.str());
      require(app_.get_option_no_throw("--" + item.name) != nullptr, at(key.source()), item.name,
              " is no flag of ", app_.get_name());
      item.inputs = textsOf(item.name, value);
      flags.push_back(std::move(item));
    }
    return flags;
  }
  std::string to_flag(const CLI::ConfigItem& flag) const override {
    const bool known =
        flag.inputs.size() == 1 && (flag.inputs[0] == "true" || flag.inputs[0] == "false");
    require(known, app_.get_config_ptr()->as<std::string>(), ": ", flag.name,
            " is neither true nor false");
    return flag.inputs[0];
  }
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

 private:
  toml::table parse(std::istream& input) const {
    try {
      return toml::parse(input);
    } catch (const toml::parse_error& error) {
      fail(ErrorCode::InvalidArgument, at(error.source()), error.description());
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
    if (const auto* text = value.as_string()) return text->get();
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

  const CLI::App& app_;
};

}  // namespace

void addConfigFlag(CLI::App& app) {
  app.set_config("--config", "",
                 "file with flags in TOML, as in layers = 4; those given here go before");
  app.config_formatter(std::make_shared<TomlFile>(app));
  app.allow_config_extras(CLI::config_extras_mode::error);
}

}  // namespace tutti::parallel
