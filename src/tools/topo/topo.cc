#include "src/tools/topo/topo.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/device/cuda.h"
#include "src/tools/common/output_file.h"
#include "src/tools/topo/topo_report.h"
#include "src/topology/read_machine.h"

namespace tutti::tools {
namespace {

int showTopo(const TopoOptions& options) {
  topology::Machine machine = topology::readMachine();
  if (!machine.gpus.empty()) machine.gpusUnused = device::cudaSupport().missing;
  const int ranks = options.ranks > 0 ? options.ranks : std::max(1, machine.usableCores());
  if (!options.svgFile.empty()) writeFile("--svg", options.svgFile, topoSvg(machine, ranks));
  std::fputs((options.json ? topoJson : topoText)(machine, ranks).c_str(), stdout);
  return 0;
}

}  // namespace

std::variant<TopoOptions, int> parseTopo(int argc, const char* const* argv) {
  TopoOptions o;
  CLI::App app{
      "What this machine has, how far apart it is (NCCL's words: PIX, PXB, PHB, NODE, SYS), which\n"
      "transport would join which ranks, and why not the others",
      "tutti topo"};
  app.add_flag("--json", o.json, "as JSON");
  app.add_option("--svg", o.svgFile, "also draw a picture into this file");
  app.add_option(
         "-n,--ranks", o.ranks,
         "ranks on this host, bound to its cores in equal parts; one for each core without it")
      ->check(CLI::Range(1, 4096));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return o;
}

int topoMain(int argc, char** argv) {
  const auto parsed = parseTopo(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  try {
    return showTopo(std::get<TopoOptions>(parsed));
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti topo: %s\n", base::printableLines(e.what()).c_str());
    return 1;
  }
}

}  // namespace tutti::tools
