#include <optional>
#include <sstream>

#include "parallel/checkpoint/checkpoint_reader.h"
#include "parallel/checkpoint/checkpoint_writer.h"
#include "parallel/checkpoint/names.h"
#include "parallel/engine/agreement.h"
#include "parallel/engine/engine.h"

namespace tutti::parallel {

namespace {

constexpr const char* kSteps = "optimizer steps";
constexpr const char* kScale = "loss scale";
constexpr const char* kGoodSteps = "steps since it changed or gradients overflowed";
constexpr const char* kPatience = "overflows until it shrinks";

/// One tensor of the training state, and this rank's part of it.
struct StatePart {
  std::string name;
  const Parameter* parameter;
  Tensor data;
};

std::string stateName(const Parameter& parameter, const std::string& what) {
  return message("optimizer.", what, ".", parameter.name);
}

/// Of all ranks.
std::vector<std::string> stateNames(const ParameterStore& store, const Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const Parameter* parameter : store.declared()) {
    names.push_back(parameter->name);
    for (const auto& what : optimizer.stateNames()) names.push_back(stateName(*parameter, what));
  }
  return names;
}

/// Weights under their own names, the optimizer's state behind the name of what it is.
std::vector<StatePart> stateParts(ParameterStore& store, const Optimizer& optimizer) {
  std::vector<StatePart> parts;
  for (size_t i = 0; i < store.parameterCount(); ++i) {
    const Parameter& parameter = store.parameter(i);
    parts.push_back({parameter.name, &parameter, store.master(parameter)});
    const std::span<Tensor> state = store.state(parameter, optimizer);
    for (size_t s = 0; s < state.size(); ++s)
      parts.push_back({stateName(parameter, optimizer.stateNames()[s]), &parameter, state[s]});
  }
  return parts;
}

void read(CheckpointReader& reader, const std::string& folder, const StatePart& part,
          const Box& box, const DeviceMesh& mesh) {
  const StoredTensor& stored = reader.tensor(part.name);
  require(stored.shape == part.parameter->global, folder, ": tensor \"", part.name,
          "\": shape: it is ", stored.shape, ", not ", part.parameter->global);
  std::vector<std::byte> room;
  const Tensor ofHost = mesh.onHost(part.data, room);
  reader.read(part.name, box, ofHost);
  mesh.upload(ofHost.data, part.data);
}

std::string textOf(const MetadataValue& value) {
  return std::visit([](const auto& v) { return message(v); }, value);
}

/// The first line of `text` that `other` has not at the same place, without its indentation.
std::string differingLine(const std::string& text, const std::string& other) {
  std::istringstream lines(text), others(other);
  for (std::string line, same; std::getline(lines, line);)
    if (!std::getline(others, same) || line != same)
      return line.substr(line.find_first_not_of(' '));
  return "nothing more";
}

void requireSaved(const CheckpointReader& reader, const std::string& folder, const std::string& key,
                  const MetadataValue& value) {
  const auto found = reader.metadata().find(key);
  require(found != reader.metadata().end(), folder, ": metadata: there is no ", key);
  const std::string saved = textOf(found->second), wanted = textOf(value);
  require(found->second == value, folder, ": metadata: ", key, ": it was saved with ",
          differingLine(saved, wanted), ", not ", differingLine(wanted, saved));
}

/// A checkpoint as one rank sees it.
struct CheckpointPart {
  std::filesystem::path root;
  int64_t step;
  int keep;
  Metadata metadata;
  std::vector<TensorBox> pieces;
};

Metadata withSteps(Metadata metadata, int64_t steps, const std::optional<LossScale>& scale) {
  metadata[kSteps] = steps;
  if (scale) {
    metadata[kScale] = scale->state().current;
    metadata[kGoodSteps] = scale->state().goodSteps;
    metadata[kPatience] = scale->state().patience;
  }
  return metadata;
}

template <class T>
T metadataOf(const CheckpointReader& reader, const std::string& folder, const char* key) {
  const auto found = reader.metadata().find(key);
  const T* value = found == reader.metadata().end() ? nullptr : std::get_if<T>(&found->second);
  require(value != nullptr && *value >= 0, folder, ": metadata: ", key, ": it is no ",
          std::is_same_v<T, double> ? "number" : "whole number", " of at least 0");
  return *value;
}

/// That of a training that had none begins anew.
void readScale(const CheckpointReader& reader, const std::string& folder,
               std::optional<LossScale>& scale) {
  if (!scale || !reader.metadata().contains(kScale)) return;
  const LossScaleState state{.current = metadataOf<double>(reader, folder, kScale),
                             .goodSteps = metadataOf<int64_t>(reader, folder, kGoodSteps),
                             .patience = metadataOf<int64_t>(reader, folder, kPatience)};
  require(state.current > 0, folder, ": metadata: ", kScale, ": it is 0");
  scale->restored(state);
}

/// Collective.
void write(MeshCommunicator* all, int rank, const CheckpointPart& part) {
  std::optional<CheckpointWriter> writer;
  together(all, [&] {
    if (rank == 0) writer.emplace(part.root, part.step);
  });
  const ShardDescription mine = tryWriteShard(partialPath(part.root, part.step), rank, part.pieces);
  const std::vector<std::string> texts = exchangeTexts(all, mine.serialize());
  together(all, [&] {
    if (!writer) return;
    std::vector<ShardDescription> shards;
    for (const std::string& text : texts) shards.push_back(ShardDescription::parse(text));
    writer->commit({.shards = shards, .metadata = part.metadata, .keep = part.keep});
  });
}

}  // namespace

