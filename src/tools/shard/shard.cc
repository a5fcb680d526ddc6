#include "src/tools/shard/shard.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "src/base/check.h"
#include "src/base/printable.h"
#include "src/tools/shard/shard_report.h"

namespace tutti::tools {
namespace {
constexpr int kMostSharding = 4096;
}  // namespace

std::variant<ShardOptions, int> parseShard(int argc, const char* const* argv) {
  ShardOptions o;
  std::string product, mesh, sizes, type = "float32";
  CLI::App app{
      "How ranks compute a product of tensors of which each has a part: what they send, how long\n"
      "that takes, and what each of them computes",
      "tutti shard"};
  app.add_option("product", product,
                 "like \"A[I,Jx] B[Jx,K] -> C[I,K]\": capital letters are indices, small ones the "
                 "axes of the mesh that split them, {Ux} behind a tensor that it is a sum over x")
      ->required();
  app.add_option("--mesh", mesh,
                 "the axes and how many ranks are along each, outermost first: x=4,y=2")
      ->required();
  app.add_option("--sizes", sizes, "of all indices: I=4096,J=4096,K=4096")->required();
  app.add_option("-t,--type", type, "element type")->capture_default_str();
  const JobOptions job(app);
  app.add_flag("--json", o.json, "one line for programs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  o.mesh = parallel::parseMesh("--mesh", mesh, kMostSharding);
  o.product = parallel::parseProduct(product, o.mesh.letters);
  o.sizes = parallel::parseSizes("--sizes", sizes, o.product);
  const auto parsedType = parseDataType(type);
  TUTTI_REQUIRE(parsedType, "--type ", type, " is no element type");
  o.type = *parsedType;
  o.job = job.parsed(o.mesh.shape.ranks());
  return o;
}

int shardMain(int argc, char** argv) {
  try {
    const auto parsed = parseShard(argc, argv);
    if (const int* code = std::get_if<int>(&parsed)) return *code;
    const auto& options = std::get<ShardOptions>(parsed);
    const ShardReport report = shardReport(options);
    std::fputs((options.json ? shardJson(report) : shardText(report)).c_str(), stdout);
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "tutti shard: %s\n", base::printableLines(e.what()).c_str());
    return e.code() == ErrorCode::InvalidArgument ? 2 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tutti shard: %s\n", base::printableLines(e.what()).c_str());
    return 1;
  }
}

}  // namespace tutti::tools
