// Rung 7: every collective and every factor of a training is left out, and doubled, and some rung
// sees it.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "parallel/engine/agreement.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/samples/sample.h"
#include "tests/parallel/parity/one_step.h"
#include "tests/parallel/parity/overflow.h"
#include "tests/parallel/parity/rungs.h"
#include "tests/parallel/parity/scoped_mutation.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

/// A rung under a small layout. What it compares with was computed before, without a mutation.
struct Trial {
  std::function<Finding()> run;
  /// It sees every mutation of a purpose that it passes and that is not idle.
  bool seesAll = true;
};

Trial stepTrial(const LadderModel& model, const Arrangement& layout) {
  return {[model, layout, one = wholeStep(model, arrangement(""), {})] {
    return float64Step(one, model, layout, {});
  }};
}

constexpr GptOptions kGpt{.vocabulary = 256, .context = 7, .layers = 1, .width = 16, .heads = 2};

/// Two steps, which are clipped.
Trial stepsTrial(const Arrangement& layout, int64_t layers = 1,
                 const std::optional<LossScaling>& lossScaling = {}) {
  GptOptions model = kGpt;
  model.layers = layers;
  const RunOptions options{
      .types = DType::Float64, .model = model, .steps = 2, .clip = 0.1, .lossScaling = lossScaling};
  return {[layout, options, one = run(options)[0]] {
    return float64Steps(one, layout.name, under(layout, options));
  }};
}

/// Two steps of a model with experts, which drop something where they have a capacity.
Trial expertsTrial(const Arrangement& layout, double capacityFactor = 0) {
  LlamaOptions model{
      .context = 7,
      .layers = 1,
      .width = 16,
      .heads = 2,
      .kvHeads = 2,
      .inner = 5,
      .experts = {.count = 4, .capacityFactor = capacityFactor, .auxLoss = 0.1, .zLoss = 0.02}};
  const RunOptions options{.types = DType::Float64, .model = model, .steps = 2, .clip = 0.1};
  return {[layout, options, one = run(options)[0]] {
    return float64Steps(one, layout.name + ", experts", under(layout, options));
  }};
}

/// The logits of a text, whole on all ranks.
std::vector<double> logitsOf(DeviceMesh& mesh, const GptOptions& options) {
  HostKernels kernels;
  Gpt model(options);
  Engine engine(mesh, kernels, model, {.types = DType::Float64});
  std::vector<int32_t> ids{3, 1, 4, 1, 5};
  const Tensor logits = engine.logits(Tensor(ids.data(), DType::Int32, {1, 5}));
  return {logits.as<double>(), logits.as<double>() + logits.count()};
}
/// Of a vocabulary that two ranks cut evenly, or not; or of two stages.
Trial logitsTrial(const std::string& shape, int64_t vocabulary, int64_t layers = 1) {
  GptOptions model = kGpt;
  model.vocabulary = vocabulary;
  model.layers = layers;
  DeviceMesh alone;
  return {[shape, model, one = logitsOf(alone, model)] {
    Finding finding{"logits", message(shape, ", a vocabulary of ", model.vocabulary)};
    for (const auto& many : onRanks(MeshShape::parse(shape), false,
                                    [&](DeviceMesh& mesh) { return logitsOf(mesh, model); }))
      for (size_t i = 0; i < one.size(); ++i)
        finding.note(std::fabs(many[i] - one[i]), 1e-12, "a logit");
    return finding;
  }};
}

Layout rows() { return {.dims = {AxisList{Axis::Tensor}}, .partial = {}}; }
Layout columns() { return {.dims = {AxisList{}, AxisList{Axis::Tensor}}, .partial = {}}; }
Layout summands() { return {.dims = {}, .partial = {Axis::Tensor}}; }

/// Element i of the whole is i + 1; of summands the first rank has 3, the others share the rest.
Tensor partOfWhole(DeviceMesh& mesh, const Shape& global, const Layout& layout, Arena& memory) {
  const Box box = boxOf(global, layout, mesh.shape(), mesh.place());
  Tensor part = memory.allocate(DType::Float64, extentsOf(box));
  forEachRun(wholeOf(global), box, [&](const BoxRun& r) {
    for (int64_t i = 0; i < r.count; ++i) {
      const auto whole = static_cast<double>(r.from + i + 1);
      const bool cut = !layout.partial.empty();
      part.as<double>()[r.to + i] = !cut               ? whole
                                    : mesh.rank() == 0 ? 3
                                                       : (whole - 3) / (mesh.ranks() - 1);
    }
  });
  part.layout = layout;
  return part;
}

