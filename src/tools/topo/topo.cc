#include "src/tools/topo/topo.h"

#include <algorithm>

#include "src/device/cuda.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/output_file.h"
#include "src/tools/topo/topo_report.h"
#include "src/topology/read_machine.h"

namespace tutti::tools {
namespace {

int showTopo(const TopoOptions& options) {
  topology::Machine machine = topology::readMachine();
  if (!machine.gpus.empty()) machine.gpusUnused = device::cudaSupport().missing;
  const int ranks = options.ranks > 0 ? options.ranks : std::max(1, machine.usableCores());
  writeIfNamed("--svg", options.svgFile, [&] { return topoSvg(machine, ranks); });
  writeIfNamed("--json", options.jsonFile, [&] { return topoJson(machine, ranks); });
  printBeside(topoText(machine, ranks), {options.svgFile, options.jsonFile});
  return 0;
}

}  // namespace

std::variant<TopoOptions, int> parseTopo(int argc, const char* const* argv) {
  TopoOptions o;
  CommandLine app(
      "What this machine has, how far apart it is (NCCL's words: PIX, PXB, PHB, NODE, SYS), which\n"
      "transport would join which ranks, and why not the others",
      "tutti topo");
  app.addOutput("--json", o.jsonFile, "also write it to this file, as JSON in one line");
  app.addOutput("--svg", o.svgFile, "also draw a picture into this file");
  app.add_option(
         "-n,--ranks", o.ranks,
         "ranks on this host, bound to its cores in equal parts; one for each core without it")
      ->check(CLI::Range(1, 4096))
      ->default_str("");
  if (const auto code = app.read(argc, argv)) return *code;
  return o;
}

int topoMain(int argc, char** argv) {
  return runProgram<TopoOptions>(
      "tutti topo", [&] { return parseTopo(argc, argv); }, showTopo, 1);
}

}  // namespace tutti::tools
