#include "capture/trace/sequence_links.h"

#include <algorithm>
#include <iterator>

namespace headscope::capture::trace {
namespace {

/// Calls of one number that are looked at: more than a graph has, and a bound for files that give all one number.
constexpr std::ptrdiff_t kReach = 4096;

bool same_work(const records::AttentionCall& forward, const records::AttentionCall& backward) noexcept {
  const records::Geometry& a = forward.geometry;
  const records::Geometry& b = backward.geometry;
  const records::Geometry none;
  return a == none || b == none || (a == b && (!backward.window.limited() || forward.window == backward.window));
}

}  // namespace

void SequenceLinks::add_forward(std::int64_t sequence, std::size_t call, std::uint32_t thread) {
  if (sequence < 0) {
    return;
  }
  std::vector<OfThread>& threads = forwards_[sequence];
  auto of_thread =
      std::find_if(threads.begin(), threads.end(), [thread](const OfThread& other) { return other.thread == thread; });
  if (of_thread == threads.end()) {
    of_thread = threads.insert(threads.end(), {thread, {}});
  }
  of_thread->calls.push_back(call);
}

std::optional<std::size_t> SequenceLinks::take(std::int64_t sequence, std::uint32_t forward_thread,
                                               const records::AttentionCall& backward,
                                               const std::vector<TraceCall>& calls) {
  const auto found = forwards_.find(sequence);
  if (sequence < 0 || found == forwards_.end()) {
    return std::nullopt;
  }
  const auto known_thread = threads_.find(forward_thread);
  OfThread* owner = nullptr;
  std::vector<std::size_t>::iterator last;
  for (OfThread& of_thread : found->second) {
    if (known_thread != threads_.end() && known_thread->second != of_thread.thread) {
      continue;
    }
    const auto reach = std::min<std::ptrdiff_t>(std::ssize(of_thread.calls), kReach);
    const auto end = of_thread.calls.rbegin() + reach;
    const auto match = std::find_if(of_thread.calls.rbegin(), end, [&](std::size_t at) {
      return calls[at].call.start_ns <= backward.start_ns && same_work(calls[at].call, backward);
    });
    if (match == end) {
      continue;
    }
    if (owner != nullptr) {
      return std::nullopt;
    }
    owner = &of_thread;
    last = std::prev(match.base());
  }
  if (owner == nullptr) {
    return std::nullopt;
  }
  const std::size_t call = *last;
  owner->calls.erase(last);
  threads_.try_emplace(forward_thread, owner->thread);
  return call;
}

}  // namespace headscope::capture::trace
