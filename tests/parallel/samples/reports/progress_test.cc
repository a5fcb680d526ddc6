// What train_gpt writes about its steps: a line of JSON for each, lines of an earlier attempt that
// a resumed training takes back, and nothing from other ranks than 0.

#include "parallel/samples/reports/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include <tutti/error.h>

#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

class Progress : public testing::Test {
 protected:
  Progress() {
    options_.json = folder_.path() / "steps.jsonl";
    options_.peakFlops = 1e9;
  }
  /// Standard output of so many steps, after which the object is gone.
  std::string train(bool enabled, int64_t first, int64_t last, double loss = 2.5) {
    testing::internal::CaptureStdout();
    TrainingProgress progress(options_, enabled);
    if (options_.resume) progress.resumed(first - 1);
    progress.begin(1000, 2'000'000, 2);
    for (int64_t step = first; step <= last; ++step)
      progress.step(step, {.loss = loss, .tokens = 64}, 0.001, {});
    return testing::internal::GetCapturedStdout();
  }
  /// The numbers of the steps whose lines are in the file.
  std::string steps() const {
    std::string found;
    const std::string text = folder_.read("steps.jsonl"), key = "{\"step\":";
    for (size_t at = 0; (at = text.find(key, at)) != std::string::npos;) {
      at += key.size();
      found += text.substr(at, text.find(',', at) - at) + " ";
    }
    return found;
  }
  bool wrote(const std::string& member) const {
    return folder_.read("steps.jsonl").find(member) != std::string::npos;
  }

  tests::TemporaryFolder folder_;
  TrainOptions options_;
};

