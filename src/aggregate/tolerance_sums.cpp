#include "aggregate/tolerance_sums.h"

#include <algorithm>
#include <cstddef>

namespace headscope::aggregate {

void ToleranceSums::add(const records::ToleranceSample& sample) {
  ++calls_;
  add_heads(sample.heads);
}

void ToleranceSums::merge(const ToleranceSums& other) {
  calls_ += other.calls_;
  add_heads(other.heads_);
}

void ToleranceSums::add_heads(const std::vector<records::HeadTolerance>& heads) {
  heads_.resize(std::max(heads_.size(), heads.size()));
  for (std::size_t head = 0; head < heads.size(); ++head) {
    heads_[head].add(heads[head]);
  }
}

}  // namespace headscope::aggregate
