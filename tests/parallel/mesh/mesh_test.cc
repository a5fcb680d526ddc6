#include "parallel/mesh/device_mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/parallel/support/on_ranks.h"

namespace tutti::parallel {
namespace {

TEST(MeshShape, IsReadAndWritten) {
  const MeshShape shape = MeshShape::parse("tp=4,dp=2");
  EXPECT_EQ(shape[Axis::Tensor], 4);
  EXPECT_EQ(shape[Axis::Data], 2);
  EXPECT_EQ(shape.ranks(), 8);
  EXPECT_EQ(shape.describe(), "dp=2,tp=4");
  EXPECT_EQ(MeshShape::parse(shape.describe()), shape);
  EXPECT_EQ(MeshShape::parse("").describe(), "one rank");
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      MeshShape::parse(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal("dp=2,xp=4"),
            "the mesh \"dp=2,xp=4\": there is no axis xp among pp, dp, fsdp, cp, ep, tp, rep");
  EXPECT_EQ(refusal("dp=2,dp=4"), "the mesh \"dp=2,dp=4\": dp is there twice");
  EXPECT_EQ(refusal("dp"), "the mesh \"dp\": \"dp\" is not like name=number");
  EXPECT_EQ(refusal("dp=2,"), "the mesh \"dp=2,\": \"\" is not like name=number");
  EXPECT_EQ(refusal(",dp=2"), "the mesh \",dp=2\": \"\" is not like name=number");
  EXPECT_EQ(refusal("=2"), "the mesh \"=2\": \"=2\" is not like name=number");
  EXPECT_EQ(refusal("tp=x"), "the mesh \"tp=x\": tp is \"x\", not a number from 1 to 2147483647");
  for (const char* wrong : {"dp=", "dp=0", "dp=-1", "dp=2x", "dp= 2", "dp=99999999999"})
    EXPECT_NE(refusal(wrong).find("not a number from 1 to"), std::string::npos) << wrong;
  EXPECT_EQ(refusal("dp=65536,tp=65536"),
            "a mesh of dp=65536,tp=65536 has more than 2147483647 ranks");
}

TEST(MeshShape, CountsRanksAlongAxes) {
  const MeshShape shape = MeshShape::parse("pp=2,dp=3,tp=5");
  EXPECT_EQ(shape.ranks(), 30);
  EXPECT_EQ(shape.ranks({Axis::Data, Axis::Tensor, Axis::Context}), 15);
  EXPECT_EQ(shape.ranks({}), 1);
  MeshShape none;
  none[Axis::Data] = 0;
  EXPECT_THROW(none.ranks(), Error);
}

TEST(MeshShape, NestsAxesWithTensorInnermost) {
  const MeshShape shape = MeshShape::parse("pp=2,dp=3,tp=2");
  std::set<MeshPlace> places;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const MeshPlace place = placeOf(shape, rank);
    EXPECT_EQ(rankAt(shape, place), rank);
    places.insert(place);
  }
  EXPECT_EQ(places.size(), 12U);
  EXPECT_EQ(placeOf(shape, 1)[static_cast<size_t>(Axis::Tensor)], 1);
  EXPECT_EQ(placeOf(shape, 2)[static_cast<size_t>(Axis::Data)], 1);
  EXPECT_EQ(placeOf(shape, 6)[static_cast<size_t>(Axis::Pipeline)], 1);
}

TEST(DeviceMesh, HasACommunicatorForEverySetOfAxes) {
  const MeshShape shape = MeshShape::parse("dp=2,fsdp=2,tp=2");
  onRanks(shape, false, [&](DeviceMesh& mesh) {
    EXPECT_EQ(mesh.place(), placeOf(shape, mesh.rank()));
    for (const AxisSet axes :
         {AxisSet{Axis::Tensor}, AxisSet{Axis::Data}, AxisSet{Axis::Data, Axis::Tensor},
          AxisSet{Axis::Fsdp, Axis::Tensor}, AxisSet{Axis::Data, Axis::Fsdp, Axis::Tensor}}) {
      MeshCommunicator* const group = mesh.communicator(axes);
      ASSERT_NE(group, nullptr);
      EXPECT_EQ(mesh.communicator(axes), group) << "made twice";
      EXPECT_EQ(group->size(), shape.ranks(axes));
      // Everybody's place along the other axes is the same, and along these in order.
      std::vector<int32_t> ranks(static_cast<size_t>(group->size()));
      const int32_t own = mesh.rank();
      group->allGather(Purpose::Texts,
                       {.send = &own, .recv = ranks.data(), .count = 1, .type = DataType::Int32});
      EXPECT_TRUE(std::is_sorted(ranks.begin(), ranks.end()));
      EXPECT_NE(std::ranges::find(ranks, own), ranks.end());
      for (const int32_t rank : ranks)
        for (const Axis axis : {Axis::Data, Axis::Fsdp, Axis::Tensor})
          if (!axes.contains(axis)) {
            EXPECT_EQ(placeOf(shape, rank)[static_cast<size_t>(axis)], mesh.index(axis));
          }
    }
    EXPECT_EQ(mesh.communicator({Axis::Pipeline}), nullptr);
    EXPECT_EQ(mesh.communicator({Axis::Pipeline, Axis::Tensor}), mesh.communicator({Axis::Tensor}));
    EXPECT_EQ(mesh.communicator({}), nullptr);
    const Memory memory = mesh.allocate({Axis::Tensor}, 1000);
    EXPECT_EQ(memory.bytes(), 1000U);
  });
}

// Of the others nobody takes part.
TEST(DeviceMesh, MakesCommunicatorsOfThoseWhoAsk) {
  onRanks(MeshShape::parse("dp=2,tp=2"), false, [](DeviceMesh& mesh) {
    if (mesh.index(Axis::Data) == 1) return;
    EXPECT_EQ(mesh.communicator({Axis::Tensor})->size(), 2);
    mesh.communicator({Axis::Tensor})->barrier();
  });
}

TEST(DeviceMesh, OfTheWholeJobIsItsCommunicator) {
  onRanks(MeshShape::parse("tp=3"), false, [](DeviceMesh& mesh) {
    MeshCommunicator* const all = mesh.communicator({Axis::Tensor});
    EXPECT_EQ(all->size(), 3);
    EXPECT_EQ(all->rank(), mesh.rank());
    EXPECT_EQ(mesh.communicator({Axis::Data, Axis::Tensor}), all);
  });
  DeviceMesh alone;
  EXPECT_EQ(alone.communicator({Axis::Data, Axis::Tensor}), nullptr);
  EXPECT_EQ(alone.rank(), 0);
}

TEST(DeviceMesh, IsArrangedOtherwise) {
  const MeshShape other = MeshShape::parse("fsdp=2,tp=2");
  onRanks(MeshShape::parse("dp=4"), false, [&](DeviceMesh& mesh) {
    {
      DeviceMesh arranged = mesh.arranged(other);
      EXPECT_EQ(arranged.shape(), other);
      EXPECT_EQ(arranged.place(), placeOf(other, mesh.rank()));
      EXPECT_EQ(arranged.communicator({Axis::Tensor})->rank(), mesh.rank() % 2);
      EXPECT_EQ(arranged.communicator({Axis::Fsdp})->rank(), mesh.rank() / 2);
      EXPECT_EQ(arranged.communicator(AxisSet::all())->size(), 4);
      EXPECT_NE(arranged.communicator(AxisSet::all()), mesh.communicator(AxisSet::all()));
      arranged.communicator(AxisSet::all())->barrier();
    }
    mesh.communicator(AxisSet::all())->barrier();  // the first one outlives it
    EXPECT_THROW(mesh.arranged(MeshShape::parse("dp=2")), Error);
  });
  DeviceMesh dry = DeviceMesh::dry(other, 3).arranged(MeshShape::parse("tp=4"));
  EXPECT_TRUE(dry.dry());
  EXPECT_EQ(dry.index(Axis::Tensor), 3);
  EXPECT_EQ(DeviceMesh().arranged(MeshShape{}).rank(), 0);
}

TEST(DeviceMesh, HasAsManyRanksAsTheJob) {
  auto communicators = Communicator::createLocal(1);
  try {
    DeviceMesh mesh(std::move(communicators[0]), MeshShape::parse("dp=2"));
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a mesh of dp=2 has 2 ranks, and the job has 1");
  }
}

}  // namespace
}  // namespace tutti::parallel
