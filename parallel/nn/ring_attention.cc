#include "parallel/nn/ring_attention.h"

#include <array>

#include "parallel/store/reached.h"

namespace tutti::parallel {

namespace {

/// Positions that lie one after the other in a rank's own rows.
struct Run {
  int64_t row = 0, position = 0, count = 0;  // where they begin: in these rows, in the sequence

  Range range() const { return {position, position + count}; }
  /// Of x [batch, own rows, width].
  Tensor of(const Tensor& x) const { return x.part(1, row, count); }
  /// Of x [batch, heads, own rows].
  Tensor ofSums(const Tensor& x) const { return x.part(2, row, count); }
};

std::array<Run, 2> runsOf(const SequenceCut& cut, int rank) {
  const auto [early, late] = cut.pieces(rank);
  return {{{0, early.begin, early.count()}, {early.count(), late.begin, late.count()}}};
}

/// What a rank has of its queries, keys and values [batch, own rows, columns].
struct Columns {
  int64_t width, kvWidth;  // of queries, of keys

  Columns(const Tensor& qkv, int64_t heads, int64_t kvHeads)
      : width(qkv.shape[2] / (heads + 2 * kvHeads) * heads), kvWidth(width / heads * kvHeads) {}
  Tensor queries(const Tensor& qkv) const { return qkv.part(2, 0, width); }
  Tensor keysValues(const Tensor& qkv) const { return qkv.part(2, width, 2 * kvWidth); }
  /// Of what travels, [batch, rows, 2 * kvWidth].
  Tensor keys(const Tensor& pair) const { return pair.part(2, 0, kvWidth); }
  Tensor values(const Tensor& pair) const { return pair.part(2, kvWidth, kvWidth); }
};

/// The way of keys and values round the ranks.
class Ring {
 public:
  Ring(ParallelContext& context, const Tensor& qkv, const Columns& columns, int64_t length)
      : cut(context.sequences.cutOf(length)),
        rank(context.sequences.rank()),
        next((rank + 1) % cut.ranks),
        previous((rank + cut.ranks - 1) % cut.ranks),
        context_(context),
        batch_(qkv.shape[0]),
        width_(2 * columns.kvWidth),
        passed_(context.mesh.device()) {}

  const SequenceCut cut;
  const int rank, next, previous;

  /// Whose keys and values are here in a step.
  int owner(int step) const { return cut.ownerOf(rank, step); }
  /// Room for those of any rank.
  Tensor room(DType type) const {
    return context_.scratch.allocate(type, {batch_, cut.most(), width_});
  }
  /// That room, with those that are here in `step`.
  Tensor in(const Tensor& memory, int step) const {
    return Tensor(memory.data, memory.type, {batch_, cut.count(owner(step)), width_});
  }
  /// Begins to send and to receive; finish() waits for it.
  void begin(std::span<const MeshMessage> messages) {
    Stream& stream = context_.sequences.stream();
    const Trace::OnStreamSpan span(context_.mesh.trace(), stream, "send and receive",
                                   Trace::Lane::Positions);
    context_.sequences.group().exchange(messages, stream);
    passed_.record(stream);
  }
  void finish() {
    continueBehind(passed_, context_.sequences.stream(), context_.mesh, "receive",
                   Awaited::Context);
  }

  /// Calls visit(queries, keys) for the pieces of this rank's queries that see some of the keys
  /// that are here; in step 0 first with their own keys.
  template <class Visit>
  void forEachSeen(int step, const Visit& visit) const {
    const auto [early, late] = runsOf(cut, owner(step));
    for (const Run& queries : runsOf(cut, rank))
      for (const Run& keys : {late, early})
        if (SequenceCut::sees(queries.range(), keys.range())) visit(queries, keys);
  }

 private:
  ParallelContext& context_;
  const int64_t batch_, width_;
  Event passed_;
};

/// Kernels::attention of a rank's queries, step by step.
class Forward {
 public:
  Forward(ParallelContext& context, const AttentionArgs& own, int64_t length)
      : context_(context),
        own_(own),
        columns_(own.qkv, own.heads, own.kvHeads),
        ring_(context, own.qkv, columns_, length),
        sums_(statisticsType(own.out.type)),
        memory_{ring_.room(own.qkv.type), ring_.room(own.qkv.type)},
        out_(sums_ == own.out.type ? own.out : context.scratch.allocate(sums_, own.out.shape)),
        part_(scratch(ring_.cut.mostOfPiece(), columns_.width)),
        partSums_(scratch(own.heads, ring_.cut.mostOfPiece())) {}

  void run() {
    context_.kernels.copy(columns_.keysValues(own_.qkv), here(0));
    for (int step = 0; step < ring_.cut.ranks; ++step) {
      const bool last = step + 1 == ring_.cut.ranks;
      if (!last) pass(step);
      ring_.forEachSeen(
          step, [&](const Run& queries, const Run& keys) { attend(here(step), queries, keys); });
      if (!last) ring_.finish();
    }
    // Sums of bfloat16 are rounded once.
    if (sums_ != own_.out.type) context_.kernels.copy(out_, own_.out);
  }

 private:
  Tensor scratch(int64_t rows, int64_t width) const {
    return context_.scratch.allocate(sums_, {own_.out.shape[0], rows, width});
  }
  Tensor here(int step) const { return ring_.in(memory_[static_cast<size_t>(step % 2)], step); }

  void pass(int step) {
    constexpr Purpose purpose = Purpose::RingKeysValues;
    ring_.begin(std::array{MeshMessage::to(ring_.next, purpose, here(step)),
                           MeshMessage::from(ring_.previous, purpose, here(step + 1))});
  }

