// What `tutti shard` says, as JSON: the fields of ShardReport under names with underscores.

#include "src/tools/common/json.h"
#include "src/tools/shard/shard_report.h"

namespace tutti::tools {
namespace {

Json shapeOf(const parallel::Shape& shape) {
  Json extents = Json::array();
  for (int d = 0; d < shape.rank(); ++d) extents.push_back(shape[d]);
  return extents;
}

Json tensorOf(const ShardTensor& t) {
  return {{"tensor", t.text},
          {"shape", shapeOf(t.shape)},
          {"bytes", t.bytes},
          {"part", shapeOf(t.part)},
          {"part_bytes", t.partBytes}};
}

Json caseOf(const ShardCase& c) {
  return {{"axis", std::string(1, c.axis)},
          {"case", c.number == 0 ? Json(nullptr) : Json(c.number)},
          {"words", c.words}};
}

Json stepOf(const ShardStep& step) {
  Json json{{"what", step.what}, {"before", step.before}, {"after", step.after}};
  if (step.axis == 0) {
    json["flops"] = step.flops;
    return json;
  }
  json["tensor"] = step.tensor;
  json["axis"] = std::string(1, step.axis);
  json["ranks"] = step.ranks;
  json["sent_bytes"] = step.sentBytes;
  json["algorithm"] = step.algorithm.empty() ? Json(nullptr) : Json(step.algorithm);
  json["us"] = step.microseconds;
  return json;
}

Json wayOf(const ShardWay& way) {
  return {{"sent_bytes", way.sentBytes},
          {"us", way.microseconds},
          {"flops", way.flops},
          {"steps", arrayOf(way.steps, stepOf)}};
}

}  // namespace

std::string shardJson(const ShardReport& report) {
  const Json json{{"product", report.product},
                  {"mesh", report.mesh},
                  {"ranks", report.ranks},
                  {"type", toString(report.type)},
                  {"flops", report.flops},
                  {"tensors", arrayOf(report.tensors, tensorOf)},
                  {"cases", arrayOf(report.cases, caseOf)},
                  {"ways", arrayOf(report.ways, wayOf)}};
  return jsonLine(json);
}

}  // namespace tutti::tools
