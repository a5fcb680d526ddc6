// Hugging Face folders: the logits are those of `transformers` (hf_logits.py made the
// folders and their logits) under every layout, what is written comes back and is read by
// `transformers` where that is installed, and what our models do not do is refused by its key.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

#include "parallel/checkpoint/json.h"
#include "parallel/engine/engine.h"
#include "parallel/huggingface/folder.h"
#include "parallel/huggingface/weights.h"
#include "parallel/kernels/host/host_kernels.h"
#include "parallel/tensor/check.h"
#include "tests/parallel/support/on_ranks.h"
#include "tests/support/leftovers.h"
#include "tests/support/mutator.h"
#include "tests/support/outcome.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace tutti::parallel {
namespace {

using tests::Output;
using tests::runProgram;

using tests::Outcome;
using tests::outcomeOf;
namespace fs = std::filesystem;

const fs::path kFolders = TUTTI_HUGGINGFACE;
constexpr int64_t kLength = 12;
using Logits = std::vector<double>;

std::vector<int32_t> tokenIds() {
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < kLength; ++t) ids.push_back((7 * t + t * t + 3) % 29);
  return ids;
}

Logits readLogits(const fs::path& folder) {
  std::ifstream file(folder / "logits.txt");
  Logits logits;
  for (double value = 0; file >> value;) logits.push_back(value);
  EXPECT_EQ(logits.size(), 29u * kLength) << folder;
  return logits;
}

/// A training of a folder's model whose weights are the folder's.
struct Loaded {
  Loaded(DeviceMesh& itsMesh, const fs::path& folder, const ShardPolicy& policy = {},
         StoreTypes types = {})
      : mesh(itsMesh),
        options(readConfig(folder)),
        model(makeModel(options)),
        engine(mesh, kernels, *model, {.policy = policy, .types = types}),
        bytesRead(loadWeights(mesh, engine.store(), folder)) {}

  Logits logits() {
    std::vector<int32_t> ids = tokenIds();
    const Tensor result = engine.logits(Tensor(ids.data(), DType::Int32, {1, kLength}));
    Logits values(static_cast<size_t>(result.count()));
    convert(result, Tensor(values.data(), DType::Float64, result.shape), false);
    return values;
  }

  DeviceMesh& mesh;
  ModelOptions options;
  HostKernels kernels;
  std::unique_ptr<Model> model;
  Engine engine;
  uint64_t bytesRead;
};

/// Theirs are computed in float32: sums of some 20 products, through two layers, of numbers of the
/// order of 1.
void expectNear(const Logits& ours, const Logits& theirs, const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  double worst = 0, largest = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    worst = std::max(worst, std::abs(ours[i] - theirs[i]));
    largest = std::max(largest, std::abs(theirs[i]));
  }
  EXPECT_LE(worst, 2e-5 * std::max(1.0, largest)) << what;
  EXPECT_GT(largest, 0.1) << what << ": hardly logits";
}

const std::vector<std::string> kNames{"gpt2", "llama", "llama-tied", "llama-half", "mixtral"};

TEST(HuggingFace, LogitsAreThoseOfTransformers) {
  for (const std::string& name : kNames)
    for (const DType type : {DType::Float32, DType::Float64}) {
      DeviceMesh mesh;
      Loaded loaded(mesh, kFolders / name, {}, type);
      expectNear(loaded.logits(), readLogits(kFolders / name), name);
    }
}

struct Arrangement {
  std::string mesh;
  ShardPolicy policy;
};
const std::vector<Arrangement> kLayouts{
    {"dp=2", ShardPolicy::ddp()},          {"fsdp=3", ShardPolicy::fsdp()},
    {"dp=2,fsdp=2", ShardPolicy::zero(1)}, {"tp=2", ShardPolicy::ddp()},
    {"fsdp=2,tp=2", ShardPolicy::fsdp()},  {"pp=2", ShardPolicy::ddp()},
    {"pp=2,fsdp=2", ShardPolicy::fsdp()}};

