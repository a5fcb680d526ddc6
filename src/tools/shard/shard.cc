#include "src/tools/shard/shard.h"

#include "src/tools/common/command_line.h"
#include "src/tools/common/names.h"
#include "src/tools/common/output_file.h"
#include "src/tools/shard/shard_report.h"

namespace tutti::tools {
namespace {
constexpr int kMostSharding = 4096;
}  // namespace

std::variant<ShardOptions, int> parseShard(int argc, const char* const* argv) {
  ShardOptions o;
  std::string product, mesh, sizes, type = "float32";
  CommandLine app(
      "How ranks compute a product of tensors of which each has a part: what they send, how long\n"
      "that takes, and what each of them computes",
      "tutti shard");
  app.add_option("product", product,
                 "like \"A[I,Jx] B[Jx,K] -> C[I,K]\": capital letters are indices, small ones the "
                 "axes of the mesh that split them, {Ux} behind a tensor that it is a sum over x")
      ->required();
  app.add_option("--mesh", mesh,
                 "the axes and how many ranks are along each, outermost first: x=4,y=2")
      ->required();
  app.add_option("--sizes", sizes, "of all indices: I=4096,J=4096,K=4096")->required();
  app.add_option("-t,--type", type, "element type: " + listOfNames(typeNames()));
  const JobOptions job(app);
  app.addOutput("--json", o.jsonFile, "also write it to this file, as JSON in one line");
  if (const auto code = app.read(argc, argv)) return *code;
  o.mesh = parallel::parseMesh("--mesh", mesh, kMostSharding);
  o.product = parallel::parseProduct(product, o.mesh.letters);
  o.sizes = parallel::parseSizes("--sizes", sizes, o.product);
  o.type = typeNamed("--type", type);
  o.job = job.parsed(o.mesh.shape.ranks());
  return o;
}

int shardMain(int argc, char** argv) {
  return runProgram<ShardOptions>(
      "tutti shard", [&] { return parseShard(argc, argv); },
      [](const ShardOptions& o) {
        const ShardReport report = shardReport(o);
        writeIfNamed("--json", o.jsonFile, [&] { return shardJson(report); });
        printBeside(shardText(report), {o.jsonFile});
        return 0;
      });
}

}  // namespace tutti::tools
