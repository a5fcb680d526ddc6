#include "src/python/group.h"

#include <thread>
#include <utility>
#include <vector>

#include "src/python/waiting.h"

namespace nb = nanobind;

namespace tutti::python {

namespace {

struct Kept {
  Held buffers;
  nb::object stream;
  std::shared_ptr<Communicator> communicator;
};

struct OfThread {
  /// A thread that ends inside of a group does not hold the GIL then, so its objects are leaked.
  ~OfThread() {
    if (!kept.empty()) new std::vector<Kept>(std::move(kept));
  }
  int depth = 0;
  std::vector<Kept> kept;
};

OfThread& ofThread() {
  thread_local OfThread instance;
  return instance;
}

/// Ends a group by an exception, as one that leaves its block does.
class GroupOfPython {
 public:
  void enter() {
    if (group_) throw Error(ErrorCode::InvalidUsage, "this group is open; make one per with block");
    group_ = std::make_unique<Group>();
    thread_ = std::this_thread::get_id();
    ++ofThread().depth;
  }

  void exit(nb::handle exception) {
    if (!group_) throw Error(ErrorCode::InvalidUsage, "this group is not open");
    if (thread_ != std::this_thread::get_id())
      throw Error(ErrorCode::InvalidUsage,
                  "another thread has opened this group; leave the with block on that one");
    auto group = std::exchange(group_, nullptr);
    const bool isOutermost = --ofThread().depth == 0;
    const std::vector<Kept> kept =
        isOutermost ? std::exchange(ofThread().kept, {}) : std::vector<Kept>();
    if (!exception.is_none()) return drop(std::move(group));
    try {
      const InterruptibleWait waiting;
      group->end();
    } catch (...) {
      handToStreams(kept);
      throw;
    }
    handToStreams(kept);
  }

 private:
  struct Dropped {};

  // The group's destructor drops the calls while an exception unwinds the stack.
  static void drop(std::unique_ptr<Group> group) {
    try {
      const auto dropped = std::move(group);
      throw Dropped();
    } catch (const Dropped&) {
    }
  }

  static void handToStreams(const std::vector<Kept>& kept) {
    for (const Kept& each : kept)
      if (each.stream.is_valid() && !each.stream.is_none())
        nb::cast<HostStreamOfPython&>(each.stream).keep(each.buffers, each.communicator);
  }

  std::unique_ptr<Group> group_;
  std::thread::id thread_;  // that has opened it
};

}  // namespace

bool isInGroup() { return ofThread().depth > 0; }

void keepForGroup(Held buffers, nb::object stream, std::shared_ptr<Communicator> communicator) {
  ofThread().kept.push_back({std::move(buffers), std::move(stream), std::move(communicator)});
}

void registerGroups(nb::module_& m) {
  m.def("in_group", &isInGroup);
  nb::class_<GroupOfPython>(m, "Group")
      .def(nb::init<>())
      .def("enter", &GroupOfPython::enter)
      .def("exit", &GroupOfPython::exit, nb::arg("exception").none());
}

}  // namespace tutti::python
