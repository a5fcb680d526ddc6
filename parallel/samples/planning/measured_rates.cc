#include "parallel/samples/planning/measured_rates.h"

#include <algorithm>
#include <ctime>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/kernels/host/host_kernels.h"
#include "parallel/samples/device_time.h"

namespace tutti::parallel {

namespace {

constexpr int kTimings = 9;
// The largest that is measured for ranks that are not there.
constexpr int64_t kLayersHere = 8, kWidthHere = 512, kHeadsHere = 8, kTokensHere = 256;

using Call = std::function<void(Kernels&)>;

/// That the thread has had of any core.
double coreSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Of a core, or of a GPU.
double secondsOf(const Call& call, SampleRank& rank) {
  if (rank.mesh.stream()) return timeOnDevice(rank.mesh, [&] { call(rank.kernels); }).count();
  const double begin = coreSeconds();
  call(rank.kernels);
  return coreSeconds() - begin;
}

/// Of what ranks share that computes: cores, or GPUs, which they take in turn.
int unitsHere(const DeviceMesh& mesh) {
  if (mesh.stream()) return deviceCount(mesh.device().kind);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// What one sequence goes through in a layer, and what the calls are made of.
class Calls {
 public:
  Calls(const GptOptions& model, int64_t tokens, DType type, SampleRank& rank)
      : kernels_(rank.kernels),
        type_(type),
        tokens_(tokens),
        width_(model.width),
        heads_(model.heads),
        arena_("measured", rank.mesh.backing()),
        scratch_("scratch", rank.mesh.backing()) {
    const Tensor x = matrix(width_), y = matrix(width_), dx = matrix(width_);
    const Tensor inner = matrix(4 * width_), dInner = matrix(4 * width_);
    const Tensor w = make({width_, 4 * width_}), dw = make({width_, 4 * width_});
    const Tensor row = make({width_}), dRow = make({width_}), innerRow = make({4 * width_});
    const Tensor mean = makeKept({tokens_}), rstd = makeKept({tokens_});
    // An MLP's, with their epilogues: a product is as fast as these are together.
    add("gemm", [=](Kernels& k) {
      k.gemm({.a = x,
              .b = w,
              .c = dInner,
              .epilogue = {.activation = Activation::Gelu, .inner = inner, .bias = innerRow}});
      k.gemm({.a = dInner,
              .b = w,
              .c = dx,
              .transposeB = true,
              .epilogue = {.bias = row, .residual = x}});
      k.gemm({.a = y,
              .b = w,
              .c = dInner,
              .epilogue = {.activation = Activation::GeluBackward, .inner = inner}});
      k.gemm({.a = dInner, .b = w, .c = dx, .transposeB = true});
      k.gemm({.a = x, .b = dInner, .c = dw, .transposeA = true, .beta = 1});
      k.gemm({.a = y, .b = dInner, .c = dw, .transposeA = true, .beta = 1});
    });
    add("layerNorm", [=](Kernels& k) { k.layerNorm({x, row, row, y, mean, rstd}); });
    add("layerNormBackward", [=](Kernels& k) {
      k.layerNormBackward({x, y, row, mean, rstd, {}, dx});
    });
    add("layerNormWeights", [=](Kernels& k) {
      k.layerNormWeights({x, y, mean, rstd, row, dRow, 1, 1});
    });
    add("gelu", [=](Kernels& k) { k.gelu(inner, dInner); });
    add("geluBackward", [=](Kernels& k) { k.geluBackward(inner, dInner, dInner); });
    add("addBias", [=](Kernels& k) { k.addBias(innerRow, inner); });
    add("biasGradient", [=](Kernels& k) { k.biasGradient(dInner, innerRow, 1); });
    add("add", [=](Kernels& k) { k.add(x, dx); });
    add("copy", [=](Kernels& k) { k.copy(w, dw); });
    add("fillZero", [=](Kernels& k) { k.fillZero(dw); });
    addOptimizers(w, dw);
    addAttention();
  }

  const std::vector<std::pair<std::string, Call>>& all() const { return calls_; }

 private:
  void add(const char* kernel, Call call) { calls_.emplace_back(kernel, std::move(call)); }
  Tensor make(const Shape& shape) { return make(shape, type_); }
  /// Of what stays float32 where weights have 16 bits.
  Tensor makeKept(const Shape& shape) { return make(shape, statisticsType(type_)); }
  Tensor make(const Shape& shape, DType type) {
    const Tensor x = arena_.allocate(type, shape);
    kernels_.fillZero(x);
    return x;
  }
  Tensor matrix(int64_t width) { return make({tokens_, width}); }

  void addOptimizers(const Tensor& w, const Tensor& dw) {
    const Tensor master = isNarrow(type_) ? makeKept(w.shape) : w;
    const Tensor copy = isNarrow(type_) ? w : Tensor();
    const Tensor first = makeKept(w.shape), second = makeKept(w.shape);
    add("adamW", [=](Kernels& k) {
      const AdamWTensors one{
          .weight = master, .gradient = dw, .first = first, .second = second, .copy = copy};
      k.adamW({.tensors = {&one, 1}});
    });
    add("sgd", [=](Kernels& k) {
      const SgdTensors one{.weight = master, .gradient = dw};
      k.sgd({.tensors = {&one, 1}, .learningRate = 0.01});
    });
    add("addSquares", [=](Kernels& k) {
      ExactSum sum;
      k.addSquares({&dw, 1}, sum);
    });
  }
  void addAttention() {
    const Tensor qkv = make({1, tokens_, 3 * width_}), dQkv = make({1, tokens_, 3 * width_});
    const Tensor out = make({1, tokens_, width_}), dOut = make({1, tokens_, width_});
    const Tensor sums = makeKept({1, heads_, tokens_});
    add("attention", [=, this](Kernels& k) {
      k.attention({qkv, out, sums, heads_, heads_}, scratch_);
    });
    add("attentionBackward", [=, this](Kernels& k) {
      k.attentionBackward({dOut, qkv, out, sums, dQkv, heads_, heads_}, scratch_);
    });
  }

  Kernels& kernels_;
  const DType type_;
  const int64_t tokens_, width_, heads_;
  Arena arena_, scratch_;
  std::vector<std::pair<std::string, Call>> calls_;
};

/// From the turns' times of so many layers. What is not measured moves bytes as the others do;
/// attention over blocks of sequences is as fast as over whole ones.
void setRates(DeviceRates& rates, const Calls& layer, double layers,
              const std::map<std::string, std::vector<double>>& seconds) {
  double bytes = 0, ofBytes = 0;
  for (const auto& [kernel, call] : layer.all()) {
    DryKernels counted;
    call(counted);
    const KernelCount count = counted.total();
    const double taken = median(seconds.at(kernel)) / layers;
    if (count.gemmFlops > 0) {
      rates.byKernel[kernel].flopsPerSecond = count.gemmFlops / taken;
      continue;
    }
    const auto moved = static_cast<double>(count.bytesRead + count.bytesWritten);
    rates.byKernel[kernel].bytesPerSecond = moved / taken;
    bytes += moved;
    ofBytes += taken;
  }
  rates.any.bytesPerSecond = bytes / ofBytes;
  rates.byKernel["attentionBlock"] = rates.byKernel["attention"];
  rates.byKernel["attentionBlockBackward"] = rates.byKernel["attentionBackward"];
}

}  // namespace

/// Layers have memory of their own each, and go by in turn, as they do in a step: what a kernel
/// finds in a cache is what it finds there.
DeviceRates measuredRates(SampleRank& rank, int64_t tokens, DType type) {
  const int units = unitsHere(rank.mesh);
  // On a GPU collectives have streams of their own.
  DeviceRates rates{.cores = units, .overlaps = rank.mesh.stream() || rank.mesh.ranks() < units};
  std::list<Calls> layers;
  for (int64_t i = 0; i < rank.options.model.layers; ++i)
    layers.emplace_back(rank.options.model, tokens, type, rank);
  std::map<std::string, std::vector<double>> seconds;  // by kernel, of all layers in a turn
  for (int turn = 0; turn < kTimings; ++turn) {
    if (MeshCommunicator* all = rank.mesh.communicator(AxisSet::all())) all->barrier();
    for (auto& [kernel, turns] : seconds) turns.push_back(0);
    for (const Calls& layer : layers)
      for (const auto& [kernel, call] : layer.all()) {
        auto& turns = seconds.try_emplace(kernel, 1).first->second;
        turns.back() += secondsOf(call, rank);
      }
  }
  setRates(rates, layers.front(), double(layers.size()), seconds);
  return rates;
}

DeviceRates ratesHere(SampleOptions options, int ranks, DType type) {
  GptOptions& model = options.model;
  if (model.width > kWidthHere) {
    model.width = kWidthHere;
    model.heads = kHeadsHere;
  }
  model.layers = std::min(model.layers, kLayersHere);
  DeviceMesh alone;
  HostKernels kernels;
  SampleRank rank(alone, kernels, options);
  DeviceRates rates = measuredRates(rank, std::min(model.context, kTokensHere), type);
  rates.overlaps = ranks < rates.cores;
  return rates;
}

}  // namespace tutti::parallel
