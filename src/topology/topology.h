#pragma once

// What joins the ranks, as values: the input of every cost prediction. A link has a latency and a
// bandwidth; a rank has costs of its own. The tuning table holds the constants, measured once for a
// kind of machine and handed out by rank 0 so that all ranks predict the same.

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.h"

namespace tutti::topology {

/// Constants of the cost model.
struct Tuning {
  double messageMicroseconds = 0.25;    ///< one message, from ready to seen, without data
  double stepMicroseconds = 0.05;       ///< the executor's own cost of one step
  double copyGigabytesPerSecond = 8;    ///< one rank copying through a slot, in and out
  double reduceGigabytesPerSecond = 6;  ///< one rank folding, per byte of one source
  double mappedGigabytesPerSecond =
      12;                          ///< one rank reading or writing mapped memory, per byte touched
  double entryMicroseconds = 0.5;  ///< exchanging entry records between two ranks
  double yieldMicroseconds = 2.5;  ///< handing a core to the next rank, when ranks outnumber cores
  double mappedFromBytes =
      16384;  ///< blocks this large are worth asking whether buffers are mapped
  // Between hosts; the defaults are those of TCP over Ethernet of 10 Gbit/s.
  double networkMicroseconds = 25;          ///< one message, from ready to seen, without data
  double networkGigabytesPerSecond = 1.15;  ///< of a host's link in each direction, which all ranks
                                            ///< of the host share

  base::Bytes serialize() const;
  /// Throws Refused naming the field that is missing, no number, or none that a machine can have.
  static Tuning deserialize(const base::Bytes& bytes);
  bool operator==(const Tuning&) const = default;
};

struct Topology {
  int ranks = 1;
  int cores = 1;             ///< of each host; ranks beyond it share
  std::vector<int> hostOf;   ///< host number of each rank, from 0; empty: all on one
  size_t slotBytes = 65536;  ///< what one message between two ranks can carry
  int channels = 2;          ///< rings between two ranks, in each direction
  int hosts() const;         ///< how many there are
  int ranksPerHost() const;  ///< on the host with the most
  bool oversubscribed() const { return ranksPerHost() > cores; }
  std::string describe() const;
  bool operator==(const Topology&) const = default;
};

}  // namespace tutti::topology
