// data_parallel: as ddp, in one process that drives several devices with a thread for each. Their
// communicators are made without a launcher. `data_parallel --ranks 4`

#include <exception>
#include <thread>

#include "parallel/samples/device.h"
#include "parallel/samples/sample.h"
#include "parallel/tensor/check.h"

namespace {

using namespace tutti;
using namespace tutti::parallel;

void train(SampleRank& rank) {
  const SampleOptions& o = rank.options;
  ShardPolicy policy = ShardPolicy::ddp();
  policy.deterministic = o.deterministic;

  Gpt model(o.model);
  Engine engine(rank.mesh, rank.kernels, model, {.policy = policy, .seed = kSampleSeed});
  const std::vector<uint8_t> text = sampleText();
  Loader loader(text, o.model.context, o.batch, kSampleSeed);
  const auto optimizer = makeAdamW({});

  for (int64_t step = 0; step < o.steps; ++step)
    rank.show(step, engine.step(loader, step, *optimizer, 0.003));
  rank.showUse(engine);
}

/// One for each rank.
std::vector<Device> devicesOf(const SampleOptions& options, int ranks) {
  std::vector<Device> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(deviceFor(options.device, rank));
  require(options.device == "host" || ranks <= deviceCount(DeviceKind::Cuda), "--ranks ", ranks,
          ": with --device ", options.device, " each has a device of its own, and there are ",
          deviceCount(DeviceKind::Cuda));
  return devices;
}

/// A rank that fails leaves its communicator, so that the others end too.
void trainOnThreads(const SampleOptions& options, int ranks) {
  auto communicators = Communicator::createLocal(
      ranks, {.deterministic = options.deterministic, .devices = devicesOf(options, ranks)});
  std::vector<std::exception_ptr> failures(communicators.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < communicators.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        DeviceMesh mesh(std::move(communicators[r]));
        const auto kernels = kernelsFor(mesh);
        SampleRank rank(mesh, *kernels, options);
        train(rank);
      } catch (...) {
        failures[r] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace

int main(int argc, char** argv) {
  return runSample(argc, argv,
                   {.name = "data_parallel",
                    .about = "Trains a small GPT over several devices of one process, a thread for "
                             "each.",
                    .mesh = [](int ranks) { return MeshShape::along(Axis::Data, ranks); },
                    .train = train,
                    .trainOnThreads = trainOnThreads});
}
