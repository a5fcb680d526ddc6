#include "tests/emulation/runtime/memory/multicast.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <vector>

#include "tests/emulation/runtime/call.h"
#include "tests/emulation/runtime/device.h"
#include "tests/emulation/runtime/memory/allocating_calls.h"
#include "tests/emulation/runtime/memory/virtual_memory.h"

namespace tutti::emulation {

struct MulticastTable {
  struct Binding {
    ForeignFile file;  // startBytes on, for `bytes` bytes, are behind `atBytes` on
    size_t atBytes = 0;
    bool isLive = false;
  };
  static constexpr uint64_t kMagic = 0x7475747469636173;

  uint64_t magic = kMagic;
  size_t bytes = 0;
  unsigned deviceCount = 0;
  std::atomic<unsigned> added{0};       // bits, by place
  std::atomic<uint32_t> isLocked{0};    // between processes
  std::atomic<uint32_t> generation{1};  // of the bindings
  Binding bindings[64];
};

namespace {

struct Mapped {
  size_t bytes = 0;
  MulticastTable* table = nullptr;
  uint32_t generation = 0;  // that the emulation was told
  std::vector<char*> told;  // addresses there
};

std::map<char*, Mapped>& mapped() {
  static auto* const all = new std::map<char*, Mapped>;
  return *all;
}
std::atomic<int> mappedCount{0};

/// Physical memory that this process bound, by descriptor.
std::map<int, Physical*>& bound() {
  static auto* const all = new std::map<int, Physical*>;
  return *all;
}

class TableLock {
 public:
  explicit TableLock(MulticastTable& table) : table_(table) {
    while (table_.isLocked.exchange(1) != 0) sched_yield();
  }
  ~TableLock() { table_.isLocked.store(0); }
  TableLock(const TableLock&) = delete;
  TableLock& operator=(const TableLock&) = delete;

 private:
  MulticastTable& table_;
};

MulticastTable* mapTable(int file) {
  void* const page =
      mmap(nullptr, sizeof(MulticastTable), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return page == MAP_FAILED ? nullptr : static_cast<MulticastTable*>(page);
}

/// Where this process sees what is bound: where it has mapped it itself, so that sanitizers know
/// the address, or else at an address of its own.
void* replicaOf(const MulticastTable::Binding& binding) {
  const ForeignFile& file = binding.file;
  if (file.process == getpid())
    if (char* const own = mappedAt(bound()[file.file], file.startBytes, file.bytes)) return own;
  const int opened = openForeign(file);
  void* const alias = mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened,
                           static_cast<off_t>(file.startBytes));
  close(opened);
  return alias == MAP_FAILED ? nullptr : alias;
}

/// All devices' memory behind `atBytes` on; empty where one has bound none.
std::vector<void*> replicasAt(const MulticastTable& table, size_t atBytes, size_t bytes) {
  std::vector<void*> replicas;
  for (const auto& binding : table.bindings) {
    if (!binding.isLive || binding.atBytes != atBytes || binding.file.bytes != bytes) continue;
    if (void* const replica = replicaOf(binding)) replicas.push_back(replica);
  }
  if (replicas.size() != table.deviceCount) replicas.clear();
  return replicas;
}

void refresh(char* start, Mapped& mapping) {
  MulticastTable& table = *mapping.table;
  const TableLock lock(table);
  if (table.generation == mapping.generation) return;
  mapping.generation = table.generation;
  for (char* address : mapping.told) unbindMulticast(address);
  mapping.told.clear();
  for (const auto& binding : table.bindings) {
    char* const address = start + binding.atBytes;
    const bool isTold =
        std::find(mapping.told.begin(), mapping.told.end(), address) != mapping.told.end();
    if (!binding.isLive || isTold) continue;
    const auto replicas = replicasAt(table, binding.atBytes, binding.file.bytes);
    if (replicas.empty()) continue;
    bindMulticast(address, binding.file.bytes, replicas);
    mapping.told.push_back(address);
  }
}

MulticastTable* tableOf(CUmemGenericAllocationHandle handle) {
  const Physical* const physical = physicalOf(handle);
  return physical == nullptr ? nullptr : physical->multicast;
}

bool isComplete(const MulticastTable& table) {
  return unsigned(__builtin_popcount(table.added.load())) >= table.deviceCount;
}

cudaError_t bind(MulticastTable& table, bool isShareable, size_t atBytes, Physical* memory,
                 size_t fromBytes, size_t bytes) {
  const int place = placeOf(memory->properties.location.id);
  if (bytes == 0 || !isGranular(atBytes) || !isGranular(fromBytes) || !isGranular(bytes) ||
      atBytes + bytes > table.bytes || fromBytes + bytes > memory->bytes ||
      memory->multicast != nullptr)
    return cudaErrorInvalidValue;
  if ((table.added.load() >> place & 1) == 0) return cudaErrorInvalidDevice;
  if (isShareable && (memory->properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE))
    return cudaErrorInvalidValue;
  const TableLock lock(table);
  MulticastTable::Binding* free = nullptr;
  for (auto& each : table.bindings) {
    if (!each.isLive) free = free == nullptr ? &each : free;
    if (each.isLive && each.file.device == place && each.atBytes < atBytes + bytes &&
        atBytes < each.atBytes + each.file.bytes)
      return cudaErrorInvalidValue;
  }
  if (free == nullptr) return cudaErrorMemoryAllocation;
  *free = {{.process = getpid(),
            .file = memory->file,
            .device = place,
            .startBytes = fromBytes,
            .bytes = bytes},
           atBytes,
           true};
  ++table.generation;
  ++memory->references;
  bound()[memory->file] = memory;
  return cudaSuccess;
}

}  // namespace

void waitForTeam(CUmemGenericAllocationHandle handle) {
  Ignored ignored;
  while (true) {
    {
      std::lock_guard lock(runtimeMutex());
      const MulticastTable* const table = tableOf(handle);
      if (table == nullptr || isComplete(*table)) return;
    }
    usleep(100);
  }
}

void refreshMulticasts() {
  if (mappedCount.load() == 0) return;
  Ignored ignored;
  std::lock_guard lock(runtimeMutex());
  for (auto& [start, mapping] : mapped()) refresh(start, mapping);
}

void addMulticastMapping(char* start, size_t bytes, MulticastTable* table) {
  mapped()[start] = {bytes, table, 0, {}};
  ++mappedCount;
}

void removeMulticastMapping(char* start) {
  for (char* address : mapped()[start].told) unbindMulticast(address);
  mapped().erase(start);
  --mappedCount;
}

MulticastTable* openMulticast(int file, size_t& bytes) {
  if (bytes != sizeof(MulticastTable)) return nullptr;
  MulticastTable* const table = mapTable(file);
  if (table == nullptr || table->magic != MulticastTable::kMagic) return nullptr;
  bytes = table->bytes;
  return table;
}

void closeMulticast(MulticastTable* table) { munmap(table, sizeof *table); }

}  // namespace tutti::emulation

