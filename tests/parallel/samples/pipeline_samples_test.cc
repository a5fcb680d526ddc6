// The samples of pipelines as their user meets them. With the argument "measure" also how long
// ranks idle, against what was predicted. The folder of the programs is the first argument.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parallel/samples/sample_output.h"
#include "tests/support/test_main.h"

namespace tutti::parallel {
namespace {

std::string programs;
bool measures = false;
const tests::Arguments commandLine{{"FOLDER_OF_PROGRAMS", &programs}, {"[measure]", &measures}};

Output run(const std::string& command) { return runProgram(programs + "/" + command); }

TEST(PipelineSamples, LayersOnSeveralRanksLearnToTheBitWhatOneRankDoes) {
  const auto one = losses(run("model_parallel --deterministic --steps 10"));
  ASSERT_EQ(one.size(), 10U);
  EXPECT_LT(std::stod(one.back()), std::stod(one.front()) - 0.5);
  for (const std::string ranks : {"2", "4"})
    EXPECT_EQ(losses(run("model_parallel --deterministic --steps 10 --ranks " + ranks)), one);
  const Output refused = run("model_parallel --ranks 5");
  EXPECT_EQ(refused.exitCode, 1);
  EXPECT_EQ(refused.count("has none for some of 5 stages"), 1) << refused.text;
  const Output dry = run("model_parallel --ranks 4 --device dry");
  EXPECT_EQ(dry.exitCode, 0) << dry.text;
  EXPECT_EQ(dry.count("messages along {pp}"), 1) << dry.text;
}

/// Shares of time, in percent; not measured: -1.
struct Row {
  std::string schedule;
  double predicted = 0, measured = -1;
};

std::vector<Row> rowsOf(const Output& output) {
  std::istringstream lines(output.text);
  std::vector<Row> rows;
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {
    std::istringstream words(line);
    Row row;
    std::string predicted, measured;
    words >> row.schedule >> predicted >> measured;
    row.predicted = std::stod(predicted);
    if (measured != "-") row.measured = std::stod(measured);
    rows.push_back(row);
  }
  return rows;
}

TEST(PipelineSamples, SchedulesIdleAsPredicted) {
  const Output dry = run("pipeline_schedules --ranks 4 --device dry");
  ASSERT_EQ(dry.exitCode, 0) << dry.text;
  const std::vector<Row> said = rowsOf(dry);
  ASSERT_EQ(said.size(), 6U) << dry.text;
  // Those of docs/explanation/pipelines.md.
  const std::vector<double> expected{75, 27.3, 27.3, 15.8, 11.1, 5.9};
  for (size_t i = 0; i < said.size(); ++i) EXPECT_EQ(said[i].predicted, expected[i]) << dry.text;
  for (const auto& [costs, why] :
       {std::pair{"1,,2,3", "--costs: \"1,,2,3\": between its commas is nothing"},
        {"1,2", "--costs: 3 are wanted, not 2"},
        {"1,2,0", "--costs: Value 0 not in range 1 to 1000"}}) {
    const Output refused = run(std::string("pipeline_schedules --device dry --costs ") + costs);
    EXPECT_NE(refused.exitCode, 0);
    EXPECT_NE(refused.text.find(why), std::string::npos) << refused.text;
  }
  if (!measures) return;
  // What sleeps is late where others compute: of three attempts one has to be undisturbed.
  for (const std::string costs : {"160,160,160", "80,160,40", "160,80,80"}) {
    bool within = false;
    for (int attempt = 0; attempt < 3 && !within; ++attempt) {
      const Output output = run("pipeline_schedules --ranks 4 --costs " + costs);
      ASSERT_EQ(output.exitCode, 0) << output.text;
      const std::vector<Row> rows = rowsOf(output);
      ASSERT_EQ(rows.size(), 6U) << output.text;
      within = true;
      for (const Row& row : rows)
        within = within && std::abs(row.measured - row.predicted) <= 0.1 * row.predicted;
      std::printf("%s\n%s", costs.c_str(), output.text.c_str());
    }
    EXPECT_TRUE(within) << costs;
  }
}

}  // namespace
}  // namespace tutti::parallel
