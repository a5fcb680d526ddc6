#include "parallel/samples/train_gpt/train_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "parallel/engine/engine.h"

namespace tutti::parallel {

namespace {

/// 0 when there is none: that is refused where it is read.
double textBytes(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<double>(bytes);
}

/// The model of a context that the text can fill; a longer one is refused where the text is read,
/// with a message that is about the text.
GptOptions filledModel(const TrainOptions& options, double bytes) {
  GptOptions model = options.model;
  if (bytes > 0 && bytes < static_cast<double>(model.context))
    model.context = static_cast<int64_t>(bytes);
  return model;
}

std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g GB", bytes / 1e9);
  return text;
}

/// The largest part of it, by the flags that make it.
std::string largestPart(const TrainMemory& memory, const TrainOptions& o) {
  const std::string sizes = message("--layers ", o.model.layers, ", --width ", o.model.width,
                                    ", --context ", o.model.context);
  if (memory.text >= std::max(memory.model, memory.passes))
    return message(gigabytes(memory.text), " of it for the text ", o.text);
  if (memory.model >= memory.passes)
    return message(gigabytes(memory.model), " of it for the model (", sizes, ", --optimizer ",
                   o.optimizer, ")");
  return message(gigabytes(memory.passes), " of it for a micro-batch (--batch ", o.batch, ", ",
                 sizes, ")");
}

}  // namespace

TrainMemory trainMemory(const TrainOptions& options, int ranks) {
  TrainMemory memory{.text = options.text.empty() ? 0 : textBytes(options.text)};
  const GptOptions model = filledModel(options, memory.text);
  const int groups =
      checkReductionGroups(options.microBatches, batchRanks(options, ranks), options.deterministic);
  const int64_t sequences = (options.batch + groups - 1) / groups;
  const double tokens = static_cast<double>(sequences) * static_cast<double>(model.context);
  const ShardPolicy policy = policyOf(options);
  const double shared = 1.0 / meshOf(options, ranks)[Axis::Fsdp];
  const double moments = options.optimizer == "sgd" ? 0 : options.optimizer == "momentum" ? 1 : 2;
  const double gradient = static_cast<double>(sizeOf(options.gradients)) / sizeof(float);
  // Files lie in memory only as far as there is room.
  const auto copy = [&](bool sharedOut, Place place) {
    return place == Place::File ? 0 : sharedOut ? shared : 1;
  };
  const double copies = copy(policy.parameters, policy.offload.parameters) +
                        gradient * copy(policy.gradients, policy.offload.gradients) +
                        moments * copy(policy.optimizer, policy.offload.optimizer);
  const double all = options.llama ? parameterCount(*options.llama) : parameterCount(model);
  const double experts =
      options.llama ? expertParameterCount(*options.llama) : expertParameterCount(model);
  const double parameters = all - experts + experts / options.ep;
  // Of several stages a mean: the first ones hold more micro-batches, the last one has the logits.
  memory.model = parameters / options.tp / options.pp * copies * sizeof(float);
  // Of a Llama at least the logits.
  const double saved = options.llama ? static_cast<double>(options.llama->vocabulary) / options.tp
                                     : savedPerToken(model, options.tp);
  memory.passes =
      tokens / options.cp * saved / options.pp * static_cast<double>(sizeOf(options.type));
  return memory;
}

void checkMemory(const TrainOptions& options, const MachineMemory& machine) {
  if (options.device == "cuda") return;  // whose memory says itself what does not fit
  const TrainMemory memory = trainMemory(options, machine.ranks);
  const double needed = memory.total() * machine.ranksHere;
  if (needed > machine.bytes)
    fail(ErrorCode::OutOfMemory, "each rank needs at least ", gigabytes(memory.total()), ", ",
         largestPart(memory, options), "; this machine has ", gigabytes(machine.bytes), " for ",
         machine.ranksHere, machine.ranksHere == 1 ? " rank" : " ranks");
}

// Not what a container may have: a training that meets that limit may still be stopped by it.
double machineMemoryBytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace tutti::parallel
