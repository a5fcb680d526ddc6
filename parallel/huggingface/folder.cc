#include "parallel/huggingface/folder.h"

#include <optional>

#include "parallel/checkpoint/file.h"
#include "parallel/engine/agreement.h"
#include "parallel/huggingface/weights.h"

namespace tutti::parallel {

namespace {

using Writer = SafetensorsBoxWriter;

/// The folder of an export until it is complete: made for it alone, and removed with it otherwise.
class ExportFolder {
 public:
  explicit ExportFolder(const std::filesystem::path& complete)
      : complete_(complete), partial_(makeFolderBeside(complete)) {}
  ~ExportFolder() {
    std::error_code ignored;  // another error is being thrown
    if (!isComplete_) std::filesystem::remove_all(partial_, ignored);
  }
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;

  const std::filesystem::path& partial() const { return partial_; }
  void complete() {
    renameNew(partial_, complete_.has_filename() ? complete_ : complete_.parent_path());
    isComplete_ = true;
  }

 private:
  const std::filesystem::path complete_, partial_;
  bool isComplete_ = false;
};

Writer writerOf(const std::filesystem::path& folder, const FolderExport& what, Writer::Part part) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, shape] : storedTensors(what.options))
    entries.push_back({.name = name, .type = what.type, .shape = shape});
  // transformers refuses a file that does not say whose it is.
  return Writer(folder / kWeightsName, entries, {{"format", "pt"}}, part);
}

/// Everything but the weights.
Writer begin(const std::filesystem::path& partial, const FolderExport& what) {
  writeText(partial / "config.json", configText(what.options, what.type));
  if (!what.tokenizer.empty()) writeText(partial / "tokenizer.json", what.tokenizer);
  return writerOf(partial, what, Writer::Part::Create);
}

void write(const DeviceMesh& mesh, ParameterStore& store, const Parameter& parameter,
           const FolderExport& what, Writer& writer) {
  if (!store.isFirstReplica(parameter)) return;
  const Tensor master = store.master(parameter);
  std::vector<std::byte> room;
  const Tensor held = mesh.onHost(master, room);
  mesh.download(master, held.data);
  for (const StoredPart& part :
       storedParts(what.options, parameter.name, store.box(parameter), held)) {
    const Shape extents = extentsOf(part.box);
    std::vector<std::byte> bytes(byteCount(what.type, extents));
    const Tensor stored(bytes.data(), what.type, extents);
    convert(part.held, stored, part.place.transposed);
    writer.write(part.place.tensor, part.box, stored);
  }
}

}  // namespace

ModelOptions readModel(const std::filesystem::path& folder) {
  ModelOptions options = readConfig(folder);
  const WeightFolder compared(folder, options);
  return options;
}

uint64_t loadWeights(DeviceMesh& mesh, ParameterStore& store, const std::filesystem::path& folder) {
  require(!mesh.dry(), "a dry run has no memory for the weights of a folder");
  uint64_t bytes = 0;
  together(mesh.communicator(AxisSet::all()), [&] {
    WeightFolder weights(folder, readConfig(folder));
    for (size_t i = 0; i < store.parameterCount(); ++i) {
      const Parameter& parameter = store.parameter(i);
      const Tensor master = store.master(parameter);
      std::vector<std::byte> room;
      const Tensor ofHost = mesh.onHost(master, room);
      weights.read(parameter.name, store.box(parameter), ofHost);
      mesh.upload(ofHost.data, master);
    }
    bytes = weights.bytesRead();
  });
  store.restored(0);
  return bytes;
}

void exportFolder(DeviceMesh& mesh, ParameterStore& store, const std::filesystem::path& folder,
                  const FolderExport& what) {
  require(!mesh.dry(), "a dry run has no weights to export");
  requireExportable(what.options);
  MeshCommunicator* all = mesh.communicator(AxisSet::all());
  std::optional<ExportFolder> made;  // on rank 0
  std::optional<Writer> writer;
  together(all, [&] {
    if (mesh.rank() != 0) return;
    if (std::filesystem::exists(folder))
      fail(ErrorCode::InvalidUsage, folder.string(), " is there already");
    made.emplace(folder);
    writer.emplace(begin(made->partial(), what));
  });
  const std::filesystem::path partial =
      exchangeTexts(all, made ? made->partial().string() : "").front();
  together(all, [&] {
    if (!writer) writer.emplace(writerOf(partial, what, Writer::Part::Join));
    for (size_t i = 0; i < store.parameterCount(); ++i)
      write(mesh, store, store.parameter(i), what, *writer);
    writer->finish();
  });
  together(all, [&] {
    if (!made) return;
    syncFolder(partial);
    made->complete();
  });
}

}  // namespace tutti::parallel