// Experts lie on other ranks, and are shared out besides.
TEST(HuggingFace, LogitsAreTheSameWhereverExpertsAre) {
  for (const Arrangement& layout :
       {Arrangement{"ep=2", ShardPolicy::ddp()}, Arrangement{"ep=4", ShardPolicy::ddp()},
        Arrangement{"fsdp=2,ep=2", ShardPolicy::fsdp()},
        Arrangement{"ep=2,tp=2", ShardPolicy::ddp()}}) {
    const auto all = onRanks(MeshShape::parse(layout.mesh), false, [&](DeviceMesh& mesh) {
      return Loaded(mesh, kFolders / "mixtral", layout.policy).logits();
    });
    for (const Logits& ours : all)
      expectNear(ours, readLogits(kFolders / "mixtral"), "mixtral on " + layout.mesh);
  }
}

TEST(HuggingFace, LogitsAreTheSameUnderEveryLayout) {
  for (const std::string& name : kNames)
    for (const auto& [shape, policy] : kLayouts) {
      const Logits theirs = readLogits(kFolders / name);
      const auto all =
          onRanks(MeshShape::parse(shape), false, [&, &how = policy](DeviceMesh& mesh) {
            return Loaded(mesh, kFolders / name, how).logits();
          });
      for (const Logits& ours : all) expectNear(ours, theirs, name + " on " + shape);
    }
}

// Also where other weights were gathered before, and stay.
TEST(HuggingFace, LoadingForgetsWhatWasGathered) {
  for (const ShardPolicy& policy : {ShardPolicy::zero(1), ShardPolicy::fsdp()})
    for (const DType type : {DType::Float32, DType::BFloat16}) {  // masters are float32
      ShardPolicy kept = policy;
      if (policy.parameters) kept.reshard.when = Reshard::Never;
      const auto all = onRanks(MeshShape::parse("fsdp=2"), false, [&](DeviceMesh& mesh) {
        Loaded loaded(mesh, kFolders / "gpt2", kept, type),
            fresh(mesh, kFolders / "gpt2", kept, type);
        ParameterStore& store = loaded.engine.store();
        for (size_t i = 0; i < store.parameterCount(); ++i) {
          const Tensor master = store.master(store.parameter(i));
          for (int64_t e = 0; e < master.count(); ++e) master.as<float>()[e] += 1;
        }
        store.restored(0);
        EXPECT_NE(loaded.logits(), fresh.logits());  // these are gathered
        loadWeights(mesh, store, kFolders / "gpt2");
        return std::pair(loaded.logits(), fresh.logits());
      });
      for (const auto& [first, second] : all) EXPECT_EQ(first, second);
    }
}

/// All bytes of a folder's weights.
std::map<std::string, std::string> tensorsOf(const fs::path& folder) {
  std::map<std::string, std::string> tensors;
  for (const auto& file : fs::directory_iterator(folder)) {
    if (file.path().extension() != ".safetensors") continue;
    SafetensorsReader reader(file.path());
    for (const SafetensorsEntry& entry : reader.entries()) {
      std::string& bytes = tensors[message(entry.name, " ", toString(entry.type), entry.shape)];
      bytes.resize(entry.end - entry.begin);
      reader.read(entry, 0, bytes.data(), bytes.size());
    }
  }
  return tensors;
}

// Float32 comes back to the bit, from any layout to any other.
TEST(HuggingFace, WhatIsExportedIsWhatWasLoaded) {
  for (const std::string name : {"gpt2", "llama"})
    for (const auto& [shape, policy] : kLayouts) {
      const tests::TemporaryFolder folder;
      const fs::path out = folder.path() / "out";
      onRanks(MeshShape::parse(shape), false, [&, &how = policy](DeviceMesh& mesh) {
        Loaded loaded(mesh, kFolders / name, how);
        exportFolder(mesh, loaded.engine.store(), out, {.options = loaded.options});
      });
      EXPECT_EQ(tensorsOf(out), tensorsOf(kFolders / name)) << name << " on " << shape;
      EXPECT_FALSE(fs::exists(folder.path() / "out.partial"));
      DeviceMesh mesh;
      expectNear(Loaded(mesh, out).logits(), readLogits(kFolders / name), name);
    }
}

