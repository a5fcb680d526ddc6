#pragma once

// Which host each rank is on, as a value: a list with a host's number for every rank. In a plan,
// hosts are numbered in the order of their first ranks, and the list is empty where all ranks share
// one host or the plan is the same wherever they are; so equal plans are equal values.

#include <span>
#include <string>
#include <vector>

namespace tutti::plan {

/// `hostOf`, numbered by any numbers, in a plan's form.
std::vector<int> hostsInOrder(std::span<const int> hostOf);

/// The ranks of each host, ascending. Of an empty list: one host with ranks 0..`ranks`-1.
std::vector<std::vector<int>> ranksByHost(std::span<const int> hosts, int ranks);

/// Of a list that is not empty: "2x4" where two hosts have four ranks each, "3,1,4" where they have
/// so many, side by side; otherwise every rank's host, "0 1 0 1".
std::string hostsToText(std::span<const int> hosts);

}  // namespace tutti::plan
