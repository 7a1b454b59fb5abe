#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "capture/tensor_view.h"
#include "capture/torch/score_rows.h"
#include "capture/torch/weak_storage.h"

namespace headscope::capture::torch {

/// What was sampled of the last softmaxes, by the storage of their output: the recogniser has room for as many chains.
class ChainProbes {
 public:
  void keep(const at::Tensor& probabilities, ProbeSource&& source) {
    entries_[next_++ % entries_.size()] = {WeakStorage(probabilities), std::move(source)};
  }
  [[nodiscard]] std::optional<ProbeSource> take(StorageId probabilities) noexcept {
    for (Entry& entry : entries_) {
      if (probabilities != 0 && entry.probabilities.id() == probabilities) {
        return std::exchange(entry, Entry{}).source;
      }
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    WeakStorage probabilities;
    ProbeSource source;
  };
  std::array<Entry, 4> entries_;
  std::size_t next_ = 0;
};

}  // namespace headscope::capture::torch
