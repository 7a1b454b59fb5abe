#include "capture/open_forwards.h"

#include "capture/try_lock.h"

namespace headscope::capture {

void OpenForwards::open(std::uint64_t call_id, const records::AttentionCall& call, const ForwardPlace& place) noexcept {
  Table& table = table_of(place.thread);
  const TryLock lock(table.busy);
  if (!lock.owned()) {
    return;
  }
  ++table.opened;
  table.back(0) = {.forward = {call_id, call.layer}, .op = call.op, .geometry = call.geometry, .place = place};
}

std::optional<std::size_t> OpenForwards::repeated_level(const ForwardPlace& place,
                                                        const Repetition& repetition) noexcept {
  std::size_t shared = 0;  // hooks that a program has around its forward and its backward
  while (shared < ForwardPlace::kLevels && shared < place.depth && shared < repetition.depth &&
         place.hooks[shared] == repetition.hooks[shared]) {
    ++shared;
  }
  if (repetition.interrupted) {
    return place.depth - 1;
  }
  // A segment that is run again has its own hook in the place of those from the outermost down to it.
  if (shared == repetition.depth || repetition.depth > place.depth) {
    return std::nullopt;
  }
  return shared + place.depth - repetition.depth;
}

OpenForwards::Entry* OpenForwards::find_in_segment(Table& table, const records::AttentionCall& call,
                                                   const Repetition& repetition, std::size_t& level) noexcept {
  // The newest call that began before the node was made lies in the node's segment.
  const Entry* anchor = nullptr;
  Entry* first = nullptr;
  std::int64_t last_repeated = -1;
  for (std::size_t age = 0; age < table.size(); ++age) {
    Entry& entry = table.back(age);
    const ForwardPlace& place = entry.place;
    if (place.thread != repetition.thread || place.first_node > repetition.node || place.depth == 0) {
      continue;
    }
    if (anchor == nullptr) {
      anchor = &entry;
    }
    if (place.graph_task != anchor->place.graph_task) {
      break;
    }
    const std::optional<std::size_t> found = repeated_level(place, repetition);
    if (!found) {
      continue;
    }
    const std::size_t at = *found;
    if (at >= ForwardPlace::kLevels || at >= anchor->place.depth || place.hooks[at] != anchor->place.hooks[at]) {
      break;
    }
    if (entry.op != call.op || !(entry.geometry == call.geometry)) {
      continue;
    }
    // Older ones were repeated before it. Or the hook of a freed graph had this address: what another pass than the
    // later calls' own repeated is of that graph.
    const std::int64_t repeated_in = entry.repeated_in[at];
    if (repeated_in == repetition.graph_task || (first != nullptr && repeated_in != last_repeated)) {
      break;
    }
    first = &entry;
    level = at;
    last_repeated = entry.repeated_in[at];
  }
  return first;
}

bool OpenForwards::may_repeat_whole(const ForwardPlace& place, const Repetition& repetition) noexcept {
  // The nodes of a repetition run in a backward pass of their own, within the one that repeats.
  // As many hooks, and others: one of them runs a hooked segment again, in which the node was made.
  return place.without_gradients && place.graph_task != repetition.graph_task &&
         (place.depth != repetition.depth || place.hooks == repetition.hooks);
}

OpenForwards::Entry* OpenForwards::find_since_node(Table& table, const records::AttentionCall& call,
                                                   const Repetition& repetition) noexcept {
  Entry* first = nullptr;
  for (std::size_t age = 0; age < table.size(); ++age) {
    Entry& entry = table.back(age);
    if (entry.place.thread != repetition.thread) {
      continue;
    }
    if (entry.place.first_node < repetition.node) {
      break;
    }
    if (may_repeat_whole(entry.place, repetition) && entry.op == call.op && entry.geometry == call.geometry &&
        entry.repeated_alone_in() != repetition.graph_task) {
      first = &entry;
    }
  }
  return first;
}

OpenForwards::Entry* OpenForwards::find_of_node(Table& table, const records::AttentionCall& call,
                                                const Repetition& repetition) noexcept {
  for (std::size_t age = 0; age < table.size(); ++age) {
    Entry& entry = table.back(age);
    if (entry.place.thread == repetition.thread && entry.place.first_node == repetition.node && entry.op == call.op &&
        entry.geometry == call.geometry && entry.repeated_alone_in() != repetition.graph_task) {
      return &entry;
    }
  }
  return nullptr;
}

std::optional<OpenForwards::Forward> OpenForwards::take(const records::AttentionCall& call,
                                                        const Repetition& repetition) noexcept {
  Table& table = table_of(repetition.thread);
  for (int tries = 0; tries < kLockTries; ++tries) {
    const TryLock lock(table.busy);
    if (!lock.owned()) {
      continue;
    }
    if (repetition.of == Repetition::Of::kSegment) {
      std::size_t level = 0;
      Entry* found = find_in_segment(table, call, repetition, level);
      if (found == nullptr) {
        return std::nullopt;
      }
      found->repeated_in[level] = repetition.graph_task;
      return found->forward;
    }
    Entry* found = repetition.of == Repetition::Of::kSinceNode ? find_since_node(table, call, repetition)
                                                               : find_of_node(table, call, repetition);
    if (found == nullptr) {
      return std::nullopt;
    }
    found->repeated_alone_in() = repetition.graph_task;
    return found->forward;
  }
  return std::nullopt;
}

}  // namespace headscope::capture