using namespace tutti::emulation;

extern "C" {

CUresult cuMulticastGetGranularity(size_t* to, const CUmulticastObjectProp* properties,
                                   CUmulticastGranularity_flags) {
  return driverCall([&] {
    if (to == nullptr || properties == nullptr) return cudaErrorInvalidValue;
    *to = kGranularity;
    return cudaSuccess;
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* to,
                           const CUmulticastObjectProp* properties) {
  noteAllocatingCall();
  return driverCall([&] {
    if (to == nullptr || properties == nullptr || properties->flags != 0 ||
        properties->numDevices < 2 || int(properties->numDevices) > environment().devices ||
        properties->size == 0 || !isGranular(properties->size))
      return cudaErrorInvalidValue;
    constexpr unsigned long long kKnown = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if ((properties->handleTypes & ~kKnown) != 0) return cudaErrorNotSupported;
    auto* const made = new Physical;
    made->file = makeFile("multicast", sizeof(MulticastTable));
    made->bytes = properties->size;
    made->properties.requestedHandleTypes = CUmemAllocationHandleType(properties->handleTypes);
    made->multicast = new (mapTable(made->file)) MulticastTable;
    made->multicast->bytes = properties->size;
    made->multicast->deviceCount = properties->numDevices;
    *to = keepPhysical(made);
    return cudaSuccess;
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  noteAllocatingCall();
  return driverCall([&] {
    MulticastTable* const table = tableOf(handle);
    if (table == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    const TableLock lock(*table);
    const unsigned bit = 1u << placeOf(device);
    if ((table->added & bit) != 0 || isComplete(*table)) return cudaErrorInvalidValue;
    table->added |= bit;
    return cudaSuccess;
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t atBytes,
                            CUmemGenericAllocationHandle memory, size_t fromBytes, size_t bytes,
                            unsigned long long flags) {
  noteAllocatingCall();
  waitForTeam(handle);
  return driverCall([&] {
    MulticastTable* const table = tableOf(handle);
    Physical* const physical = physicalOf(memory);
    if (table == nullptr || physical == nullptr || flags != 0) return cudaErrorInvalidValue;
    const Physical* const object = physicalOf(handle);
    const bool isShareable = object->properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
    return bind(*table, isShareable, atBytes, physical, fromBytes, bytes);
  });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t atBytes,
                           size_t bytes) {
  noteAllocatingCall();
  return driverCall([&] {
    MulticastTable* const table = tableOf(handle);
    if (table == nullptr) return cudaErrorInvalidValue;
    if (!isDevice(device)) return cudaErrorInvalidDevice;
    const TableLock lock(*table);
    for (auto& each : table->bindings) {
      if (!each.isLive || each.file.device != placeOf(device) || each.atBytes != atBytes ||
          each.file.bytes != bytes)
        continue;
      each.isLive = false;
      ++table->generation;
      if (each.file.process == getpid()) dropPhysical(bound().at(each.file.file));
      return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

}  // extern "C"
