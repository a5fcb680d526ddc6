#include "src/python/communicator.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace nb = nanobind;

namespace tutti::python {

namespace {

constexpr double kLongestSeconds = 1e9;  // 31 years; clocks count nanoseconds in 64 bits

/// Throws InvalidArgument where the value is of another type, or too large for it.
template <class T>
T typed(const std::string& name, nb::handle value, const char* type) {
  T result{};
  if (!nb::try_cast(value, result))
    throw Error(ErrorCode::InvalidArgument,
                name + ": " + nb::cast<std::string>(nb::repr(value)) + " is no " + type);
  return result;
}

std::chrono::milliseconds milliseconds(const std::string& name, nb::handle seconds) {
  const auto given = typed<double>(name, seconds, "number of seconds");
  if (!(given >= 0 && given <= kLongestSeconds))  // neither is NaN
    throw Error(ErrorCode::InvalidArgument,
                name + ": " + nb::cast<std::string>(nb::str(seconds)) +
                    " is out of range; give seconds, from 0 to 1e9, or None for the default");
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(given));
}

CommunicatorOptions optionsOf(const nb::dict& given) {
  constexpr const char *kText = "str", *kInteger = "int of 32 bits", *kBool = "bool";
  CommunicatorOptions options;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name == "id") options.id = UniqueId::fromHex(typed<std::string>(name, value, kText));
    if (name == "rank") options.rank = typed<int>(name, value, kInteger);
    if (name == "size") options.size = typed<int>(name, value, kInteger);
    if (name == "setup_timeout") options.setupTimeout = milliseconds(name, value);
    if (name == "timeout") options.timeout = milliseconds(name, value);
    if (name == "straggler") options.straggler = milliseconds(name, value);
    if (name == "deterministic") options.deterministic = typed<bool>(name, value, kBool);
    if (name == "algorithm") options.algorithm = typed<std::string>(name, value, kText);
    if (name == "algorithm_file") options.algorithmFile = typed<std::string>(name, value, kText);
    if (name == "transport") options.transport = typed<std::string>(name, value, kText);
    if (name == "encryption") options.encryption = typed<bool>(name, value, kBool);
    if (name == "pre_shared_key") {
      if (!nb::isinstance<nb::bytes>(value))  // whose text nobody shall see
        throw Error(ErrorCode::InvalidArgument,
                    "pre_shared_key: it is no bytes; pass key.encode()");
      const auto bytes = nb::cast<nb::bytes>(value);
      options.preSharedKey.assign(bytes.c_str(), bytes.size());
    }
    if (name == "signals") options.signals = typed<int>(name, value, kInteger);
  }
  return options;
}

/// Makes communicators, which needs a thread of its own: no part of a group.
void requireNoGroup() {
  if (isInGroup())
    throw Error(ErrorCode::InvalidUsage,
                "a communicator cannot be made in a group; make it before the with block");
}

CommunicatorOfPython create(const nb::dict& given) {
  requireNoGroup();
  CommunicatorOptions options = optionsOf(given);
  std::stop_source stop;
  options.stop = stop.get_token();
  return CommunicatorOfPython(
      setUp([&] { return Communicator::create(options); }, [&] { stop.request_stop(); }));
}

std::vector<CommunicatorOfPython> createLocal(int size, const nb::dict& given) {
  requireNoGroup();
  const CommunicatorOptions options = optionsOf(given);
  auto made = setUp([&] { return Communicator::createLocal(size, options); }, [] {});
  std::vector<CommunicatorOfPython> ranks;
  for (Communicator& each : made) ranks.emplace_back(std::move(each));
  return ranks;
}

/// Of one that exists. If a handler of signals raises, the communicator is aborted.
template <class Make>
auto setUpFrom(const CommunicatorOfPython& self, const Make& makeFrom) {
  requireNoGroup();
  const auto from = self.open();
  return onRank(self.rank(),
                [&] { return setUp([&] { return makeFrom(*from); }, [&] { from->abort(); }); });
}

