#include "tests/parallel/parity/rungs.h"

#include <cstring>
#include <numeric>

#include "parallel/checkpoint/checkpoint_reader.h"
#include "parallel/checkpoint/names.h"
#include "parallel/kernels/host/host_kernels.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {

namespace {

template <class T>
T elementOf(const std::vector<char>& bytes, size_t i) {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// The length of the difference of all elements, which are of these types.
template <class A, class B = A>
double distance(const Values& from, const Values& to) {
  double squares = 0;
  for (size_t p = 0; p < from.size(); ++p)
    for (size_t i = 0; i < from[p].size() / sizeof(A); ++i) {
      const double d = double{elementOf<B>(to[p], i)} - double{elementOf<A>(from[p], i)};
      squares += d * d;
    }
  return std::sqrt(squares);
}

double relative(double value, double expected) { return std::fabs(value / expected - 1); }

void compareEach(Finding& finding, const std::vector<double>& one, const std::vector<double>& many,
                 double bound, const std::string& what) {
  finding.demand(one.size() == many.size(), "the number of steps");
  for (size_t i = 0; i < std::min(one.size(), many.size()); ++i)
    finding.note(relative(many[i], one[i]), bound, message(what, " ", i));
}

/// The share of them that differ.
double shareOfBytes(const std::vector<char>& a, const std::vector<char>& b) {
  if (a == b) return 0;
  if (a.size() != b.size()) return 1;
  size_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) different += a[i] != b[i];
  return static_cast<double>(different) / static_cast<double>(a.size());
}

void compareBits(Finding& finding, const std::vector<std::string>& names, const Values& a,
                 const Values& b, const std::string& what) {
  for (size_t p = 0; p < a.size(); ++p)
    finding.note(shareOfBytes(a[p], b[p]), 0, what + " " + names[p]);
}

}  // namespace

std::vector<RunModel> runModels() {
  return {{"gpt", "tp=4", kRunGpt}, {"llama", "tp=2,rep=2", kRunLlama}};
}

Finding float64Steps(const RunResult& one, const std::string& layout, const RunOptions& options) {
  Finding finding{"rung 1", layout + ", whole steps"};
  const RunResult many = run(options)[0];
  size_t parameter = 0;
  finding.note(worstDifference(one.gradients, many.gradients, &parameter), 1e-12,
               one.names[parameter]);
  finding.note(worstDifference(one.weights, many.weights, &parameter), 1e-12,
               "the weights of " + one.names[parameter]);
  compareEach(finding, one.norms, many.norms, 1e-12, "norm");
  compareEach(finding, one.losses, many.losses, 1e-12, "loss");
  finding.note(relative(many.validation, one.validation), 1e-12, "the validation loss");
  if (one.router.loads.empty()) return finding;
  finding.note(relative(many.router.balance, one.router.balance), 1e-12, "routers' balance");
  finding.note(relative(many.router.z, one.router.z), 1e-12, "routers' z");
  finding.demand(many.router.choices == one.router.choices && many.router.loads == one.router.loads,
                 "what experts got");
  return finding;
}

Float32Reference float32Reference(const RunOptions& options) {
  RunOptions none = options, wide = options;
  none.steps = 0;
  wide.types = DType::Float64;
  Float32Reference reference{
      .first = run(none)[0].weights, .right = run(wide)[0].gradients, .one = run(options)[0]};
  reference.error = distance<double, float>(reference.right, reference.one.gradients);
  reference.clipped = distance<float>(reference.first, reference.one.weights) / kSgdRate;
  return reference;
}

namespace {

/// As near to what is right as twice what one rank is.
void noteGradient(Finding& finding, const Float32Reference& reference, const RunResult& many) {
  finding.note(distance<double, float>(reference.right, many.gradients), 2 * reference.error,
               "the gradient");
}

}  // namespace

Finding float32Step(const Float32Reference& reference, const std::string& layout,
                    const RunOptions& options) {
  Finding finding{"rung 2", layout};
  const RunResult many = run(options)[0];
  noteGradient(finding, reference, many);
  finding.note(relative(many.norms[0], reference.one.norms[0]), 1e-6, "the norm");
  // What is left of it is the length of the step.
  const double clipped = distance<float>(reference.first, many.weights) / kSgdRate;
  finding.note(relative(clipped, reference.clipped), 1e-6, "the norm after clipping");
  return finding;
}

Finding narrowStep(const Float32Reference& reference, const std::string& layout,
                   const RunOptions& options) {
  Finding finding{"rung 2", layout};
  const RunResult many = run(options)[0];
  noteGradient(finding, reference, many);
  return finding;
}

Finding sameBits(const RunResult& one, const std::string& layout, const RunOptions& options) {
  Finding finding{"rung 3", layout};
  const RunResult many = run(options)[0];
  compareEach(finding, one.losses, many.losses, 0, "loss");
  compareEach(finding, one.norms, many.norms, 0, "norm");
  finding.note(relative(many.validation, one.validation), 0, "the validation loss");
  compareBits(finding, one.names, one.weights, many.weights, "the weights of");
  compareBits(finding, one.names, one.gradients, many.gradients, "the gradient of");
  return finding;
}

