#include "aggregate/kept_calls.h"

#include <algorithm>
#include <utility>

namespace headscope::aggregate {

void KeptCalls::add(const records::CostedCall& costed, LayerKey layer, std::int64_t step, bool memory) {
  if (limit_ == 0) {
    return;
  }
  KeptCall kept{.call = *costed.call, .costed = costed, .layer = layer, .step = step};
  kept.call.mask_count.reset();
  kept.call.lengths.reset();
  kept.costed.call = nullptr;
  kept.costed.head_weights = nullptr;
  if (!memory) {
    kept.call.allocated_bytes = kept.call.peak_bytes = kept.call.score_bytes = -1;
  }
  if (calls_.size() < limit_) {
    calls_.push_back(std::move(kept));
  } else {
    calls_[oldest_] = std::move(kept);
    oldest_ = (oldest_ + 1) % limit_;
  }
}

void KeptCalls::merge(const KeptCalls& other) {
  if (other.calls_.empty()) {
    return;
  }
  calls_.insert(calls_.end(), other.calls_.begin(), other.calls_.end());
  calls_ = in_order();
  if (calls_.size() > limit_) {
    calls_.erase(calls_.begin(), calls_.end() - static_cast<std::ptrdiff_t>(limit_));
  }
  oldest_ = 0;
}

std::vector<KeptCall> KeptCalls::in_order() const {
  std::vector<KeptCall> ordered = calls_;
  std::ranges::sort(ordered, {}, [](const KeptCall& kept) { return kept.call.call_id; });
  return ordered;
}

}  // namespace headscope::aggregate
