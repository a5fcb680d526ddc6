#pragma once

// The command line of train_gpt.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/data/documents.h"
#include "parallel/engine/stages.h"
#include "parallel/nn/model_options.h"
#include "parallel/optim/loss_scale.h"
#include "parallel/samples/options/flags.h"
#include "parallel/sharding/mesh_shape.h"
#include "parallel/store/shard_policy.h"

namespace tutti::parallel {

struct TrainOptions {
  std::string text;       ///< empty: `tokens` are learned
  std::string tokens;     ///< a token file
  std::string tokenizer;  ///< a tokenizer.json; empty: each byte is a token
  bool lines = false;     ///< each is a document
  std::string promptEnd;  ///< of a line: one byte; empty: lines have no prompts
  int ranks = 0;          ///< 0: not given
  int dp = 0, fsdp = 0;   ///< ranks along these axes; 0: not given
  int tp = 1;             ///< ranks of tensor parallelism
  int pp = 1;             ///< ranks of the pipeline
  int cp = 1;             ///< ranks that share out sequences
  int ep = 1;             ///< ranks that share out experts
  std::string schedule = "1f1b";
  int chunks = 0;           ///< stages of each of them; 0: as few as the schedule has
  std::vector<int> stages;  ///< layers of each; none: as evenly as can be
  int zero = -1;            ///< negative: not given
  ReshardFlags reshard;
  std::vector<std::string> offload;  ///< "none", or any of optimizer, gradients and parameters
  std::string offloadFolder;         ///< of their files; empty: in this host's memory
  int rounds = 1;
  GptOptions model;                   ///< the vocabulary is the tokenizer's
  std::string named;                  ///< a model by name, or its folder; empty: `model`
  std::string initFrom;               ///< a Hugging Face folder; empty: random weights
  bool contextGiven = false;          ///< --context was; else it is at most that of such a model
  std::optional<LlamaOptions> llama;  ///< in the place of `model`, where that model is one
  std::string exportTo;               ///< a Hugging Face folder that is to be; empty: none
  int64_t validationTokens = 0;       ///< those at the beginning; 0: all
  int64_t steps = 586;                ///< 1.2 million tokens of the default batch
  int64_t batch = 16;                 ///< sequences of one step, over all ranks
  int microBatches = 0;
  std::string optimizer = "adamw";
  double learningRate = 0;  ///< 0: by optimizer
  int64_t warmup = -1;      ///< negative: a twentieth of the steps
  double weightDecay = -1;  ///< negative: by optimizer
  double clip = 1;
  uint64_t seed = 1;
  std::string device = "host";       ///< where it computes
  DType type = DType::Float32;       ///< of weights as they are computed with, and of activations
  DType gradients = DType::Float32;  ///< as they are added
  LossScaling lossScaling;           ///< with float16
  bool deterministic = false;
  bool checkReplicas = false;
  std::string json;
  std::string trace;        ///< a file; empty: none
  double peakFlops = 0;     ///< of a rank, a second; 0: measured
  std::string checkpoints;  ///< a folder; empty: none are saved
  int64_t saveEvery = 0;    ///< steps; 0: at the end only
  int keep = 2;
  bool asyncCheckpoints = false;
  bool resume = false;
  int64_t generate = 400;
  std::string prompt;
};

/// Fills `options`. Returns an exit code when there is nothing more to do: 0 after --help, 2 after
/// an error that has been printed and that names the flag.
std::optional<int> parse(int argc, char** argv, TrainOptions& options);

/// What is trained.
ModelOptions modelOf(const TrainOptions& options);
/// Takes the sizes of a model that `flag` names; the context stays, or without --context is at most
/// the model's. Throws InvalidArgument for a context that the model has no positions for.
void takeSizes(TrainOptions& options, const std::string& flag, const ModelOptions& model);

/// How many ranks the flags ask for; 0: they do not say. Throws InvalidArgument when they
/// contradict each other.
int askedRanks(const TrainOptions& options);
/// Those flags, if --ranks is not one of them: "--dp 2 and --tp 2"; else nothing.
std::string askingFlags(const TrainOptions& options);
/// The product of those that compute with the same sequences, or the same experts, together.
int modelRanks(const TrainOptions& options);
/// Of so many ranks those that see other parts of the batch.
int batchRanks(const TrainOptions& options, int ranks);
/// How so many ranks lie along the axes: what is not said goes to dp, or with --zero to fsdp.
/// Throws InvalidArgument when --dp, --fsdp or --tp does not divide the ranks, and when the model's
/// heads cannot be dealt out to --tp, with --cp-attention heads to --cp, or its experts to --ep,
/// for which there have to be some.
MeshShape meshOf(const TrainOptions& options, int ranks);
/// What the ranks along fsdp share out: everything, unless --zero says otherwise; when they give
/// gathered weights back, and what lies elsewhere. Throws InvalidArgument naming the flag when
/// there is nothing that it could be about.
ShardPolicy policyOf(const TrainOptions& options);

/// Where samples of `text` begin and end; none: they are windows wherever they begin.
std::optional<Documents> documentsOf(const TrainOptions& options, const TokenView& text);
/// How the ranks of --pp share out the model.
PipelineOptions pipelineOf(const TrainOptions& options);
/// Throws InvalidArgument as askedRanks(), meshOf() and checkPipeline() do, and says which layouts
/// that fit are nearest. `ranks`: of the job; 0: that is not known.
void checkLayout(const TrainOptions& options, int ranks);
/// Throws InvalidArgument when the schedule is none for --pp and --chunks, and when the model's
/// layers cannot be dealt out as --stages says.
void checkPipeline(const TrainOptions& options);

/// Throws InvalidArgument when the batch cannot be split over `ranks`.
void checkSplit(const TrainOptions& options, int ranks);
/// Throws InvalidArgument when `--json` or `--trace` would be written over what is learned, under
/// whatever name.
void checkNotTheText(const TrainOptions& options);
/// Throws InvalidArgument naming the file when the text cannot be used, and when the folder of
/// --offload-folder is none; System when `--json` or `--trace` cannot be written.
void checkFiles(const TrainOptions& options);

}  // namespace tutti::parallel
