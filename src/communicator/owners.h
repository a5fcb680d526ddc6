#pragma once

// Owners: those of a communicator that its operations and its set-up work with, by reference. Who
// holds them as a shared pointer keeps the whole communicator. Each owner's own header says on
// which threads it may be called.

namespace tutti::communicator {

class FailureState;
class GpuBackend;
class HostBackend;
class RankLinks;
class Membership;
class Messages;
class OneSided;
class Peers;
struct Settings;

struct Owners {
  const Membership& who;
  const Settings& settings;
  RankLinks& links;
  Messages& messages;
  FailureState& failure;
  Peers& peers;
  HostBackend& host;
  GpuBackend& gpu;
  OneSided& oneSided;
};

}  // namespace tutti::communicator
