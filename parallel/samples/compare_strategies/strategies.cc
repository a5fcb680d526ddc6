#include "parallel/samples/compare_strategies/strategies.h"

#include <algorithm>

#include "parallel/samples/device_time.h"

namespace tutti::parallel {

namespace {

constexpr int kTurns = 15;
constexpr size_t kFewBytes = size_t{4} << 10, kManyBytes = size_t{1} << 20;

/// Why the ranks cannot train so; nothing where they can.
std::string whyImpossible(const TrainingJob& job, const TrainingLayout& layout, int ranks) {
  if (layout.mesh.ranks() != ranks)
    return message(ranks, ranks == 1 ? " rank has" : " ranks have", " no halves");
  try {
    dryRunUnder(job, layout, 0);
    return {};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::InvalidArgument) throw;
    return error.what();
  }
}

int64_t expertsOf(const TrainingJob& job) {
  return std::visit([](const auto& options) { return options.experts.count; }, job.model);
}

/// The median of several calls' times, each of which all ranks begin together.
template <class Call>
double medianSeconds(DeviceMesh& mesh, const Call& call) {
  MeshCommunicator* const all = mesh.communicator(AxisSet::all());
  std::vector<double> times;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (all != nullptr) all->barrier();
    times.push_back(timeOnDevice(mesh, call).count());
  }
  std::ranges::nth_element(times, times.begin() + kTurns / 2);
  return times[kTurns / 2];
}

/// One exchange of a kind along tp, whose larger side has so many elements; a message takes what an
/// AllGather of two ranks takes.
void exchange(DeviceMesh& mesh, Kernels& kernels, CollectiveKind kind, int64_t count,
              Arena& memory) {
  const Layout split{.dims = {AxisList{Axis::Tensor}}}, partial{.partial = {Axis::Tensor}};
  const bool sums = kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter;
  const Layout from = sums ? partial : split;
  const Layout to = kind == CollectiveKind::ReduceScatter ? split : Layout{};
  const ArenaScope scope(memory);
  const Shape global{count};
  Tensor x = memory.allocate(DType::Float32, localShape(global, from, mesh.shape(), mesh.place()));
  kernels.fillZero(x);
  x.layout = from;
  rearranged(mesh, x, global, to, memory);
}

}  // namespace

std::string Strategies::describeLeftOut() const {
  std::string text;
  for (const auto& [why, names] : leftOut) {
    text += text.empty() ? "left out: " : "; ";
    for (const std::string& name : names) text += (&name == &names.front() ? "" : ", ") + name;
    text += " (" + why + ")";
  }
  return text;
}

Strategies strategiesOf(const TrainingJob& job, int ranks) {
  Strategies all;
  const auto add = [&](const std::string& name, const std::string& mesh, TrainingLayout layout) {
    layout.mesh = MeshShape::parse(mesh);
    const int64_t sequences = job.batch / layout.mesh.ranks({Axis::Data, Axis::Fsdp, Axis::Expert});
    const bool stages = layout.mesh[Axis::Pipeline] > 1;
    const int64_t each = stages ? 1 : std::max<int64_t>(1, job.batch / ranks);
    layout.microBatches = static_cast<int>(std::max<int64_t>(1, sequences / each));
    if (const std::string why = whyImpossible(job, layout, ranks); !why.empty())
      all.leftOut[why].push_back(name);
    else
      all.possible.push_back({name, layout});
  };
  const auto along = [&](const char* axis) { return message(axis, "=", ranks); };
  const auto beside = [&](const char* two, const char* axis) {
    return message(two, "=2,", axis, "=", std::max(1, ranks / 2));  // of odd ones there is none
  };
  add("DDP", along("dp"), {});
  add("ZeRO-1", along("fsdp"), {.zero = 1});
  add("ZeRO-2", along("fsdp"), {.zero = 2});
  add("ZeRO-3 (FSDP)", along("fsdp"), {.zero = 3});
  add("FSDP, no reshard", along("fsdp"), {.zero = 3, .reshard = Reshard::Never});
  add("hybrid FSDP", beside("dp", "fsdp"), {.zero = 3});
  add("TP", along("tp"), {});
  add("TP with SP", along("tp"), {.sequenceParallel = true});
  add("FSDP x TP with SP", beside("fsdp", "tp"), {.zero = 3, .sequenceParallel = true});
  add("DP x TP", beside("dp", "tp"), {});
  for (const ScheduleKind schedule :
       {ScheduleKind::Naive, ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
        ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV})
    add(message("PP ", toString(schedule)), along("pp"), {.schedule = schedule});
  add("PP x DP", beside("pp", "dp"), {});
  add("PP x TP", beside("pp", "tp"), {});
  add("CP ring", along("cp"), {});
  add("CP heads", along("cp"), {.contextAttention = ContextAttention::Heads});
  add("DP x CP ring", beside("dp", "cp"), {});
  if (expertsOf(job) > 0) {
    add("EP", along("ep"), {});
    add("DP x EP", beside("dp", "ep"), {});
    add("FSDP x EP", beside("fsdp", "ep"), {.zero = 3});
    add("EP x TP", beside("ep", "tp"), {});
    add("PP x EP", beside("pp", "ep"), {});
  }
  add("DDP, recompute attention", along("dp"), {.recompute = Recompute::Attention});
  add("DDP, recompute block", along("dp"), {.recompute = Recompute::Block});
  return all;
}

MeasuredNetwork::MeasuredNetwork(SampleRank& rank) {
  const int ranks = rank.mesh.ranks();
  for (int size = 2; size <= ranks; ++size) {
    if (ranks % size != 0) continue;
    MeshShape shape;
    shape[Axis::Fsdp] = ranks / size;
    shape[Axis::Tensor] = size;
    DeviceMesh groups = rank.mesh.arranged(shape);
    Arena memory("measured", groups.backing());
    for (const CollectiveKind kind : kCollectiveKinds) {
      const auto time = [&](size_t bytes) {
        return medianSeconds(groups, [&] {
          exchange(groups, rank.kernels, kind, static_cast<int64_t>(bytes / sizeof(float)), memory);
        });
      };
      const double few = time(kFewBytes), many = time(kManyBytes);
      const double byte = std::max(0.0, (many - few) / double(kManyBytes - kFewBytes));
      lines_[{kind, size}] = {std::max(0.0, few - byte * double(kFewBytes)), byte};
    }
  }
}

double MeasuredNetwork::seconds(const MeshShape& mesh, AxisSet axes, CollectiveKind kind,
                                double bytes) {
  const int ranks = kind == CollectiveKind::Message ? 2 : mesh.ranks(axes);
  const auto found = lines_.find({kind, ranks});
  return found == lines_.end() ? 0 : found->second.call + found->second.byte * bytes;
}

double CopyingNetwork::seconds(const MeshShape& mesh, AxisSet axes, CollectiveKind kind,
                               double bytes) {
  const double ranks = mesh.ranks(axes), ofOthers = bytes * (ranks - 1) / ranks;
  const double copied = kind == CollectiveKind::Message     ? bytes
                        : kind == CollectiveKind::AllReduce ? 2 * ofOthers
                                                            : ofOthers;
  return copied / bytesPerSecond_;
}

}  // namespace tutti::parallel