  /// Of queries the first keys are their own, so that there is something to merge with.
  void attend(const Tensor& pair, const Run& queries, const Run& keys) {
    AttentionBlockArgs block{.query = queries.of(columns_.queries(own_.qkv)),
                             .key = keys.of(columns_.keys(pair)),
                             .value = keys.of(columns_.values(pair)),
                             .out = queries.of(out_),
                             .logSumExp = queries.ofSums(own_.logSumExp),
                             .heads = own_.heads,
                             .kvHeads = own_.kvHeads,
                             .firstQuery = queries.position,
                             .firstKey = keys.position};
    if (queries.position == keys.position)
      return context_.kernels.attentionBlock(block, context_.scratch);
    const int64_t batch = own_.out.shape[0];
    const AttentionMergeArgs merge{
        .part = Tensor(part_.data, sums_, {batch, queries.count, columns_.width}),
        .partLogSumExp = Tensor(partSums_.data, sums_, {batch, own_.heads, queries.count}),
        .out = block.out,
        .logSumExp = block.logSumExp,
        .heads = own_.heads};
    block.out = merge.part;
    block.logSumExp = merge.partLogSumExp;
    context_.kernels.attentionBlock(block, context_.scratch);
    context_.kernels.attentionMerge(merge);
  }

  ParallelContext& context_;
  const AttentionArgs& own_;
  const Columns columns_;
  Ring ring_;
  const DType sums_;
  const std::array<Tensor, 2> memory_;  // keys and values, in turn: that are here, that come
  const Tensor out_, part_, partSums_;
};

/// Kernels::attentionBackward of a rank's queries, and of its keys with those of all ranks.
class Backward {
 public:
  Backward(ParallelContext& context, const AttentionBackwardArgs& own, int64_t length)
      : context_(context),
        own_(own),
        columns_(own.qkv, own.heads, own.kvHeads),
        ring_(context, own.qkv, columns_, length),
        sums_(statisticsType(own.out.type)),
        memory_{ring_.room(own.qkv.type), ring_.room(own.qkv.type)},
        gradients_{ring_.room(sums_), ring_.room(sums_)},
        added_(ring_.room(sums_)),
        dQuery_(context.scratch.allocate(sums_, own.out.shape)) {}

  void run() {
    Kernels& kernels = context_.kernels;
    kernels.copy(columns_.keysValues(own_.qkv), here(0));
    kernels.fillZero(dQuery_);
    for (int step = 0; step < ring_.cut.ranks; ++step) {
      pass(step);
      const Tensor mine = step == 0 ? gradients(0) : ring_.in(added_, step);
      kernels.fillZero(mine);
      ring_.forEachSeen(step, [&](const Run& queries, const Run& keys) {
        attend(here(step), mine, queries, keys);
      });
      ring_.finish();
      if (step > 0) kernels.add(mine, gradients(step));
    }
    pass(ring_.cut.ranks);
    ring_.finish();
    kernels.copy(dQuery_, columns_.queries(own_.dQkv));
    kernels.copy(gradients(ring_.cut.ranks), columns_.keysValues(own_.dQkv));
  }

 private:
  Tensor here(int step) const { return ring_.in(memory_[static_cast<size_t>(step % 2)], step); }
  Tensor gradients(int step) const {
    return ring_.in(gradients_[static_cast<size_t>(step % 2)], step);
  }

  /// Keys and values as long as there are ranks that have not had them; and the gradients that the
  /// step before has added to, which are home after the last step.
  void pass(int step) {
    std::vector<MeshMessage> messages;
    if (step + 1 < ring_.cut.ranks) {
      constexpr Purpose purpose = Purpose::RingKeysValuesAgain;
      messages.push_back(MeshMessage::to(ring_.next, purpose, here(step)));
      messages.push_back(MeshMessage::from(ring_.previous, purpose, here(step + 1)));
    }
    if (step > 0) {
      constexpr Purpose purpose = Purpose::RingGradients;
      messages.push_back(MeshMessage::to(ring_.next, purpose, gradients(step - 1)));
      messages.push_back(MeshMessage::from(ring_.previous, purpose, gradients(step)));
    }
    ring_.begin(messages);
  }

  void attend(const Tensor& pair, const Tensor& gradient, const Run& queries, const Run& keys) {
    context_.kernels.attentionBlockBackward({.dOut = queries.of(own_.dOut),
                                             .query = queries.of(columns_.queries(own_.qkv)),
                                             .key = keys.of(columns_.keys(pair)),
                                             .value = keys.of(columns_.values(pair)),
                                             .out = queries.of(own_.out),
                                             .logSumExp = queries.ofSums(own_.logSumExp),
                                             .dQuery = queries.of(dQuery_),
                                             .dKey = keys.of(columns_.keys(gradient)),
                                             .dValue = keys.of(columns_.values(gradient)),
                                             .heads = own_.heads,
                                             .kvHeads = own_.kvHeads,
                                             .firstQuery = queries.position,
                                             .firstKey = keys.position},
                                            context_.scratch);
  }

  ParallelContext& context_;
  const AttentionBackwardArgs& own_;
  const Columns columns_;
  Ring ring_;
  const DType sums_;
  const std::array<Tensor, 2> memory_, gradients_;  // in turn
  const Tensor added_;                              // to gradients, in a step
  const Tensor dQuery_;
};

}  // namespace

void ringAttention(ParallelContext& context, const AttentionArgs& own, int64_t length) {
  const ArenaScope scope(context.scratch);
  Forward(context, own, length).run();
}

void ringAttentionBackward(ParallelContext& context, const AttentionBackwardArgs& own,
                           int64_t length) {
  const ArenaScope scope(context.scratch);
  Backward(context, own, length).run();
}

}  // namespace tutti::parallel
