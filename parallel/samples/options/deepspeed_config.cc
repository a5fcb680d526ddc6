#include "parallel/samples/options/deepspeed_config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "parallel/checkpoint/file.h"
#include "parallel/checkpoint/json.h"
#include "parallel/samples/options/config_file.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

constexpr int64_t kMostSequences = 1'000'000;  // of a batch: far above all use
constexpr int64_t kMostSteps = 1'000'000'000, kMostPatience = 1'000'000;
constexpr double kMostElements = 1'000'000'000'000;  // of a bucket

/// Counts of elements are often written as 5e8.
int64_t elements(Members& members, const char* key) {
  const double value = members.number(key);
  require(value >= 1 && value <= kMostElements && value == std::floor(value), members.place(key),
          ": ", value, " is no number of elements");
  return static_cast<int64_t>(value);
}

double notNegative(Members& members, const char* key) {
  const double value = members.number(key);
  require(value >= 0 && std::isfinite(value), members.place(key), ": ", value, " is below 0");
  return value;
}

/// Takes those of `keys` that are there, and notes that they are without effect.
void passOver(Members& members, std::initializer_list<const char*> keys, DeepSpeedConfig& config) {
  for (const char* key : keys)
    if (members.has(key)) {
      members.take(key);
      config.notes.push_back(members.place(key) + " has no effect here");
    }
}

/// Takes an object that may be missing.
template <class Read>
void within(Members& members, const char* key, const Read& read) {
  if (!members.has(key)) return;
  Members inner(members.place(key), members.object(key));
  read(inner);
  inner.finish();
}

void readOffload(Members& members, Place& place, DeepSpeedConfig& config) {
  const std::string device = members.has("device") ? members.text("device") : "none";
  const std::string folder = members.has("nvme_path") ? members.text("nvme_path") : "";
  passOver(members, {"pin_memory", "buffer_count", "buffer_size", "max_in_cpu", "fast_init"},
           config);
  if (device == "none") return;
  if (device == "cpu") {
    place = Place::Host;
    return;
  }
  require(device == "nvme", members.place("device"), ": ", inQuotes(device),
          " is neither none, cpu nor nvme");
  require(!folder.empty(), members.place("nvme_path"), ": nvme needs a folder");
  std::string& known = config.policy.offload.folder;
  require(known.empty() || known == folder, members.place("nvme_path"), ": ", inQuotes(folder),
          " and ", inQuotes(known), " are two folders: there is one for all that is in files");
  known = folder;
  place = Place::File;
}

void readZero(Members& members, DeepSpeedConfig& config) {
  ShardPolicy& policy = config.policy;
  if (members.has("stage"))
    policy = ShardPolicy::zero(static_cast<int>(members.whole("stage", 0, 3)));
  if (members.has("reduce_bucket_size")) {
    policy.bucketBytes = static_cast<size_t>(elements(members, "reduce_bucket_size")) *
                         sizeOf(config.types.gradients);
    policy.firstBucketBytes = std::min(policy.firstBucketBytes, policy.bucketBytes);
  }
  if (members.has("allgather_bucket_size")) {
    elements(members, "allgather_bucket_size");
    config.notes.push_back(members.place("allgather_bucket_size") +
                           " has no effect here: weights are gathered a block at a time");
  }
  within(members, "offload_optimizer", [&](Members& offload) {
    readOffload(offload, policy.offload.optimizer, config);
    require(policy.optimizer || policy.offload.optimizer == Place::Device,
            members.place("offload_optimizer"), ": stage 0 shares out no state");
  });
  within(members, "offload_param", [&](Members& offload) {
    readOffload(offload, policy.offload.parameters, config);
    require(policy.parameters || policy.offload.parameters == Place::Device,
            members.place("offload_param"), ": only stage 3 shares out parameters");
  });
  passOver(members,
           {"overlap_comm", "contiguous_gradients", "reduce_scatter", "allgather_partitions",
            "round_robin_gradients", "sub_group_size", "stage3_prefetch_bucket_size",
            "stage3_max_live_parameters", "stage3_max_reuse_distance",
            "stage3_param_persistence_threshold"},
           config);
}

void readAdam(Members& params, DeepSpeedConfig& config) {
  AdamWOptions& adam = config.adamW;
  if (params.has("betas")) {
    const Json& betas = params.list("betas");
    const auto isBeta = [](const Json& b) {
      return b.is_number() && b.get<double>() >= 0 && b.get<double>() < 1;
    };
    require(betas.size() == 2 && std::ranges::all_of(betas, isBeta), params.place("betas"),
            ": these are not two numbers from 0 to below 1");
    adam.beta1 = betas[0].get<double>();
    adam.beta2 = betas[1].get<double>();
  }
  if (params.has("eps")) adam.epsilon = notNegative(params, "eps");
  if (params.has("weight_decay")) adam.weightDecay = notNegative(params, "weight_decay");
  require(!params.has("adam_w_mode") || params.flag("adam_w_mode"), params.place("adam_w_mode"),
          ": only AdamW is here, whose decay is decoupled");
  passOver(params, {"torch_adam"}, config);
}

void readSgd(Members& params, SgdOptions& sgd) {
  if (params.has("momentum")) sgd.momentum = notNegative(params, "momentum");
  if (params.has("weight_decay")) sgd.weightDecay = notNegative(params, "weight_decay");
}

