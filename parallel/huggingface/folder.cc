#include "parallel/huggingface/folder.h"

#include <optional>

#include "parallel/checkpoint/file.h"
#include "parallel/engine/agreement.h"
#include "parallel/huggingface/weights.h"

namespace tutti::parallel {

namespace {

using Writer = SafetensorsBoxWriter;

std::filesystem::path partialOf(std::filesystem::path folder) {
  if (!folder.has_filename()) folder = folder.parent_path();  // of "folder/"
  return folder += ".partial";
}

Writer writerOf(const std::filesystem::path& folder, const FolderExport& what, Writer::Part part) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, shape] : storedTensors(what.options))
    entries.push_back({.name = name, .type = what.type, .shape = shape});
  // transformers refuses a file that does not say whose it is.
  return Writer(folder / kWeightsName, entries, {{"format", "pt"}}, part);
}

/// Everything but the weights.
Writer begin(const std::filesystem::path& folder, const FolderExport& what) {
  const auto partial = partialOf(folder);
  if (std::filesystem::exists(folder))
    fail(ErrorCode::InvalidUsage, folder.string(), " is there already");
  removeFolder(partial);
  makeFolders(partial);
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
  std::optional<Writer> writer;
  together(all, [&] {
    if (mesh.rank() == 0) writer.emplace(begin(folder, what));
  });
  together(all, [&] {
    if (!writer) writer.emplace(writerOf(partialOf(folder), what, Writer::Part::Join));
    for (size_t i = 0; i < store.parameterCount(); ++i)
      write(mesh, store, store.parameter(i), what, *writer);
    writer->finish();
  });
  together(all, [&] {
    if (mesh.rank() == 0) renameFolder(partialOf(folder), folder);
  });
}

}  // namespace tutti::parallel
