#include "parallel/checkpoint/safetensors_boxes.h"

#include "parallel/checkpoint/json.h"
#include "parallel/checkpoint/run_reader.h"
#include "parallel/tensor/check.h"

namespace tutti::parallel {

namespace {

void requireFits(const std::string& file, const SafetensorsEntry& entry, const Box& box,
                 const Tensor& tensor) {
  const std::string where = message(file, ": tensor ", inQuotes(entry.name));
  require(isBoxOf(box, entry.shape), where, ": ", describe(box), " is not inside ", entry.shape);
  require(tensor.type == entry.type && tensor.shape == extentsOf(box) && tensor.contiguous(), where,
          " is ", toString(entry.type), ": ", describe(box), " is not ", tensor);
}

}  // namespace

void readBox(SafetensorsReader& file, const SafetensorsEntry& entry, const Box& box,
             const Tensor& to) {
  requireFits(file.path().string(), entry, box, to);
  const size_t elementBytes = sizeOf(entry.type);
  RunReader runs(file, entry);
  forEachRun(wholeOf(entry.shape), box, [&](const BoxRun& run) {
    runs.read(static_cast<uint64_t>(run.from) * elementBytes,
              static_cast<std::byte*>(to.data) + static_cast<size_t>(run.to) * elementBytes,
              static_cast<size_t>(run.count) * elementBytes);
  });
  file.release();
}

SafetensorsBoxWriter::SafetensorsBoxWriter(const std::filesystem::path& path,
                                           std::vector<SafetensorsEntry> tensors,
                                           std::map<std::string, std::string> metadata, Part part)
    : file_(part == Part::Create ? File::create(path) : File::join(path)) {
  layOut(path.string(), tensors);
  const std::string text = fileHead(path.string(), {tensors, std::move(metadata)});
  dataBegin_ = text.size();
  for (const SafetensorsEntry& entry : tensors) entries_[entry.name] = entry;
  if (part == Part::Create) file_.write(0, text.data(), text.size());
}

void SafetensorsBoxWriter::write(const std::string& name, const Box& box, const Tensor& from) {
  const auto found = entries_.find(name);
  ensure(found != entries_.end(), file_.path(), ": tensor ", inQuotes(name), " was not declared");
  const SafetensorsEntry& entry = found->second;
  requireFits(file_.path().string(), entry, box, from);
  const size_t elementBytes = sizeOf(entry.type);
  forEachRun(box, wholeOf(entry.shape), [&](const BoxRun& run) {
    file_.write(
        dataBegin_ + entry.begin + static_cast<uint64_t>(run.to) * elementBytes,
        static_cast<const std::byte*>(from.data) + static_cast<size_t>(run.from) * elementBytes,
        static_cast<size_t>(run.count) * elementBytes);
  });
}

}  // namespace tutti::parallel
