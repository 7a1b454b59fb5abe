#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headscope/stats.h"
#include "records/device_work.h"

namespace headscope::aggregate {

/// The kernels of a row's calls, by name and part. Of the names beyond kMaxNames only count and time are kept.
class KernelSums {
 public:
  static constexpr std::size_t kMaxNames = 32;

  void add(const records::DeviceWork& work);
  void merge(const KernelSums& other);
  /// By falling time; those without a name of their own last.
  [[nodiscard]] std::vector<KernelRow> rows() const;

 private:
  struct Entry {
    std::string_view name;  ///< empty: of those that share the last place
    records::KernelPart part = records::KernelPart::kAttention;
    std::uint64_t count = 0;
    Count time_ns = 0;
  };

  Entry& entry_of(std::string_view name, records::KernelPart part);

  std::vector<Entry> entries_;
};

}  // namespace headscope::aggregate