std::optional<CommunicatorOfPython> split(const CommunicatorOfPython& self, int color, int key) {
  auto made = setUpFrom(self, [&](Communicator& c) { return c.split(color, key); });
  if (!made) return std::nullopt;
  return CommunicatorOfPython(std::move(*made));
}

CommunicatorOfPython subset(const CommunicatorOfPython& self, const std::vector<int>& ranks) {
  return CommunicatorOfPython(setUpFrom(self, [&](Communicator& c) { return c.subset(ranks); }));
}

CommunicatorOfPython shrink(const CommunicatorOfPython& self) {
  return CommunicatorOfPython(setUpFrom(self, [](Communicator& c) { return c.shrink(); }));
}

CommunicatorOfPython grow(const CommunicatorOfPython& self, int size,
                          const std::optional<std::string>& id) {
  requireNoGroup();
  const auto from = self.open();
  std::stop_source stop;
  GrowArgs args{.size = size, .stop = stop.get_token()};
  if (id) args.id = UniqueId::fromHex(*id);
  return onRank(self.rank(), [&] {
    return CommunicatorOfPython(
        setUp([&] { return from->grow(args); }, [&] { stop.request_stop(); }));
  });
}

UniqueId::Reach reachOf(bool network) {
  return network ? UniqueId::Reach::Network : UniqueId::Reach::Host;
}

std::string growId(const CommunicatorOfPython& self, bool network) {
  const auto from = self.open();
  return onRank(self.rank(), [&] {
    const GilReleased released;
    return from->growId(reachOf(network)).toHex();
  });
}

/// Of what a call is to send, to make an array like it.
nb::tuple shapeAndType(const CommunicatorOfPython& self, nb::handle send) {
  const ArrayBuffer array = onRank(self.rank(), [&] {
    return ArrayBuffer(send, {"send", false}, "");
  });
  return nb::make_tuple(array.shape(), toString(array.type()));
}

nb::object asyncError(const CommunicatorOfPython& self) {
  const auto error = self.open()->asyncError();
  return error ? exceptionOf(*error, self.rank()) : nb::none();
}

/// Of a suspended communicator, which resume() uses up.
class SuspendedOfPython {
 public:
  SuspendedOfPython(SuspendedCommunicator suspended, int rank)
      : suspended_(std::move(suspended)), rank_(rank) {}

  CommunicatorOfPython resume() {
    requireNoGroup();
    if (!suspended_)
      throw Error(ErrorCode::InvalidUsage, "this communicator has been resumed already");
    std::stop_source stop;
    return onRank(rank_, [&] {
      auto resumed =
          setUp([&] { return suspended_->resume(stop.get_token()); }, [&] { stop.request_stop(); });
      suspended_.reset();
      return CommunicatorOfPython(std::move(resumed));
    });
  }

 private:
  std::optional<SuspendedCommunicator> suspended_;
  int rank_;
};

SuspendedOfPython suspend(CommunicatorOfPython& self) {
  const int rank = self.rank();
  Communicator taken = self.take();
  return onRank(rank, [&] {
    const GilReleased released;
    return SuspendedOfPython(std::move(taken).suspend(), rank);
  });
}

/// Memory that the local ranks address, for NumPy.
nb::object allocate(const CommunicatorOfPython& self, size_t bytes) {
  const auto from = self.open();
  auto memory =
      std::make_unique<Memory>(onRank(self.rank(), [&] { return from->allocate(bytes); }));
  void* const data = memory->data();
  const nb::capsule owner(memory.release(),
                          [](void* owned) noexcept { delete static_cast<Memory*>(owned); });
  return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(data, {bytes}, owner));
}

}  // namespace

std::shared_ptr<Communicator> CommunicatorOfPython::open() const {
  if (!communicator_)
    throw RankedError(Error(ErrorCode::InvalidUsage,
                            "this communicator is closed; make a new one, or close it later"),
                      rank_);
  return communicator_;
}