Finding sameLosses(const RunResult& one, const std::string& layout, const RunOptions& options) {
  Finding finding{"rung 4", layout};
  const RunResult many = run(options)[0];
  for (size_t i = 0; i < one.losses.size(); ++i)
    finding.note(std::fabs(many.losses[i] - one.losses[i]), 1e-5, message("loss ", i));
  finding.note(std::fabs(many.validation - one.validation), 1e-5, "the validation loss");
  return finding;
}

namespace {

constexpr size_t kWindow = 20;  // steps

/// Mean losses of the windows, then the validation loss.
std::vector<double> windowLosses(const RunOptions& options) {
  const RunResult result = run(options)[0];
  std::vector<double> means;
  for (size_t i = 0; i + kWindow <= result.losses.size(); i += kWindow) {
    const auto begin = result.losses.begin() + static_cast<std::ptrdiff_t>(i);
    means.push_back(std::accumulate(begin, begin + kWindow, 0.0) / kWindow);
  }
  means.push_back(result.validation);
  return means;
}

}  // namespace

Band bandOf(const RunOptions& options, const std::vector<uint64_t>& seeds) {
  Band band;
  for (const uint64_t seed : seeds) {
    RunOptions one = options;
    one.seed = seed;
    const std::vector<double> losses = windowLosses(one);
    if (band.least.empty()) band = {losses, losses};
    for (size_t i = 0; i < losses.size(); ++i) {
      band.least[i] = std::min(band.least[i], losses[i]);
      band.most[i] = std::max(band.most[i], losses[i]);
    }
  }
  return band;
}

Finding withinBand(const Band& band, const std::string& layout, const RunOptions& options) {
  Finding finding{"rung 4", layout};
  const std::vector<double> losses = windowLosses(options);
  for (size_t i = 0; i < losses.size(); ++i) {
    const double middle = (band.least[i] + band.most[i]) / 2;
    const bool last = i + 1 == losses.size();
    finding.note(std::fabs(losses[i] - middle), band.most[i] - middle,
                 last ? "the validation loss" : message("steps from ", i * kWindow));
  }
  return finding;
}

std::map<std::string, std::vector<char>> savedTensors(const std::string& root) {
  CheckpointReader reader(*latestCheckpoint(root));
  std::map<std::string, std::vector<char>> all;
  for (const std::string& name : reader.names()) {
    const StoredTensor& stored = reader.tensor(name);
    std::vector<char>& bytes = all[name];
    bytes.resize(byteCount(stored.type, stored.shape));
    reader.read(name, wholeOf(stored.shape), Tensor(bytes.data(), stored.type, stored.shape));
  }
  return all;
}

Finding loadedAndSaved(const std::string& root, const std::string& layouts, RunOptions options) {
  Finding finding{"rung 5", layouts};
  const tests::TemporaryFolder folder;
  options.steps = 0;
  options.loadFrom = latestCheckpoint(root)->string();
  options.saveTo = folder.path();
  run(options);
  const auto saved = savedTensors(root), again = savedTensors(options.saveTo);
  finding.demand(saved.size() == again.size(), "the number of tensors");
  for (const auto& [name, bytes] : saved) {
    const auto found = again.find(name);
    if (found == again.end())
      finding.demand(false, name + " is missing");
    else
      finding.note(shareOfBytes(bytes, found->second), 0, name);
  }
  return finding;
}

Finding corruptedReplica(const Arrangement& layout, const ModelOptions& model,
                         const std::string& parameter, Copy copy) {
  const ModelOptions own = cut(layout, model);
  const auto untold = onRanks(layout.mesh, false, [&](DeviceMesh& mesh) -> int {
    HostKernels kernels;
    const auto made = makeModel(own);
    Engine engine(mesh, kernels, *made, {.policy = layout.policy});
    ParameterStore& store = engine.store();
    store.checkReplicas();
    for (size_t p = 0; p < store.parameterCount(); ++p) {
      const Parameter& its = store.parameter(p);
      if (its.name != parameter) continue;
      if (copy == Copy::Gathered) store.acquire(its.unit, Phase::Forward);
      const Tensor values = copy == Copy::Master ? store.master(its) : store.weight(its);
      // Of a gathered weight, a row that is another rank's.
      const size_t at = mesh.index(Axis::Fsdp) == 0 ? values.bytes() - 1 : 3;
      if (mesh.rank() == 1) static_cast<uint8_t*>(values.data)[at] ^= 1;
      if (copy == Copy::Gathered) store.release(its.unit, Phase::Forward);
    }
    try {
      store.checkReplicas();
      return 1;
    } catch (const Error& error) {
      const bool named = std::string(error.what()).find(parameter) != std::string::npos;
      return error.code() == ErrorCode::Internal && named ? 0 : 1;
    }
  });
  Finding finding{"rung 6", layout.name + ", one bit of " + parameter};
  finding.note(std::accumulate(untold.begin(), untold.end(), 0), 0, "ranks that were not told");
  return finding;
}

}  // namespace tutti::parallel
