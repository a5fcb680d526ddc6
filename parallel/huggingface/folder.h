#pragma once

// Hugging Face folders, in and out: models that `transformers` has saved are trained on, and what
// was trained here is theirs to run, under any layout of either side.

#include <filesystem>
#include <string>

#include "parallel/huggingface/config.h"
#include "parallel/mesh/device_mesh.h"
#include "parallel/store/parameter_store.h"

namespace tutti::parallel {

/// The model of a folder: readConfig(), whose sizes are those of the weights that lie beside it.
/// Throws InvalidArgument, naming the key or the tensor, when they are not.
ModelOptions readModel(const std::filesystem::path& folder);

/// Gives the weights of `store`, which are those of a model of the folder's readConfig(), or of the
/// same with a shorter context, the values of the folder's; each rank reads what it holds. Returns
/// how many bytes of tensors this rank has read. Collective; throws InvalidArgument on all ranks,
/// naming file and tensor, and System where something cannot be read; weights are then undefined.
uint64_t loadWeights(DeviceMesh& mesh, ParameterStore& store, const std::filesystem::path& folder);

struct FolderExport {
  ModelOptions options;         ///< of the model whose weights they are
  DType type = DType::Float32;  ///< of what is written: float32 or bfloat16
  std::string tokenizer;        ///< text of tokenizer.json; empty: there will be none
};

/// Makes `folder`, in which config.json and model.safetensors will be; each rank writes what it
/// holds, so all of them must see it. It gets its name when it is complete; until then it is a
/// folder beside it, made for this alone. Collective; throws InvalidArgument as
/// requireExportable(), InvalidUsage on all ranks when there is something of that name, System
/// where the disk refuses.
void exportFolder(DeviceMesh& mesh, ParameterStore& store, const std::filesystem::path& folder,
                  const FolderExport& what);

}  // namespace tutti::parallel