/// A tensor from one layout to another, over 2 ranks.
Trial movingTrial(const Shape& global, const Layout& from, const Layout& to) {
  return {[=] {
    Finding finding{"layouts", from.describe(2) + " to " + to.describe(2)};
    for (const double wrong :
         onRanks(MeshShape::parse("tp=2"), false, [&](DeviceMesh& mesh) -> double {
           Arena memory("test");
           const Tensor moved =
               rearranged(mesh, partOfWhole(mesh, global, from, memory), global, to, memory);
           const Tensor right = partOfWhole(mesh, global, to, memory);
           return !std::equal(right.as<double>(), right.as<double>() + right.count(),
                              moved.as<double>());
         }))
      finding.note(wrong, 0, "the part of a rank");
    return finding;
  }};
}

/// What sees the exchanges of checks and of checkpoints. These compare what they trained with
/// itself.
std::vector<Trial> checkTrials() {
  return {{[] {
             return corruptedReplica(arrangement("fsdp=2,tp=2", zero(1)), ladderLlama(4, 2).options,
                                     "finalNorm.weight", Copy::Master);
           },
           false},
          {[] {
             const tests::TemporaryFolder folder;
             RunOptions first = under(arrangement("fsdp=2", zero(3)), {.adam = true});
             first.saveTo = folder.path();
             run(first);
             return loadedAndSaved(first.saveTo, "fsdp=2, zero 3 to dp=2,tp=2",
                                   under(arrangement("dp=2,tp=2"), {.adam = true}));
           },
           false}};
}

/// Only one rank was asked to end, and all know it.
Trial requestTrial() {
  return {[] {
    Finding finding{"requests", "of one rank of four"};
    for (const int64_t largest :
         onRanks(MeshShape::parse("dp=2,pp=2"), false, [](DeviceMesh& mesh) {
           return largestOf(mesh.communicator(AxisSet::all()), mesh.rank() == 2 ? 15 : 0);
         }))
      finding.note(std::fabs(static_cast<double>(largest) - 15), 0, "the largest of a rank");
    return finding;
  }};
}

/// On a rank whose norms, which another rank has too, are not counted. What it has no sum of the
/// others for is not seen: it compares nothing.
Trial overflowTrial() {
  return {[] { return overflowOnOneRank(arrangement("tp=2"), kRunGpt, 1, HUGE_VAL); }, false};
}

std::vector<Trial> trials() {
  std::vector<Trial> all = checkTrials();
  all.push_back(requestTrial());
  for (const Shape& global : {Shape{4, 6}, Shape{5, 7}})
    for (const auto& [from, to] : {std::pair{summands(), Layout{}},
                                   {summands(), rows()},
                                   {rows(), Layout{}},
                                   {rows(), columns()}})
      all.push_back(movingTrial(global, from, to));
  for (const int64_t vocabulary : {37, 38}) all.push_back(logitsTrial("tp=2", vocabulary));
  all.push_back(logitsTrial("pp=2", 37, 2));
  all.push_back(logitsTrial("cp=2", 37));
  const LadderModel gpt = ladderGpt(4), llama = ladderLlama(4, 2);
  for (const std::string mesh : {"dp=2", "dp=4", "ep=2"})
    all.push_back(stepTrial(gpt, arrangement(mesh)));
  for (const Arrangement& layout : sharings("fsdp=2")) all.push_back(stepTrial(gpt, layout));
  for (const int stage : {1, 2, 3})
    all.push_back(stepTrial(gpt, arrangement("dp=2,fsdp=2", zero(stage))));
  // Of 14 tokens 2 ranks have 7 each, 4 ranks 3 or 4.
  for (const bool sequence : {false, true}) {
    for (const std::string mesh : {"tp=2", "tp=4", "dp=2,tp=2"})
      all.push_back(stepTrial(gpt, arrangement(mesh, zero(0), sequence)));
    all.push_back(stepTrial(llama, arrangement("tp=2,rep=2", zero(0), sequence)));
    all.push_back(stepTrial(llama, arrangement("fsdp=2,tp=2", zero(sequence ? 3 : 1), sequence)));
  }
  for (const LadderModel& model : {gpt, llama}) {
    all.push_back(stepTrial(model, arrangement("cp=2")));
    all.push_back(stepTrial(model, exchanging(arrangement("cp=2"))));
  }
  all.push_back(stepTrial(llama, arrangement("cp=3,tp=2", zero(0), true)));
  all.push_back(stepTrial(llama, exchanging(arrangement("cp=4"))));
  all.push_back(stepTrial(ladderBranches(4, Branches::Placed), arrangement("tp=2")));
  for (const std::string mesh : {"dp=2", "tp=2", "cp=2"})
    all.push_back(stepsTrial(arrangement(mesh)));
  all.push_back(stepsTrial(arrangement("ep=2")));
  all.push_back(overflowTrial());
  all.push_back(stepsTrial(arrangement("dp=2,tp=2"), 1, LossScaling{}));
  all.push_back(stepsTrial(arrangement("pp=2"), 2));
  for (const bool sequence : {false, true})
    all.push_back(expertsTrial(arrangement(sequence ? "ep=2,tp=2" : "ep=2", zero(0), sequence)));
  for (const double capacityFactor : {0.0, 0.8})
    all.push_back(expertsTrial(arrangement("cp=2,ep=2"), capacityFactor));
  return all;
}

