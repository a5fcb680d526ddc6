#include "src/tools/doctor/doctor.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/tools/common/json.h"
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
  CLI::App app{
      "What is wrong or slow on this machine for Tutti, why it matters, and what mends it.\n"
      "Ends with code 0 when nothing is, 1 when something is",
      "tutti doctor"};
  app.add_flag("--json", o.json, "as JSON");
  app.add_option("-n,--ranks", o.ranks,
                 "ranks that are to run on this host; one for each core without it")
      ->check(CLI::Range(1, 4096));
  app.add_option("--nccl", o.nccl,
                 "only which libnccl.so.2 a program loads; Python is asked what PyTorch loads")
      ->type_name("PROGRAM")
      ->check([](const std::string& program) {
        return program.empty() ? "it names no program" : std::string();
      });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
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

int doctorMain(int argc, char** argv) {
  const auto parsed = parseDoctor(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  const auto& options = std::get<DoctorOptions>(parsed);
  try {
    if (!options.nccl.empty()) {
      const Finding finding = checkNccl(findNccl(options.nccl, kLongestStart));
      const auto say = options.json ? doctorNcclJson : doctorNcclText;
      std::fputs(say(finding, options.nccl).c_str(), stdout);
      return finding.problem() ? 1 : 0;
    }
    const DoctorFacts facts = readDoctorFacts(options.ranks);
    const std::vector<Finding> findings = diagnose(facts);
    std::fputs((options.json ? doctorJson : doctorText)(findings, facts.ranks).c_str(), stdout);
    return problemsIn(findings) == 0 ? 0 : 1;
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti doctor: %s\n", base::printableLines(e.what()).c_str());
    return 1;
  }
}

}  // namespace tutti::tools
