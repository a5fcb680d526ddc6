#include "src/tools/common/common_id.h"

#include <algorithm>

namespace tutti::tools {

UniqueId commonId(Communicator& c) {
  UniqueId id;
  if (c.rank() == 0) {
    const bool oneHost = std::ranges::max(c.hosts()) == 0;
    id = UniqueId::create(oneHost ? UniqueId::Reach::Host : UniqueId::Reach::Network);
  }
  c.broadcast({.send = id.bytes.data(),
               .recv = id.bytes.data(),
               .count = id.bytes.size(),
               .type = DataType::UInt8});
  return id;
}

}  // namespace tutti::tools