std::vector<Change> changesOf(Purpose purpose) {
  const PurposeResult result = rowOf(purpose).result;
  const bool doubles = result == PurposeResult::Values || result == PurposeResult::Counts ||
                       result == PurposeResult::Factor;
  return doubles ? std::vector{Change::Drop, Change::Double} : std::vector{Change::Drop};
}

/// What was seen of a mutation; empty if nothing.
std::string seen(const Trial& trial, const Mutation& mutation) {
  const ScopedMutation made(mutation);
  try {
    const Finding finding = trial.run();
    return finding.within() ? "" : finding.describe();
  } catch (const std::exception& error) {
    return std::string("thrown: ") + error.what();
  }
}

using Form = std::pair<Purpose, PurposeForm>;
using Forms = std::set<Form>;

Forms formsPassed(const Trial& trial) {
  const ScopedMutation counting;
  expectWithin(trial.run());
  Forms forms;
  for (const auto& [purpose, form, count] : counting.passes()) forms.insert({purpose, form});
  return forms;
}

/// Checks are not seen where all is right, the verdict on overflows where all ranks have seen them,
/// and the scale of clipping where no step is taken.
bool isIdle(Purpose purpose) {
  return purpose == Purpose::ReplicaHashes || purpose == Purpose::ReplicaVerdict ||
         purpose == Purpose::OverflowVerdict || purpose == Purpose::ClippingScale;
}

class Mutations {
 public:
  /// Tries all mutations of the purposes that it passes.
  void attempt(const Trial& trial) {
    const Forms forms = formsPassed(trial);
    std::set<Purpose> purposes;
    for (const auto& [purpose, form] : forms) purposes.insert(purpose);
    for (const Purpose purpose : purposes)
      for (const Change change : changesOf(purpose)) attempt(trial, forms, {purpose, change});
  }
  /// All that were passed were seen, and all there are were passed, in the forms of the table.
  void expectAllSeen() const {
    for (const PurposeRow& row : kPurposes) {
      EXPECT_GT(formsOf(row.purpose), 0) << "no trial passes: " << row.name;
      for (int i = 0; i < kPurposeFormCount; ++i) {
        const auto form = static_cast<PurposeForm>(i);
        EXPECT_EQ(seen_.contains({row.purpose, form}), row.forms.contains(form))
            << row.name << ": " << toString(form);
      }
    }
    for (const auto& [form, changes] : seen_)
      for (const Change change : changesOf(form.first))
        EXPECT_TRUE(changes.contains(change)) << "nothing sees " << describe({form.first, change})
                                              << " (" << toString(form.second) << ")";
  }
  int formsOf(Purpose purpose) const {
    int count = 0;
    for (const auto& [form, changes] : seen_) count += form.first == purpose;
    return count;
  }

 private:
  static std::string describe(const Mutation& mutation) {
    return std::string(mutation.change == Change::Drop ? "dropped: " : "doubled: ") +
           toString(mutation.purpose);
  }
  void attempt(const Trial& trial, const Forms& forms, const Mutation& mutation) {
    const std::string what = parallel::seen(trial, mutation);
    std::printf("  %s\n    %s\n", describe(mutation).c_str(),
                what.empty() ? "not seen here" : what.c_str());
    EXPECT_TRUE(!what.empty() || !trial.seesAll || isIdle(mutation.purpose)) << describe(mutation);
    for (const Form& form : forms)
      if (form.first == mutation.purpose)
        if (std::set<Change>& changes = seen_[form]; !what.empty()) changes.insert(mutation.change);
  }

  std::map<Form, std::set<Change>> seen_;  // by what
};

TEST(Mutations, AreSeenBySomeRung) {
  Mutations mutations;
  for (const Trial& trial : trials()) mutations.attempt(trial);
  mutations.expectAllSeen();
  // In one step there are an AllReduce, a ReduceScatter, or one of uneven blocks; and AllGathers.
  for (const Purpose sum :
       {Purpose::EmbeddingSum, Purpose::AttentionSum, Purpose::MlpSum,
        Purpose::AttentionGradientSum, Purpose::MlpGradientSum, Purpose::HeadGradientSum})
    EXPECT_EQ(mutations.formsOf(sum), 3) << toString(sum);
  for (const Purpose rows :
       {Purpose::AttentionRows, Purpose::MlpRows, Purpose::HeadRows, Purpose::AttentionRowsAgain,
        Purpose::MlpRowsAgain, Purpose::HeadRowsAgain, Purpose::AttentionGradientRows,
        Purpose::MlpGradientRows, Purpose::EmbeddingGradientRows})
    EXPECT_EQ(mutations.formsOf(rows), 2) << toString(rows);
  EXPECT_EQ(mutations.formsOf(Purpose::LogitGather), 2);
  EXPECT_EQ(mutations.formsOf(Purpose::SampleTensor), 7);
}

}  // namespace
}  // namespace tutti::parallel