TEST_F(Progress, IsALineOfJsonForEachStep) {
  options_.steps = 3;
  const std::string shown = train(true, 1, 3);
  EXPECT_EQ(steps(), "1 2 3 ");
  for (const char* member :
       {"\"tokens\":64,", "\"loss\":2.5,", "\"learning_rate\":0.001,", "\"skipped\":false,"})
    EXPECT_TRUE(wrote(member)) << member;
  EXPECT_TRUE(shown.starts_with("0.00 million parameters, 2.00 million bytes of text, 2 ranks, "))
      << shown;
  // The first and the last one, where the terminal is none.
  EXPECT_NE(shown.find("step 1/3  loss 2.5000"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("step 2/3"), std::string::npos) << shown;
  EXPECT_NE(shown.find("step 3/3"), std::string::npos) << shown;
}

TEST_F(Progress, OfTheValidationIsShownWhereItTakesLong) {
  const auto shown = [&](bool enabled, std::chrono::seconds first) {
    testing::internal::CaptureStdout();
    TrainingProgress progress(options_, enabled);
    progress.validating(0, 300);
    std::this_thread::sleep_for(first);
    progress.validating(100, 300);
    progress.validating(200, 300);  // too early for a second line
    progress.validating(300, 300);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(shown(true, std::chrono::seconds(0)), "");
  const std::string slow = shown(true, std::chrono::seconds(2));
  EXPECT_TRUE(slow.starts_with("validation 100/300 windows  0:0")) << slow;
  EXPECT_NE(slow.find(" left\nvalidation 300/300 windows  0:00 left\n"), std::string::npos) << slow;
  EXPECT_EQ(shown(false, std::chrono::seconds(2)), "");
}

TEST_F(Progress, HasNullForWhatJsonCannotSay) {
  train(true, 1, 1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(wrote("\"loss\":null")) << folder_.read("steps.jsonl");
}

TEST_F(Progress, OfOtherRanksIsNothing) {
  EXPECT_EQ(train(false, 1, 2), "");
  EXPECT_FALSE(std::filesystem::exists(options_.json));
}

TEST_F(Progress, GoesOnBehindTheStepThatIsResumed) {
  train(true, 1, 5);
  options_.resume = true;
  train(true, 4, 4);
  EXPECT_EQ(steps(), "1 2 3 4 ");
  // A line that is not whole goes too.
  const std::string whole = folder_.read("steps.jsonl");
  tests::setContents(options_.json, whole.substr(0, whole.size() - 10));
  train(true, 5, 5);
  EXPECT_EQ(steps(), "1 2 3 5 ");
}

// 10 steps of this run in 5 seconds, behind 40 that another one has done.
TEST(ProgressPace, CountsTheStepsOfThisRunAlone) {
  const Pace pace = paceOf(40, 50, 60, 5);
  EXPECT_DOUBLE_EQ(pace.stepsPerSecond, 2);
  EXPECT_DOUBLE_EQ(pace.secondsLeft, 5);
}

TEST_F(Progress, SaysBehindWhichStepItGoesOn) {
  options_.resume = true;
  options_.steps = 60;
  options_.checkpoints = "run";
  const std::string shown = train(true, 41, 42);
  EXPECT_TRUE(shown.starts_with("goes on behind step 40 of run\n")) << shown;
  EXPECT_NE(shown.find("step 41/60"), std::string::npos) << shown;  // the first that it does
  EXPECT_EQ(train(true, 1, 1).find("goes on"), std::string::npos);
}

TEST_F(Progress, GoesOnBehindLinesOfEarlierVersions) {
  options_.resume = true;
  tests::setContents(options_.json, "{\"step\": 1, \"loss\": 2}\n{\"step\": 3, \"loss\": 1}\n");
  train(true, 2, 2);
  EXPECT_EQ(steps(), " 1 2 ");
}

// Nobody could read them, nor what is appended to them.
TEST_F(Progress, CutsOffWhatIsNoLineOfAStep) {
  train(true, 1, 1);
  options_.resume = true;
  const std::string first = folder_.read("steps.jsonl");
  for (const char* line : {"{\"step\":2,\"loss\":}", "{\"step\":-2}", "{\"step\":2.5}",
                           "{\"step\":18446744073709551615}", "{\"loss\":2}", "[2]", "2", ""}) {
    tests::setContents(options_.json, first + line + "\n" + first);
    train(true, 5, 5);
    EXPECT_EQ(steps(), "1 5 ") << line;
  }
}

TEST_F(Progress, StartsAnewWithoutResume) {
  train(true, 1, 5);
  train(true, 1, 2);
  EXPECT_EQ(steps(), "1 2 ");
}

// A run that comes to no step has nothing to put in its place.
TEST_F(Progress, KeepsTheFileUntilThereIsAStep) {
  train(true, 1, 5);
  std::filesystem::permissions(options_.json, std::filesystem::perms{0640});
  train(true, 1, 0);
  EXPECT_EQ(steps(), "1 2 3 4 5 ");
  train(true, 1, 1);
  EXPECT_EQ(steps(), "1 ");
  EXPECT_EQ(std::filesystem::status(options_.json).permissions(), std::filesystem::perms{0640});
  std::filesystem::remove(options_.json);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// Nothing is cut off of a file that is none of a training's.
TEST_F(Progress, GoesOnWithNoOtherFile) {
  options_.resume = true;
  for (const std::string text : {"1\n2\n", "{\"steps\": 1}\n", "x"}) {
    tests::setContents(options_.json, text);
    try {
      TrainingProgress progress(options_, true);
      ADD_FAILURE() << "accepted " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find("does not begin with a step of a training"),
                std::string::npos)
          << error.what();
    }
    EXPECT_EQ(folder_.read("steps.jsonl"), text);
  }
  // A first line that is not whole, and none.
  for (const std::string text : {"", "{\"st", "{\"step\":", "{\"step\": 1, \"lo"}) {
    tests::setContents(options_.json, text);
    train(true, 1, 2);
    EXPECT_EQ(steps(), "1 2 ") << text;
  }
}

TEST_F(Progress, NamesAFileThatCannotBeWritten) {
  options_.json = folder_.path() / "nowhere" / "steps.jsonl";
  try {
    TrainingProgress progress(options_, true);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::System);
    EXPECT_NE(std::string(error.what()).find("--json: cannot create " + options_.json),
              std::string::npos)
        << error.what();
  }
  options_.json = "/dev/full";
  TrainingProgress progress(options_, true);
  EXPECT_THROW(progress.step(2, {}, 0, {}), Error);
}

}  // namespace
}  // namespace tutti::parallel
