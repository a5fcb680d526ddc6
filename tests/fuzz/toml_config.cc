// Files of flags in TOML, of a program that has a flag of each kind.

#include <CLI/CLI.hpp>

#include "parallel/samples/options/config_file.h"
#include "parallel/samples/options/flags.h"
#include "parallel/samples/options/list_flag.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  const fuzz::MemoryFile file(fuzz::Input(data, size).text());
  const std::string path = file.path();
  const char* const words[] = {"program", "--config", path.c_str()};
  int64_t whole = 1, bytes = 0;
  double number = 1;
  bool flag = false;
  std::string text, choice;
  std::vector<int> list;
  CLI::App app("", "program");
  app.add_option("--dp", whole)->check(parallel::positiveSize());
  app.add_option("--lr", number)->check(parallel::finiteNumber(true));
  app.add_option("--bytes", bytes)->transform(parallel::byteSize());
  app.add_flag("--deterministic", flag);
  app.add_option("--text", text);
  app.add_option("--schedule", choice)->check(CLI::IsMember({"1f1b", "zb-h1"}));
  parallel::addListFlag(app, "--stages", list, "", parallel::positiveSize());
  parallel::addConfigFlag(app);
  fuzz::takes({ErrorCode::InvalidArgument}, [&] {
    try {
      app.parse(3, words);
      fuzz::expect(whole >= 1 && number >= 0 && bytes >= 0, "values are what their flags take");
    } catch (const CLI::ParseError&) {  // flags that are against each other
    }
  });
  return 0;
}
