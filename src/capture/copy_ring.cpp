#include "capture/copy_ring.h"

namespace headscope::capture {

void CopyRing::put(const TensorView& in, const TensorView& out, std::uint64_t counted) noexcept {
  const bool in_place = in.storage == out.storage;
  if (in.dims < 0 || out.dims < 0 || out.storage == 0 || in_place) {
    return;
  }
  outputs_[next_] = out.storage;
  entries_[next_] = {in.storage, in.elements(), out.elements(), counted};
  next_ = (next_ + 1) % kEntries;
}

CopyRing::Entry* CopyRing::find(StorageId out, std::int64_t elements) noexcept {
  for (std::size_t back = 1; back <= kEntries; ++back) {
    const std::size_t at = (next_ + kEntries - back) % kEntries;
    if (outputs_[at] == out) {
      // An older op at this address wrote a tensor that is gone.
      return entries_[at].out_elements == elements ? &entries_[at] : nullptr;
    }
  }
  return nullptr;
}

std::uint64_t CopyRing::take(const TensorView& operand, int steps) noexcept {
  StorageId storage = operand.storage;
  std::int64_t elements = operand.dims < 0 ? 0 : operand.elements();
  std::uint64_t bytes = 0;
  for (int step = 0; step < steps && storage != 0; ++step) {
    Entry* entry = find(storage, elements);
    if (entry == nullptr) {
      break;
    }
    bytes += entry->counted;
    entry->counted = 0;
    storage = entry->in;
    elements = entry->in_elements;
  }
  return bytes;
}

}  // namespace headscope::capture
