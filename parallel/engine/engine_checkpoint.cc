#include <algorithm>
#include <exception>
#include <functional>
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

void requireShape(const CheckpointReader& reader, const std::string& folder,
                  const StatePart& part) {
  const StoredTensor& stored = reader.tensor(part.name);
  require(stored.shape == part.parameter->global, folder, ": tensor \"", part.name,
          "\": shape: it is ", stored.shape, ", not ", part.parameter->global);
}

void read(CheckpointReader& reader, const std::string& folder, const StatePart& part,
          const Box& box, const DeviceMesh& mesh) {
  inMemory(message(folder, ": tensor \"", part.name, "\""), part.data.bytes(), [&] {
    std::vector<std::byte> room;
    const Tensor ofHost = mesh.onHost(part.data, room);
    reader.read(part.name, box, ofHost);
    mesh.upload(ofHost.data, part.data);
  });
}

/// What `work`, which reads files, finds wrong with them, on some rank; other failures are thrown.
/// Collective.
std::exception_ptr damageOf(MeshCommunicator* all, const std::function<void()>& work) {
  try {
    together(all, work);
    return nullptr;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::InvalidArgument && error.code() != ErrorCode::System) throw;
    return std::current_exception();
  }
}

/// Of the checkpoints below `root`, as rank 0 sees them, the newest first. Collective.
std::vector<int64_t> stepsBelow(const std::filesystem::path& root, MeshCommunicator* all,
                                int rank) {
  std::string seen;
  together(all, [&] {
    if (rank != 0) return;
    for (const int64_t step : stepsOfFolders(root)) seen = message(step, " ", seen);
  });
  std::istringstream words(exchangeTexts(all, seen).front());
  std::vector<int64_t> steps;
  for (int64_t step = 0; words >> step;) steps.push_back(step);
  return steps;
}

/// A checkpoint whose files are not sound.
struct DamagedCheckpoint {
  std::filesystem::path folder;
  std::exception_ptr why;
};

std::string whyOf(const DamagedCheckpoint& damaged) {
  try {
    std::rethrow_exception(damaged.why);
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string textOf(const MetadataValue& value) {
  return std::visit([](const auto& v) { return message(v); }, value);
}

/// The first line of `text` that `other` has not at the same place, without its indentation and
/// the comma at its end.
std::string differingLine(const std::string& text, const std::string& other) {
  std::istringstream lines(text), others(other);
  for (std::string line, same; std::getline(lines, line);)
    if (!std::getline(others, same) || line != same) {
      if (line.ends_with(',')) line.pop_back();
      return line.substr(std::min(line.find_first_not_of(' '), line.size()));
    }
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

std::exception_ptr Engine::tryLoad(const std::filesystem::path& folder, const Optimizer& optimizer,
                                   const Metadata& metadata, int64_t& step) {
  require(!mesh_.dry(), "a dry run has no memory for the weights of a checkpoint");
  background_.await();
  MeshCommunicator* const all = mesh_.communicator(AxisSet::all());
  std::optional<CheckpointReader> reader;
  const auto unreadable = damageOf(all, [&] {
    reader.emplace(folder);
    if (mesh_.rank() == 0) reader->requireFiles();
  });
  if (unreadable) return unreadable;
  const std::vector<StatePart> parts = stateParts(store_, optimizer);
  std::optional<LossScale> scale = scale_;
  int64_t steps = 0;
  together(all, [&] {
    for (const auto& [key, value] : metadata) requireSaved(*reader, folder.string(), key, value);
    reader->requireNames(stateNames(store_, optimizer));
    for (const StatePart& part : parts) requireShape(*reader, folder.string(), part);
    steps = metadataOf<int64_t>(*reader, folder.string(), kSteps);
    readScale(*reader, folder.string(), scale);
  });
  const auto damage = damageOf(all, [&] {
    for (const StatePart& part : parts)
      read(*reader, folder.string(), part, store_.box(*part.parameter), mesh_);
  });
  if (damage) return damage;
  scale_ = scale;
  store_.restored(steps);
  step = reader->step();
  return nullptr;
}

int64_t Engine::load(const std::filesystem::path& folder, const Optimizer& optimizer,
                     const Metadata& metadata) {
  int64_t step = 0;
  if (const auto damage = tryLoad(folder, optimizer, metadata, step))
    std::rethrow_exception(damage);
  return step;
}

std::optional<int64_t> Engine::loadNewest(const std::filesystem::path& root,
                                          const Optimizer& optimizer, const Metadata& metadata,
                                          const std::function<void(const std::string&)>& warn) {
  MeshCommunicator* const all = mesh_.communicator(AxisSet::all());
  std::vector<DamagedCheckpoint> damaged;
  for (const int64_t newest : stepsBelow(root, all, mesh_.rank())) {
    const std::filesystem::path folder = checkpointPath(root, newest);
    int64_t step = 0;
    if (const auto damage = tryLoad(folder, optimizer, metadata, step)) {
      damaged.push_back({folder, damage});
      continue;
    }
    together(all, [&] {
      if (damaged.empty() || mesh_.rank() != 0) return;
      const FolderLock lock(root);
      for (const DamagedCheckpoint& one : damaged)
        warn(message(one.folder.string(), " is damaged, and is ", setAside(one.folder).string(),
                     " now; the training goes on from ", folder.string(), ": ", whyOf(one)));
    });
    return step;
  }
  if (damaged.size() == 1) std::rethrow_exception(damaged[0].why);
  if (!damaged.empty())
    fail(ErrorCode::InvalidArgument, root.string(), ": all of its ", damaged.size(),
         " checkpoints are damaged; the newest: ", whyOf(damaged[0]));
  return std::nullopt;
}

void Engine::loadWeights(const std::filesystem::path& folder) {
  require(!mesh_.dry(), "a dry run has no memory for the weights of a checkpoint");
  together(mesh_.communicator(AxisSet::all()), [&] {
    CheckpointReader reader(folder);
    for (size_t i = 0; i < store_.parameterCount(); ++i) {
      const Parameter& parameter = store_.parameter(i);
      const StatePart part{parameter.name, &parameter, store_.master(parameter)};
      requireShape(reader, folder.string(), part);
      read(reader, folder.string(), part, store_.box(parameter), mesh_);
    }
  });
  store_.restored(0);
}

}  // namespace tutti::parallel
