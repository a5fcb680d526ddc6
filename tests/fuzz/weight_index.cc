// model.safetensors.index.json of a Hugging Face folder, whose weights lie in two files.
//
// The first "@" stands for a good map of all tensors.

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "parallel/checkpoint/json.h"
#include "parallel/huggingface/weights.h"
#include "tests/fuzz/fuzz.h"

namespace tutti::fuzz {
namespace {

using parallel::SafetensorsEntry;

constexpr const char* kFiles[] = {"a.safetensors", "b.safetensors"};

class Folder {
 public:
  Folder() {
    std::string path = std::filesystem::temp_directory_path() / "tutti-fuzz-XXXXXX";
    expect(::mkdtemp(path.data()) != nullptr, "there is a folder");
    path_ = path;
    std::vector<SafetensorsEntry> parts[2];
    for (const auto& [name, shape] : parallel::storedTensors(options_)) {
      const size_t file = parts[0].size() <= parts[1].size() ? 0 : 1;
      parts[file].push_back({.name = name, .type = parallel::DType::Float32, .shape = shape});
      map_ += (map_.empty() ? "" : ",") + parallel::inQuotes(name) + ":" +
              parallel::inQuotes(kFiles[file]);
    }
    for (size_t file = 0; file < 2; ++file) write(kFiles[file], parts[file]);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// Reads the folder with that index.
  void read(std::string index) const {
    if (const size_t at = index.find('@'); at != index.npos) index.replace(at, 1, map_);
    std::ofstream(path_ / "model.safetensors.index.json", std::ios::binary | std::ios::trunc)
        << index;
    const parallel::WeightFolder weights(path_, options_);
  }

 private:
  void write(const char* name, std::vector<SafetensorsEntry> tensors) const {
    parallel::SafetensorsHeader header;
    parallel::layOut(name, tensors);
    const uint64_t dataBytes = tensors.back().end;
    header.entries = std::move(tensors);
    std::ofstream(path_ / name, std::ios::binary)
        << parallel::fileHead(name, header) << std::string(dataBytes, '\0');
  }

  const parallel::ModelOptions options_ =
      parallel::LlamaOptions{.vocabulary = 2, .context = 2, .layers = 1, .width = 2, .heads = 1};
  std::filesystem::path path_;
  std::string map_;
};

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  static const fuzz::Folder folder;
  // System: the index names a file that is not there.
  fuzz::takes({ErrorCode::InvalidArgument, ErrorCode::System},
              [&] { folder.read(fuzz::Input(data, size).text()); });
  return 0;
}