// What lies beside it is somebody else's, whatever its name.
TEST(HuggingFace, AnExportTouchesNothingElse) {
  const tests::TemporaryFolder folder;
  const fs::path out = folder.path() / "out", theirs = folder.path() / "out.partial" / "x";
  fs::create_directories(theirs.parent_path());
  tests::setContents(theirs, "mine");
  onRanks(MeshShape::parse("fsdp=2"), false, [&](DeviceMesh& mesh) {
    Loaded loaded(mesh, kFolders / "gpt2", ShardPolicy::fsdp());
    ModelOptions other = loaded.options;
    std::get<GptOptions>(other).layers = 1;  // there is no place for what is in the second
    EXPECT_THROW(exportFolder(mesh, loaded.engine.store(), out, {.options = other}), Error);
    mesh.communicator(AxisSet::all())->barrier();
    EXPECT_FALSE(fs::exists(out));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "one is left";
    mesh.communicator(AxisSet::all())->barrier();
    exportFolder(mesh, loaded.engine.store(), out, {.options = loaded.options});
  });
  EXPECT_EQ(tensorsOf(out), tensorsOf(kFolders / "gpt2"));
  EXPECT_EQ(tests::contentsOf(theirs), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
}

/// As people write them.
TEST(HuggingFace, IsWrittenIntoTheCurrentFolder) {
  const tests::TemporaryFolder folder;
  const fs::path before = fs::current_path();
  DeviceMesh mesh;
  Loaded loaded(mesh, fs::absolute(kFolders / "gpt2"));
  fs::current_path(folder.path());
  for (const std::string out : {"out", "./other", "with-slash/"}) {
    EXPECT_NO_THROW(exportFolder(mesh, loaded.engine.store(), out, {.options = loaded.options}));
    EXPECT_TRUE(fs::exists(fs::path(out) / kWeightsName)) << out;
    EXPECT_THROW(exportFolder(mesh, loaded.engine.store(), out, {.options = loaded.options}),
                 Error);
  }
  fs::current_path(before);
}

TEST(HuggingFace, BFloat16IsRoundedOnce) {
  const tests::TemporaryFolder folder;
  DeviceMesh mesh;
  Loaded tied(mesh, kFolders / "llama-tied"), gpt(mesh, kFolders / "gpt2");
  exportFolder(mesh, tied.engine.store(), folder.path() / "tied",
               {.options = tied.options, .type = DType::BFloat16, .tokenizer = "{}"});
  EXPECT_EQ(tensorsOf(folder.path() / "tied"), tensorsOf(kFolders / "llama-tied"));
  EXPECT_EQ(tests::contentsOf(folder.path() / "tied" / "tokenizer.json"), "{}");
  exportFolder(mesh, gpt.engine.store(), folder.path() / "gpt",
               {.options = gpt.options, .type = DType::BFloat16});
  Loaded rounded(mesh, folder.path() / "gpt");
  const Parameter& parameter = gpt.engine.store().parameter(0);
  const Tensor before = gpt.engine.store().master(parameter),
               after = rounded.engine.store().master(rounded.engine.store().parameter(0));
  double worst = 0;
  for (int64_t i = 0; i < before.count(); ++i)
    worst = std::max(worst, std::abs(double(after.as<float>()[i]) / before.as<float>()[i] - 1));
  EXPECT_LE(worst, 1.0 / 256);  // half of the last of 8 bits
  EXPECT_GT(worst, 1.0 / 1024);
}

TEST(HuggingFace, ARankReadsWhatItHolds) {
  const tests::TemporaryFolder folder;
  const LlamaOptions options{.layers = 1, .width = 128, .kvHeads = 4, .inner = 256};
  const fs::path out = folder.path() / "out";
  {
    DeviceMesh mesh;
    HostKernels kernels;
    Llama model(options);
    Engine engine(mesh, kernels, model, {});
    exportFolder(mesh, engine.store(), out, {.options = options});
  }
  const auto all = static_cast<double>(fs::file_size(out / kWeightsName));
  const auto read = onRanks(MeshShape::parse("fsdp=4"), false, [&](DeviceMesh& mesh) {
    return Loaded(mesh, out, ShardPolicy::fsdp()).bytesRead;
  });
  for (const uint64_t bytes : read) EXPECT_NEAR(static_cast<double>(bytes), all / 4, all / 40);
}

// GPT-2's own folder has no prefix, masks that nobody learns, and sometimes an output map.
TEST(HuggingFace, OlderFoldersAreRead) {
  const tests::TemporaryFolder folder;
  SafetensorsReader reader(kFolders / "gpt2" / kWeightsName);
  std::vector<SafetensorsEntry> entries;
  for (SafetensorsEntry entry : reader.entries()) {
    entry.name = entry.name.substr(std::string(kGptPrefix).size());
    entries.push_back(entry);
  }
  for (const std::string name : {"h.0.attn.bias", "h.1.attn.masked_bias", "lm_head.weight"})
    entries.push_back({.name = name, .type = DType::UInt8, .shape = {1, 1, 2, 2}});
  SafetensorsWriter writer(folder.path() / kWeightsName, entries);
  std::string bytes(1 << 16, '\1');
  for (const SafetensorsEntry& entry : entries) {
    if (entry.type == DType::Float32) {
      const SafetensorsEntry& theirs = reader.entry(kGptPrefix + entry.name);
      reader.read(theirs, 0, bytes.data(), theirs.end - theirs.begin);
    }
    writer.write(entry.name, Tensor(bytes.data(), entry.type, entry.shape));
  }
  writer.finish();
  fs::copy(kFolders / "gpt2" / "config.json", folder.path());
  DeviceMesh mesh;
  expectNear(Loaded(mesh, folder.path()).logits(), readLogits(kFolders / "gpt2"), "gpt2");
}

// A model for shorter sequences is the same model.
TEST(HuggingFace, AShorterContextIsEnough) {
  for (const std::string name : {"gpt2", "llama"}) {
    DeviceMesh mesh;
    HostKernels kernels;
    const auto model = makeModel(withContext(readConfig(kFolders / name), kLength));
    Engine engine(mesh, kernels, *model, {});
    loadWeights(mesh, engine.store(), kFolders / name);
    std::vector<int32_t> ids = tokenIds();
    const Tensor logits = engine.logits(Tensor(ids.data(), DType::Int32, {1, kLength}));
    const Logits ours(logits.as<float>(), logits.as<float>() + logits.count());
    expectNear(ours, readLogits(kFolders / name), name);
  }
}

TEST(HuggingFace, ConfigsComeBack) {
  for (const std::string& name : kNames) {
    const ModelOptions options = readConfig(kFolders / name);
    const std::string text = configText(options, DType::Float32);
    EXPECT_EQ(configText(parseConfig("", text), DType::Float32), text);
  }
  const auto tied = std::get<LlamaOptions>(readConfig(kFolders / "llama-tied"));
  EXPECT_EQ(tied.ropeBase, 500);
  EXPECT_EQ(tied.epsilon, 1e-6);
  EXPECT_TRUE(tied.tied);
  EXPECT_EQ(tied.kvHeads, 2);
  const auto mixtral = std::get<LlamaOptions>(readConfig(kFolders / "mixtral"));
  EXPECT_EQ(mixtral.experts, (ExpertOptions{.count = 4, .auxLoss = 0.001}));
}

// Keys that are ours say what a checkpoint is of; a folder that would be another model for
// transformers is not made.
TEST(HuggingFace, ExpertsThatMixtralDoesNotHaveAreKeptAndNotExported) {
  ExpertOptions experts{.count = 4, .auxLoss = 0.02, .zLoss = 0.001};
  const auto comesBack = [](const auto& options) {
    const auto read = parseConfig("", configText(options, DType::Float32));
    EXPECT_EQ(std::get<std::remove_cvref_t<decltype(options)>>(read).experts, options.experts);
  };
  const auto refused = [](const ModelOptions& options, const std::string& named) {
    const Outcome outcome = outcomeOf([&] { requireExportable(options); });
    EXPECT_NE(outcome.text.find(named), std::string::npos) << outcome.text;
  };
  comesBack(GptOptions{.experts = experts});
  refused(GptOptions{.experts = experts}, "a GPT with experts has no Hugging Face folder");
  refused(LlamaOptions{.experts = experts}, "no error");
  refused(GptOptions{}, "no error");
  for (const auto& [change, named] :
       {std::pair{ExpertOptions{.count = 4, .capacityFactor = 1.5}, "a capacity"},
        {ExpertOptions{.count = 4, .every = 2}, "each 2th block"},
        {ExpertOptions{.count = 4, .perToken = 1, .normalized = false}, "not normalized"}}) {
    comesBack(LlamaOptions{.experts = change});
    refused(LlamaOptions{.experts = change}, named);
  }
}

std::string refusal(const std::string& name, const std::string& key, const Json& value) {
  Json json = Json::parse(tests::contentsOf(kFolders / name / "config.json"));
  json[key] = value;
  const Outcome outcome = outcomeOf([&] { parseConfig("config", json.dump()); });
  EXPECT_EQ(outcome.code,
            outcome.text == "no error" ? ErrorCode::Unsupported : ErrorCode::InvalidArgument);
  return outcome.text;
}

TEST(HuggingFace, WhatOurModelsDoNotDoIsRefusedByItsKey) {
  const auto expect = [](const std::string& name, const std::string& key, const Json& value) {
    EXPECT_EQ(refusal(name, key, value).find("config: " + key + ": "), 0u)
        << refusal(name, key, value);
  };
  const Json scaling = {{"rope_type", "llama3"}, {"factor", 8}};
  expect("llama", "rope_scaling", scaling);
  EXPECT_EQ(refusal("llama", "rope_parameters", scaling),
            "config: rope_parameters: rope_type: \"\\\"llama3\\\"\" is not supported here, "
            "\"default\" is");
  for (const char* key : {"attention_bias", "mlp_bias"}) expect("llama", key, true);
  expect("llama", "hidden_act", "gelu");
  expect("llama", "head_dim", 8);
  expect("llama", "pretraining_tp", 2);
  expect("llama", "partial_rotary_factor", 0.5);
  expect("llama", "model_type", "mistral");
  expect("mixtral", "sliding_window", 16);
  expect("mixtral", "router_jitter_noise", 0.1);
  expect("mixtral", "num_local_experts", 0);
  EXPECT_EQ(refusal("mixtral", "num_experts_per_tok", 5).find("config: a token cannot go to 5"),
            0u);
  expect("llama", "architectures", {"LlamaForSequenceClassification"});
  expect("llama", "vocab_size", 0);
  expect("llama", "num_hidden_layers", "two");
  expect("gpt2", "activation_function", "gelu");
  expect("gpt2", "n_inner", 31);
  expect("gpt2", "layer_norm_epsilon", 1e-6);
  expect("gpt2", "scale_attn_weights", false);
  expect("gpt2", "scale_attn_by_inverse_layer_idx", true);
  expect("gpt2", "add_cross_attention", true);
  expect("gpt2", "tie_word_embeddings", false);
  expect("gpt2", "n_embd", -8);
  for (const std::string name : {"gpt2", "llama"}) {
    EXPECT_EQ(refusal(name, "sliding_window", 128),
              "config: \"sliding_window\" is no member of this");
    EXPECT_NE(refusal(name, "quantization_config", Json::object()), "no error");
    EXPECT_EQ(refusal(name, "bos_token_id", 1), "no error");
  }
  EXPECT_EQ(refusal("llama", "num_key_value_heads", 3).find("config: 4 heads do not share 3"), 0u);
  EXPECT_EQ(refusal("gpt2", "n_head", 3).find("config: a width of 8 does not split"), 0u);
}

/// A copy of a folder that a test may spoil.
class Spoiled : public testing::Test {
 protected:
  fs::path copyOf(const std::string& name) {
    const fs::path copy = folder_.path() / std::to_string(++copies_);
    fs::copy(kFolders / name, copy);
    return copy;
  }
  static std::string said(const fs::path& folder) {
    const Outcome outcome = outcomeOf([&] {
      DeviceMesh mesh;
      Loaded(mesh, folder).logits();
    });
    return outcome.text;
  }
  static void changeIndex(const fs::path& folder, const std::function<void(Json&)>& change) {
    const fs::path index = folder / "model.safetensors.index.json";
    Json json = Json::parse(tests::contentsOf(index));
    change(json);
    tests::setContents(index, json.dump());
  }
  static void expectSaid(const fs::path& folder, const std::string& reason) {
    EXPECT_NE(said(folder).find(reason), std::string::npos) << said(folder) << "\nnot: " << reason;
  }

  tests::TemporaryFolder folder_;
  int copies_ = 0;
};

TEST_F(Spoiled, TensorsThatAreNotTheModels) {
  const auto config = [&](const std::string& name, const std::string& key, const Json& value) {
    const fs::path folder = copyOf(name);
    Json json = Json::parse(tests::contentsOf(folder / "config.json"));
    json[key] = value;
    tests::setContents(folder / "config.json", json.dump());
    return folder;
  };
  const auto sized = [&](const std::string& name, const std::string& key, const Json& value,
                         const std::string& found) {
    const fs::path folder = config(name, key, value);
    const std::string text = outcomeOf([&] { readModel(folder); }).text;
    EXPECT_EQ(text.find((folder / "config.json").string() + ": " + key + ": it is " + value.dump() +
                        ", and " + found),
              0u)
        << text;
  };
  for (const int layers : {1, 3, 10'000}) {
    sized("gpt2", "n_layer", layers, "the weights have 2 layers");
    sized("llama", "num_hidden_layers", layers, "the weights have 2 layers");
  }
  constexpr int kHuge = 1'000'000'000;
  for (const int size : {30, kHuge}) {
    sized("gpt2", "vocab_size", size,
          "tensor \"transformer.wte.weight\" of the weights is [29, 8]");
    sized("llama", "vocab_size", size, "tensor \"model.embed_tokens.weight\"");
  }
  sized("gpt2", "n_positions", kHuge, "tensor \"transformer.wpe.weight\"");
  sized("llama", "intermediate_size", kHuge, "tensor \"model.layers.0.mlp.gate_proj.weight\"");
  sized("mixtral", "intermediate_size", kHuge,
        "tensor \"model.layers.0.block_sparse_moe.experts.0.w1.weight\"");
  for (const int experts : {3, kHuge})
    sized("mixtral", "num_local_experts", experts, "the weights have 4 experts in a layer");
  sized("gpt2", "num_local_experts", 4, "the weights have 0 experts in a layer");
  expectSaid(config("llama", "tie_word_embeddings", true), "no error");
  expectSaid(config("llama-tied", "tie_word_embeddings", false),
             "there is no tensor \"lm_head.weight\"");
  const fs::path folder = copyOf("gpt2");
  std::string bytes = tests::contentsOf(folder / kWeightsName);
  const size_t at = bytes.find("\"F32\"");
  bytes.replace(at, 5, "\"I32\"");
  tests::setContents(folder / kWeightsName, bytes);
  expectSaid(folder, ": dtype: int32 is not supported here");
}

// A model of the sizes of a text would take what there is, so the weights' are looked at first.
TEST_F(Spoiled, ConfigsAreComparedBeforeAnythingIsMadeOfThem) {
  for (const auto& [name, key] : {std::pair{"gpt2", "n_layer"}, {"llama", "num_hidden_layers"}}) {
    const fs::path folder = copyOf(name);
    EXPECT_EQ(configText(readModel(folder), DType::Float32),
              configText(readConfig(folder), DType::Float32));
    Json json = Json::parse(tests::contentsOf(folder / "config.json"));
    json[key] = 9'999;
    tests::setContents(folder / "config.json", json.dump());
    EXPECT_EQ(outcomeOf([&] { readModel(folder); }).text,
              message((folder / "config.json").string(), ": ", key,
                      ": it is 9999, and the weights have 2 layers"));
    json[key] = 3'000'000;
    tests::setContents(folder / "config.json", json.dump());
    EXPECT_EQ(outcomeOf([&] { readConfig(folder); }).text,
              message((folder / "config.json").string(), ": ", key,
                      ": 3000000 is not between 1 and 10000"));
  }
}

TEST_F(Spoiled, IndexesThatDoNotFit) {
  const std::string tensor = "model.norm.weight", first = "model-00001-of-00002.safetensors";
  const auto expect = [&](const std::function<void(Json&)>& change, const std::string& reason) {
    const fs::path folder = copyOf("llama");
    changeIndex(folder, change);
    expectSaid(folder, "model.safetensors.index.json: weight_map: " + reason);
  };
  const auto map = [](Json& json) -> Json& { return json["weight_map"]; };
  expect([&](Json& j) { map(j)[tensor] = "../" + first; }, "\"model.norm.weight\": \"../");
  expect([&](Json& j) { map(j)[tensor] = "sub/" + first; },
         "\"model.norm.weight\": \"sub/" + first + "\" is no name");
  expect([&](Json& j) { map(j)[tensor] = ".hidden"; },
         "\"model.norm.weight\": \".hidden\" is no name");
  expect([&](Json& j) { map(j)[tensor] = 3; }, "\"model.norm.weight\": this is no text");
  expect([&](Json& j) { map(j)[tensor] = first; },
         "\"model.norm.weight\": \"" + first + "\" does not");
  expect([&](Json& j) { map(j).erase(tensor); }, "tensor \"model.norm.weight\" of model-00002");
  expect([&](Json& j) { map(j)["more"] = first; }, "\"more\": \"" + first + "\" does not have it");
  fs::path folder = copyOf("llama");
  fs::remove(folder / first);
  EXPECT_NE(said(folder).find("cannot open " + (folder / first).string()), std::string::npos);
  folder = copyOf("gpt2");
  fs::remove(folder / kWeightsName);
  EXPECT_NE(said(folder).find("cannot open"), std::string::npos);
  fs::remove(folder / "config.json");
  EXPECT_NE(said(folder).find("config.json"), std::string::npos);
}

// What one rank finds, all of them throw; what is there is not written over.
TEST_F(Spoiled, RanksAreRefusedTogether) {
  const fs::path folder = copyOf("gpt2");
  const auto said = onRanks(MeshShape::parse("fsdp=2"), false, [&](DeviceMesh& mesh) {
    Loaded loaded(mesh, folder, ShardPolicy::fsdp());
    return outcomeOf([&] {
             exportFolder(mesh, loaded.engine.store(), folder, {.options = loaded.options});
           })
        .text;
  });
  EXPECT_EQ(said[0], folder.string() + " is there already");
  EXPECT_EQ(said[1], "rank 0: " + said[0]);
  EXPECT_EQ(tensorsOf(folder), tensorsOf(kFolders / "gpt2"));
}

TEST_F(Spoiled, Fuzz) {
  const fs::path folder = copyOf("llama");
  tests::Mutator mutator(tests::testSeed());
  int accepted = 0, refused = 0;
  for (int i = 0; i < 1500; ++i) {
    const fs::path file = folder / (i % 2 ? "config.json" : "model.safetensors.index.json");
    const std::string good = tests::contentsOf(file);
    const auto* data = reinterpret_cast<const std::byte*>(good.data());
    const base::Bytes changed = mutator.mutate(base::Bytes(data, data + good.size()));
    tests::setContents(file,
                       std::string(reinterpret_cast<const char*>(changed.data()), changed.size()));
    const Outcome outcome = outcomeOf([&] { WeightFolder weights(folder, readConfig(folder)); });
    tests::setContents(file, good);
    outcome.text == "no error" ? ++accepted : ++refused;
    if (outcome.text == "no error") continue;
    // System: the index names a file that is not there.
    ASSERT_TRUE(outcome.code == ErrorCode::InvalidArgument || outcome.code == ErrorCode::System)
        << outcome.text;
  }
  EXPECT_GT(accepted, 50) << "no input is good: the test tests nothing";
  EXPECT_GT(refused, 500) << "no input is bad: the test tests nothing";
  std::cout << accepted << " accepted, " << refused << " refused\n";
}

TEST(Transformers, RunWhatWasExported) {
  if (runProgram("python3 -c 'import torch, transformers'").exitCode != 0)
    GTEST_SKIP() << "python3 has no transformers with torch";
  for (const std::string name : {"gpt2", "llama", "llama-tied", "mixtral"}) {
    const tests::TemporaryFolder folder;
    const fs::path out = folder.path() / "out", file = folder.path() / "logits";
    onRanks(MeshShape::parse("fsdp=2"), false, [&](DeviceMesh& mesh) {
      Loaded loaded(mesh, kFolders / name, ShardPolicy::fsdp());
      exportFolder(mesh, loaded.engine.store(), out, {.options = loaded.options});
      const Logits ours = loaded.logits();
      if (mesh.rank() > 0) return;
      std::ofstream rows(file);
      for (size_t i = 0; i < ours.size(); ++i) rows << ours[i] << ((i + 1) % 29 ? " " : "\n");
    });
    const Output output = runProgram("python3 " + (kFolders / "hf_logits.py").string() +
                                     " compare " + out.string() + " " + file.string());
    EXPECT_EQ(output.exitCode, 0) << name << "\n" << output.text;
    std::cout << output.lastLine() << "\n";
  }
}

}  // namespace
}  // namespace tutti::parallel
