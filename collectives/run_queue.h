#pragma once

// A priority queue for elements that mostly come in order. Each push names a run; what is not less
// than the run's last element waits in line behind it, and only the first of each run takes part in
// the heap. So a million messages of a hundred senders cost what a heap of a hundred does. What is
// less than the run's last goes into the heap by itself: the order of the elements that come out
// does not depend on the runs.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::collectives {

/// Lists whose elements lie in one pool, first in, first out.
template <class T>
class ListPool {
 public:
  struct List {
    uint32_t first = kEnd, last = kEnd;
    bool empty() const { return first == kEnd; }
  };

  void push(List& list, const T& value) {
    const uint32_t node = take(value);
    (list.empty() ? list.first : nodes_[list.last].next) = node;
    list.last = node;
  }
  /// Until the next push.
  const T& front(const List& list) const { return nodes_[list.first].value; }
  void pop(List& list) {
    const uint32_t node = list.first;
    list.first = nodes_[node].next;
    nodes_[node].next = free_;
    free_ = node;
  }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  struct Node {
    T value;
    uint32_t next;
  };

  uint32_t take(const T& value) {
    if (free_ == kEnd) {
      nodes_.push_back({value, kEnd});
      return static_cast<uint32_t>(nodes_.size() - 1);
    }
    const uint32_t node = free_;
    free_ = nodes_[node].next;
    nodes_[node] = {value, kEnd};
    return node;
  }

  std::vector<Node> nodes_;
  uint32_t free_ = kEnd;  // the first of those that are in no list
};

/// T has <. The least comes first.
template <class T>
class RunQueue {
 public:
  explicit RunQueue(size_t runs) : runs_(runs) {}

  bool empty() const { return heap_.empty(); }
  const T& top() const { return heap_.front().value; }

  void push(uint32_t number, const T& value) {
    Run& run = runs_[number];
    if (!run.isQueued) {
      run.isQueued = true;
      run.last = value;
      rise({value, number});
    } else if (value < run.last) {
      rise({value, kNoRun});
    } else {
      run.last = value;
      waiting_.push(run.waiting, value);
    }
  }

  T pop() {
    const Head head = heap_.front();
    if (head.run != kNoRun) {
      Run& run = runs_[head.run];
      if (!run.waiting.empty()) {
        sink({waiting_.front(run.waiting), head.run});
        waiting_.pop(run.waiting);
        return head.value;
      }
      run.isQueued = false;
    }
    const Head last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return head.value;
  }

 private:
  static constexpr uint32_t kNoRun = UINT32_MAX;
  struct Run {
    typename ListPool<T>::List waiting;  // behind the one in the heap
    bool isQueued = false;               // one is in the heap
    T last{};
  };
  struct Head {
    T value;
    uint32_t run;
  };

  /// Puts `head` where it belongs, from the end upwards.
  void rise(const Head& head) {
    size_t at = heap_.size();
    heap_.push_back(head);
    for (; at > 0; at = (at - 1) / 2) {
      const size_t above = (at - 1) / 2;
      if (!(head.value < heap_[above].value)) break;
      heap_[at] = heap_[above];
    }
    heap_[at] = head;
  }

  /// The same from the top downwards, in place of what is there.
  void sink(const Head& head) {
    size_t at = 0;
    for (size_t below = 1; below < heap_.size(); below = 2 * at + 1) {
      if (below + 1 < heap_.size() && heap_[below + 1].value < heap_[below].value) ++below;
      if (!(heap_[below].value < head.value)) break;
      heap_[at] = heap_[below];
      at = below;
    }
    heap_[at] = head;
  }

  std::vector<Head> heap_;
  std::vector<Run> runs_;
  ListPool<T> waiting_;
};

}  // namespace tutti::collectives
