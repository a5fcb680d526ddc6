#include "src/topology/tuning.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <limits>

#include <tutti/error.h>
#include "tests/support/outcome.h"

namespace tutti::topology {
namespace {

TEST(Tuning, ComesBackAsItWas) {
  Tuning tuning;
  tuning.messageMicroseconds = 0.125;
  tuning.networkMicroseconds = 3;
  tuning.networkGapMicroseconds = 0.5;
  tuning.networkGigabytesPerSecond = 12.5;
  tuning.preferences = {{"all_reduce", 4, 1, 4096, "ring"}, {"scan", 2, 2, 8, "mapped"}};
  EXPECT_EQ(Tuning::deserialize(tuning.serialize()), tuning);
  EXPECT_NE(Tuning::deserialize(Tuning{}.serialize()), tuning);
}

void expectRefused(const base::Bytes& bytes, const char* part) {
  try {
    Tuning::deserialize(bytes);
    FAIL() << "taken: " << bytes.size() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Refused);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Tuning, RefusesATableCutAnywhere) {
  const base::Bytes whole = Tuning{}.serialize();
  for (size_t size = 0; size < whole.size(); ++size)
    expectRefused({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, "ends");
  base::Bytes longer = whole;
  longer.push_back(std::byte{0});
  expectRefused(longer, "left");
}

TEST(Tuning, RefusesWhatNoMachineHas) {
  for (double value : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                       std::numeric_limits<double>::infinity(), 1e30}) {
    Tuning tuning;
    tuning.stepMicroseconds = value;
    expectRefused(tuning.serialize(), "stepMicroseconds");
    tuning = {};
    tuning.copyGigabytesPerSecond = value;
    expectRefused(tuning.serialize(), "copyGigabytesPerSecond");
    tuning = {};
    tuning.networkMicroseconds = value;
    expectRefused(tuning.serialize(), "networkMicroseconds");
    tuning = {};
    tuning.networkGapMicroseconds = value;
    expectRefused(tuning.serialize(), "networkGapMicroseconds");
    tuning = {};
    tuning.networkGigabytesPerSecond = value;
    expectRefused(tuning.serialize(), "networkGigabytesPerSecond");
  }
  Tuning tuning;
  tuning.reduceGigabytesPerSecond = 0;  // would be divided by
  expectRefused(tuning.serialize(), "reduceGigabytesPerSecond");
}

TEST(Tuning, RefusesPreferencesThatCannotBe) {
  const Preference good{"all_reduce", 4, 1, 4096, "ring"};
  const auto refused = [&](void (*change)(Preference&)) {
    Tuning tuning;
    tuning.preferences = {good, good};
    change(tuning.preferences[1]);
    expectRefused(tuning.serialize(), "preference 1");
  };
  refused([](Preference& p) { p.collective.clear(); });
  refused([](Preference& p) { p.algorithm.clear(); });
  refused([](Preference& p) { p.ranks = 1; });
  refused([](Preference& p) { p.hosts = 0; });
  refused([](Preference& p) { p.hosts = 5; });
  refused([](Preference& p) { p.blockBytes = 4; });
  refused([](Preference& p) { p.blockBytes = 4097; });
  Tuning many;
  many.preferences.assign(Tuning::kMostPreferences + 1, good);
  expectRefused(many.serialize(), "4097 preferences");
}

TEST(Tuning, RefusesAnotherVersion) {
  base::Bytes bytes = Tuning{}.serialize();
  bytes[0] = std::byte{99};
  expectRefused(bytes, "version 99");
}

// ---- as a file

TEST(TuningText, ComesBackAsItWas) {
  Tuning tuning;
  double value = 0.1;
  for (const Constant& constant : constants()) tuning.*constant.value = value *= 1.7;
  tuning.preferences = {{"all_reduce", 4, 1, 4096, "ring"}, {"scan", 2, 2, 8, "mapped"}};
  EXPECT_EQ(Tuning::parse(tuning.text(), "there"), tuning);
  EXPECT_EQ(Tuning::parse("", "there"), Tuning{});
  Tuning some;
  some.stepMicroseconds = 3.5;
  EXPECT_EQ(Tuning::parse("# measured\n\n  stepMicroseconds =3.5  # each\r\n", "there"), some);
}

TEST(TuningText, IsAsPeopleWriteIt) {
  Tuning tuning;
  tuning.stepMicroseconds = 2;
  tuning.networkMicroseconds = 1e3;
  tuning.preferences = {{"all_reduce", 4, 1, 4096, "ring"}, {"scan", 2, 2, 8, "ring/2"}};
  EXPECT_EQ(Tuning::parse(R"(
stepMicroseconds = 2        # a whole number
"networkMicroseconds" = 1_000.0

[[prefer]]
collective = "all_reduce"
ranks = 4
hosts = 1
bytes = 0x1000
algorithm = 'ring'

[[prefer]]
collective = "scan"
ranks = 2
hosts = 2
bytes = 8
algorithm = "ring/2"
)",
                          "there"),
            tuning);
}

std::string refusalOf(const std::string& text) {
  const auto outcome = tests::outcomeOf([&] { Tuning::parse(text, "a.txt"); });
  EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << text.substr(0, 80);
  return outcome.text;
}

void expectRefusedWith(const std::string& text, const std::string& part) {
  const std::string refusal = refusalOf(text);
  EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
}

TEST(TuningText, SaysWhatItRefusesAndWhere) {
  expectRefusedWith("stepMicroseconds = 1\nnonsense\n", "a.txt, line 2: ");
  expectRefusedWith("\nstep = 1", "line 2: \"step\" is none of messageMicroseconds, ");
  expectRefusedWith("\"\\u001b[2J\" = 1", "line 1: \"?[2J\" is none of ");
  expectRefusedWith("stepMicrosecond = 1", "; did you mean stepMicroseconds?");
  expectRefusedWith("stepMicroseconds = 1\nstepMicroseconds = 1", "a.txt, line 2: ");
  for (const char* value : {"fast", "", "1 2", "1e999"})
    expectRefusedWith(std::string("stepMicroseconds = ") + value, "a.txt, line 1: ");
  for (const char* value : {"nan", "inf", "-1", "1e99", "\"1\"", "true", "[1]", "{}"})
    expectRefusedWith(std::string("stepMicroseconds = ") + value,
                      "a.txt, line 1: stepMicroseconds is not a number from 0 to");
  expectRefusedWith("copyGigabytesPerSecond = 0", "copyGigabytesPerSecond");
  expectRefusedWith(std::string(600'000, '#'), "600000 bytes");
}

// What files of 0.1 said.
TEST(TuningText, SaysThatItIsToml) {
  expectRefusedWith("\nprefer = all_reduce 4 1 4096 ring\n",
                    "a tuning file is TOML, as tutti tune -o writes it");
}

TEST(TuningText, RefusesPreferencesThatCannotBe) {
  const auto table = [](const std::string& collective, const std::string& numbers,
                        const std::string& algorithm) {
    return "\nprefer = [{ collective = " + collective + ", " + numbers +
           ", algorithm = " + algorithm + " }]";
  };
  const std::string good = "ranks = 4, hosts = 1, bytes = 4096";
  EXPECT_EQ(Tuning::parse(table("'scan'", good, "'ring'"), "there").preferences.size(), 1u);
  const std::string cannotBe = "a.txt, line 2: this is no preference like { collective";
  for (const char* numbers :
       {"ranks = 4, hosts = 1", "ranks = 1, hosts = 1, bytes = 4096",
        "ranks = 4, hosts = 5, bytes = 4096", "ranks = 4, hosts = 1, bytes = 4095",
        "ranks = 4, hosts = 1, bytes = -8", "ranks = 4, hosts = 1, bytes = 4",
        "ranks = 4.0, hosts = 1, bytes = 4096", "ranks = '4', hosts = 1, bytes = 4096",
        "ranks = 4294967298, hosts = 1, bytes = 4096",
        "ranks = 4, hosts = 1, bytes = 4096, more = 1"})
    expectRefusedWith(table("'scan'", numbers, "'ring'"), cannotBe);
  for (const char* name :
       {"''", "'a b'", "4", "\"a\\\"b\"", "'Ring'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"}) {
    expectRefusedWith(table(name, good, "'ring'"), cannotBe);
    expectRefusedWith(table("'scan'", good, name), cannotBe);
  }
  expectRefusedWith("\nprefer = 4", "a.txt, line 2: prefer is not an array of tables");
  expectRefusedWith("\nprefer = [4]", cannotBe);
}

TEST(TuningFile, IsReadOrNamed) {
  const std::string path = testing::TempDir() + "tutti-tuning-test.txt";
  Tuning tuning;
  tuning.networkMicroseconds = 7;
  std::ofstream(path) << tuning.text();
  EXPECT_EQ(Tuning::read(path), tuning);
  std::ofstream(path) << std::string(600'000, '#');
  const std::string pipe = path + ".pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& wrong : {path, path + ".missing", testing::TempDir(), pipe}) {
    const auto outcome = tests::outcomeOf([&] { Tuning::read(wrong); });
    EXPECT_EQ(outcome.code, ErrorCode::InvalidArgument) << wrong;
    EXPECT_NE(outcome.text.find(wrong), std::string::npos) << outcome.text;
  }
  std::remove(path.c_str());
  std::remove(pipe.c_str());
}

}  // namespace
}  // namespace tutti::topology