void CommunicatorOfPython::close() {
  for (const auto& each : std::exchange(endWithIt_, {}))
    if (const auto other = each.lock()) other->end();
  communicator_.reset();
}

void CommunicatorOfPython::endsWithIt(const std::shared_ptr<EndsWithCommunicator>& other) const {
  std::erase_if(endWithIt_, [](const auto& each) { return each.expired(); });
  endWithIt_.push_back(other);
}

nb::object CommunicatorOfPython::prepared(std::shared_ptr<Communicator> communicator,
                                          PreparedCall call, Held buffers) const {
  const auto prepared = std::make_shared<PreparedOfPython>();
  prepared->communicator = std::move(communicator);
  prepared->call = {new PreparedCall(std::move(call)), DeleteWithoutGil()};
  endsWithIt(prepared);
  return nb::cast(PreparedCallOfPython(prepared, std::move(buffers)));
}

void PreparedCallOfPython::start(nb::handle stream) {
  const auto communicator = prepared_->communicator;
  const auto call = prepared_->call;
  if (!call)
    throw Error(ErrorCode::InvalidUsage,
                "the communicator of this prepared call is closed; close it after the last start");
  startAndKeep(communicator, buffers_, stream, [&](StreamRef ref) { call->start(ref); });
}

Communicator CommunicatorOfPython::take() {
  const auto from = open();
  if (from.use_count() > 2)
    throw RankedError(Error(ErrorCode::InvalidUsage,
                            "suspend: calls are under way or prepared; wait for them and let go of "
                            "the prepared calls and windows"),
                      rank_);
  communicator_.reset();
  return std::move(*from);
}

void registerCommunicator(nb::module_& m) {
  nb::class_<PreparedCallOfPython>(m, "PreparedCall")
      .def("start", &PreparedCallOfPython::start, nb::arg("stream").none());
  nb::class_<SuspendedOfPython>(m, "SuspendedCommunicator")
      .def("resume", &SuspendedOfPython::resume);
  CommunicatorClass c(m, "Communicator");
  c.def_prop_ro("rank", &CommunicatorOfPython::rank)
      .def_prop_ro("size", &CommunicatorOfPython::size)
      .def_prop_ro("closed", &CommunicatorOfPython::isClosed)
      .def_prop_ro("hosts", [](const CommunicatorOfPython& self) { return self.open()->hosts(); })
      .def_prop_ro("deterministic",
                   [](const CommunicatorOfPython& self) { return self.open()->deterministic(); })
      .def_prop_ro("memory",
                   [](const CommunicatorOfPython& self) { return self.open()->memory().host; })
      .def("close", &CommunicatorOfPython::close)
      .def("split", &split)
      .def("subset", &subset)
      .def("shrink", &shrink)
      .def("grow", &grow, nb::arg("size"), nb::arg("id").none())
      .def("grow_id", &growId)
      .def("suspend", &suspend)
      .def("allocate", &allocate)
      .def("abort",
           [](const CommunicatorOfPython& self) {
             const auto communicator = self.open();
             const GilReleased released;
             communicator->abort();
           })
      .def("shape_and_dtype", &shapeAndType, nb::arg("send").none())
      .def("async_error", &asyncError)
      .def("describe", [](const CommunicatorOfPython& self) {
        const auto communicator = self.open();
        const GilReleased released;
        return communicator->describe();
      });
  registerCollectives(c);
  registerTransfers(c);
  registerOneSided(m, c);
  m.def("create", &create);
  m.def("create_local", &createLocal);
  m.def("id_create", [](bool network) {
    const GilReleased released;
    return UniqueId::create(reachOf(network)).toHex();
  });
  m.def("id_at", [](const std::string& address) { return UniqueId::at(address).toHex(); });
  m.def("id_check", [](const std::string& hex) { return UniqueId::fromHex(hex).toHex(); });
}

}  // namespace tutti::python