std::vector<TensorBox> Engine::savedPieces(const Optimizer& optimizer) {
  std::vector<TensorBox> pieces;
  for (const StatePart& part : stateParts(store_, optimizer))
    if (part.data.count() > 0 && store_.isFirstReplica(*part.parameter))
      pieces.push_back({part.name, part.parameter->global, store_.box(*part.parameter), part.data});
  return pieces;
}

void Engine::save(const std::filesystem::path& root, int64_t step, const Optimizer& optimizer,
                  int keep, const Metadata& metadata) {
  require(!mesh_.dry(), "a dry run has no weights to save");
  const Trace::Span span(mesh_.trace(), "checkpoint");
  background_.await();
  CheckpointPart saved{root, step, keep, withSteps(metadata, store_.steps(), scale_),
                       savedPieces(optimizer)};
  if (mesh_.stream())
    for (TensorBox& piece : saved.pieces) piece.data = background_.copy(piece.data);
  write(mesh_.communicator(AxisSet::all()), mesh_.rank(), saved);
  background_.await();  // gives the copies back
}

void Engine::saveInBackground(const std::filesystem::path& root, int64_t step,
                              const Optimizer& optimizer, int keep, const Metadata& metadata) {
  require(!mesh_.dry(), "a dry run has no weights to save");
  const Trace::Span span(mesh_.trace(), "checkpoint");
  background_.await();
  CheckpointPart saved{root, step, keep, withSteps(metadata, store_.steps(), scale_),
                       savedPieces(optimizer)};
  for (TensorBox& piece : saved.pieces) piece.data = background_.copy(piece.data);
  background_.start([saved = std::move(saved), rank = mesh_.rank()](MeshCommunicator* all) {
    write(all, rank, saved);
  });
}

int64_t Engine::load(const std::filesystem::path& folder, const Optimizer& optimizer,
                     const Metadata& metadata) {
  require(!mesh_.dry(), "a dry run has no memory for the weights of a checkpoint");
  background_.await();
  int64_t step = 0, steps = 0;
  together(mesh_.communicator(AxisSet::all()), [&] {
    CheckpointReader reader(folder);
    for (const auto& [key, value] : metadata) requireSaved(reader, folder.string(), key, value);
    const std::vector<StatePart> parts = stateParts(store_, optimizer);
    reader.requireNames(stateNames(store_, optimizer));
    for (const StatePart& part : parts)
      read(reader, folder.string(), part, store_.box(*part.parameter), mesh_);
    steps = metadataOf<int64_t>(reader, folder.string(), kSteps);
    readScale(reader, folder.string(), scale_);
    step = reader.step();
  });
  store_.restored(steps);
  return step;
}

void Engine::loadWeights(const std::filesystem::path& folder) {
  require(!mesh_.dry(), "a dry run has no memory for the weights of a checkpoint");
  together(mesh_.communicator(AxisSet::all()), [&] {
    CheckpointReader reader(folder);
    for (size_t i = 0; i < store_.parameterCount(); ++i) {
      const Parameter& parameter = store_.parameter(i);
      read(reader, folder.string(), {parameter.name, &parameter, store_.master(parameter)},
           store_.box(parameter), mesh_);
    }
  });
  store_.restored(0);
}

}  // namespace tutti::parallel
