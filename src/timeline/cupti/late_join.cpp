#include "timeline/cupti/late_join.h"

#include <algorithm>

namespace headscope::timeline::cupti {

LateJoin::Call* LateJoin::call_of(std::uint32_t correlation) {
  if (calls_.size() >= limit_ && !calls_.contains(correlation)) {
    return nullptr;
  }
  Call& call = calls_[correlation];
  call.launch.correlation = correlation;
  call.round = round_;
  return &call;
}

void LateJoin::add(const Decoded& decoded) {
  for (const OpLink& link : decoded.links) {
    if (Call* call = call_of(link.correlation)) {
      call->launch.op = link.op;
    }
  }
  for (const records::Launch& launch : decoded.launches) {
    Call* call = call_of(launch.correlation);
    if (call == nullptr) {
      ++dropped_;
      continue;
    }
    // The runtime call and the driver call inside it: the outer one has the wider time.
    call->launch.thread = launch.thread;
    call->launch.start_ns = call->seen ? std::min(call->launch.start_ns, launch.start_ns) : launch.start_ns;
    call->launch.end_ns = call->seen ? std::max(call->launch.end_ns, launch.end_ns) : launch.end_ns;
    call->launch.of_graph = call->launch.of_graph || launch.of_graph;
    call->seen = true;
  }
  for (const records::DeviceSpan& span : decoded.spans) {
    if (spans_.size() >= limit_) {
      ++dropped_;
      continue;
    }
    spans_.push_back({span, round_});
  }
  dropped_ += decoded.stale + decoded.broken;
}

void LateJoin::move_to(records::DeviceActivity& out, bool all) {
  const std::uint32_t mark = round_ + 1;
  const auto move_out = [&](const Span& entry) {
    const auto found = calls_.find(entry.span.correlation);
    const bool known = found != calls_.end() && found->second.seen;
    if (!known && !all && round_ - entry.round < kPatience) {
      return false;
    }
    if (known) {
      Call& call = found->second;
      call.round = round_;
      if (call.moved != mark) {
        call.moved = mark;
        out.launches.push_back(call.launch);
      }
    }
    out.spans.push_back(entry.span);
    return true;
  };
  out.spans.reserve(out.spans.size() + spans_.size());
  std::erase_if(spans_, move_out);
  out.dropped += dropped_;
  dropped_ = 0;
  ++round_;
  if (all) {
    clear();
    return;
  }
  std::erase_if(calls_, [&](const auto& entry) { return round_ - entry.second.round > kPatience; });
}

void LateJoin::clear() {
  spans_.clear();
  calls_.clear();
}

}  // namespace headscope::timeline::cupti