void readOptimizer(Members& members, DeepSpeedConfig& config) {
  const std::string type = members.text("type");
  require(type == "Adam" || type == "AdamW" || type == "SGD", members.place("type"), ": ",
          inQuotes(type), " is neither AdamW (also called Adam there) nor SGD");
  config.optimizer = type == "SGD" ? type : "AdamW";
  within(members, "params", [&](Members& params) {
    if (params.has("lr")) config.learningRate = notNegative(params, "lr");
    if (config.optimizer == "SGD")
      readSgd(params, config.sgd);
    else
      readAdam(params, config);
  });
}

bool enabled(Members& members) { return members.has("enabled") && members.flag("enabled"); }

/// A power of two: what it scales is not rounded by it.
double powerOfTwo(Members& members, const char* key) {
  const double value = notNegative(members, key);
  int exponent = 0;
  require(value == 0 || std::frexp(value, &exponent) == 0.5, members.place(key), ": ", value,
          " is no power of two");
  return value;
}

/// loss_scale 0 is one that adapts itself, with DeepSpeed's choices.
void readFp16(Members& members, DeepSpeedConfig& config) {
  LossScaling scaling{.growthSteps = 1000, .patience = 2};
  const bool on = enabled(members);
  const double fixed = members.has("loss_scale") ? powerOfTwo(members, "loss_scale") : 0;
  if (members.has("initial_scale_power"))
    scaling.initial = std::ldexp(1, static_cast<int>(members.whole("initial_scale_power", 0, 100)));
  if (members.has("loss_scale_window"))
    scaling.growthSteps = members.whole("loss_scale_window", 1, kMostSteps);
  if (members.has("hysteresis"))
    scaling.patience = static_cast<int>(members.whole("hysteresis", 1, kMostPatience));
  if (members.has("min_loss_scale")) {
    scaling.minimum = powerOfTwo(members, "min_loss_scale");
    require(scaling.minimum > 0 && (fixed > 0 || scaling.minimum <= scaling.initial),
            members.place("min_loss_scale"), ": ", scaling.minimum,
            " is not between 0 and the first loss scale, ", scaling.initial);
  }
  if (fixed > 0) scaling = {.initial = fixed, .growthSteps = 0, .minimum = fixed};
  require(!members.has("consecutive_hysteresis") || !members.flag("consecutive_hysteresis"),
          members.place("consecutive_hysteresis"),
          ": overflows are counted since the loss scale grew, whatever comes between them");
  passOver(members, {"auto_cast"}, config);
  if (!on) return;
  config.types = DType::Float16;
  config.lossScaling = scaling;
}

}  // namespace

DeepSpeedConfig readDeepSpeedConfig(const std::filesystem::path& path) {
  const Json json = parseJson(path.string(), readText(path, kMostConfigBytes));
  Members members(path.string(), json);
  DeepSpeedConfig config;
  const auto sequences = [&](const char* key, int64_t& value) {
    if (members.has(key)) value = members.whole(key, 1, kMostSequences);
  };
  sequences("train_batch_size", config.trainBatch);
  sequences("train_micro_batch_size_per_gpu", config.microBatch);
  sequences("gradient_accumulation_steps", config.accumulation);
  within(members, "fp16", [&](Members& fp16) { readFp16(fp16, config); });
  within(members, "bf16", [&](Members& bf16) {
    if (!enabled(bf16)) return;
    require(!config.lossScaling, bf16.place("enabled"), ": fp16 is enabled too");
    config.types = DType::BFloat16;
  });
  within(members, "zero_optimization", [&](Members& zero) { readZero(zero, config); });
  within(members, "optimizer", [&](Members& optimizer) { readOptimizer(optimizer, config); });
  if (members.has("gradient_clipping")) config.clip = notNegative(members, "gradient_clipping");
  passOver(members, {"steps_per_print", "wall_clock_breakdown", "dump_state"}, config);
  members.finish();
  return config;
}

DeepSpeedBatch batchOn(const DeepSpeedConfig& config, int ranks) {
  const int64_t all = config.trainBatch, micro = config.microBatch;
  require(all > 0 || micro > 0, "train_batch_size or train_micro_batch_size_per_gpu must be given");
  const int64_t perMicroBatch = micro * ranks;  // over all ranks
  const int64_t accumulation = config.accumulation > 0 ? config.accumulation
                               : all > 0 && micro > 0  ? all / perMicroBatch
                                                       : 1;
  const int64_t microBatches = accumulation * ranks;
  const int64_t sequences = all > 0 ? all : micro * microBatches;
  require(
      microBatches > 0 && sequences % microBatches == 0 &&
          (micro == 0 || sequences == micro * microBatches),
      "train_batch_size ", sequences, " is not ",
      micro > 0 ? message("train_micro_batch_size_per_gpu ", micro, " times ") : "a multiple of ",
      "gradient_accumulation_steps ", accumulation, " times ", ranks,
      ranks == 1 ? " rank" : " ranks");
  require(microBatches <= std::numeric_limits<int>::max(), microBatches,
          " micro-batches are too many");
  return {sequences, static_cast<int>(microBatches)};
}

std::unique_ptr<Optimizer> DeepSpeedConfig::makeOptimizer() const {
  return optimizer == "SGD" ? makeSgd(sgd) : makeAdamW(adamW);
}

}  // namespace tutti::parallel
