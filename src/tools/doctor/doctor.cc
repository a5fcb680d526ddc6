#include "src/tools/doctor/doctor.h"

#include <algorithm>
#include <chrono>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/tools/common/command_line.h"
#include "src/tools/common/json.h"
#include "src/tools/common/output_file.h"
#include "src/tools/common/page.h"
#include "src/tools/common/units.h"
#include "src/tools/doctor/doctor_nccl.h"

namespace tutti::tools {
namespace {

using State = Finding::State;

/// How long Python may take to import PyTorch.
constexpr std::chrono::minutes kLongestStart{2};

constexpr size_t kStateColumns = 7, kLabelColumns = 23;

size_t problemsIn(std::span<const Finding> findings) {
  return static_cast<size_t>(std::ranges::count_if(findings, &Finding::problem));
}

}  // namespace

std::variant<DoctorOptions, int> parseDoctor(int argc, const char* const* argv) {
  DoctorOptions o;
  CommandLine app(
      "What is wrong or slow on this machine for Tutti, why it matters, and what mends it.\n"
      "Ends with code 0 when nothing is, 1 when something is",
      "tutti doctor");
  app.addOutput("--json", o.jsonFile, "also write it to this file, as JSON in one line");
  app.add_option("-n,--ranks", o.ranks,
                 "ranks that are to run on this host; one for each core without it")
      ->check(CLI::Range(1, 4096))
      ->default_str("");
  app.add_option("--nccl", o.nccl,
                 "only which libnccl.so.2 a program loads; Python is asked what PyTorch loads")
      ->type_name("PROGRAM")
      ->check([](const std::string& program) {
        return program.empty() ? "it names no program" : std::string();
      });
  if (const auto code = app.read(argc, argv)) return *code;
  return o;
}

namespace {

void addFindings(Page& page, std::span<const Finding> findings) {
  for (const Finding& f : findings) {
    std::string label = toString(f.state);
    label.resize(kStateColumns, ' ');
    page.line(label + f.check, f.measured);
    if (!f.why.empty()) page.line("", "why: " + f.why);
    if (!f.mend.empty()) page.unbroken("", "mend: " + f.mend);
  }
}

Json listOf(std::span<const Finding> findings) {
  Json list = Json::array();
  for (const Finding& f : findings)
    list.push_back({{"check", f.check},
                    {"state", toString(f.state)},
                    {"measured", f.measured},
                    {"why", f.why},
                    {"mend", f.mend}});
  return list;
}

}  // namespace

std::string doctorNcclText(const Finding& finding, const std::string& program) {
  Page page(kLabelColumns);
  addFindings(page, {&finding, 1});
  page.heading(base::message(base::printable(program), finding.problem()
                                                           ? " does not load Tutti's NCCL"
                                                           : " loads Tutti's NCCL"));
  return std::move(page).take();
}

std::string doctorNcclJson(const Finding& finding, const std::string& program) {
  const Json json{{"program", program},
                  {"problems", finding.problem() ? 1 : 0},
                  {"findings", listOf({&finding, 1})}};
  return jsonLine(json);
}

std::string doctorText(std::span<const Finding> findings, int ranks) {
  Page page(kLabelColumns);
  addFindings(page, findings);
  const size_t problems = problemsIn(findings);
  page.heading(
      base::message("For ", countText(static_cast<uint64_t>(ranks), "rank"), " on this host: ",
                    problems == 0 ? "nothing is wrong or slow" : countText(problems, "problem")));
  return std::move(page).take();
}

std::string doctorJson(std::span<const Finding> findings, int ranks) {
  const Json json{
      {"ranks", ranks}, {"problems", problemsIn(findings)}, {"findings", listOf(findings)}};
  return jsonLine(json);
}

namespace {

int showDoctor(const DoctorOptions& o) {
  if (!o.nccl.empty()) {
    const Finding finding = checkNccl(findNccl(o.nccl, kLongestStart));
    writeIfNamed("--json", o.jsonFile, [&] { return doctorNcclJson(finding, o.nccl); });
    printBeside(doctorNcclText(finding, o.nccl), {o.jsonFile});
    return finding.problem() ? 1 : 0;
  }
  const DoctorFacts facts = readDoctorFacts(o.ranks);
  const std::vector<Finding> findings = diagnose(facts);
  writeIfNamed("--json", o.jsonFile, [&] { return doctorJson(findings, facts.ranks); });
  printBeside(doctorText(findings, facts.ranks), {o.jsonFile});
  return problemsIn(findings) == 0 ? 0 : 1;
}

}  // namespace

int doctorMain(int argc, char** argv) {
  return runProgram<DoctorOptions>(
      "tutti doctor", [&] { return parseDoctor(argc, argv); }, showDoctor, 1);
}

}  // namespace tutti::tools
