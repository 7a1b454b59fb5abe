#include "aggregate/kernel_sums.h"

#include <algorithm>
#include <tuple>

#include "aggregate/sums.h"
#include "aggregate/words.h"

namespace headscope::aggregate {

void KernelSums::add(const records::DeviceWork& work) {
  for (const records::CallKernel& kernel : work.kernels) {
    Entry& entry = entry_of(kernel.name, kernel.part);
    ++entry.count;
    entry.time_ns += static_cast<std::uint64_t>(std::max<std::int64_t>(kernel.time_ns, 0));
  }
}

void KernelSums::merge(const KernelSums& other) {
  for (const Entry& theirs : other.entries_) {
    Entry& ours = entry_of(theirs.name, theirs.part);
    ours.count += theirs.count;
    ours.time_ns += theirs.time_ns;
  }
}

std::vector<KernelRow> KernelSums::rows() const {
  std::vector<Entry> ordered = entries_;
  std::ranges::sort(ordered, [](const Entry& a, const Entry& b) {
    return std::tuple(a.name.empty(), b.time_ns, a.name, a.part) <
           std::tuple(b.name.empty(), a.time_ns, b.name, b.part);
  });
  std::vector<KernelRow> rows;
  rows.reserve(ordered.size());
  for (const Entry& entry : ordered) {
    rows.push_back({.name = entry.name.empty() ? "(others)" : std::string(entry.name),
                    .part = std::string(part_word(entry.part)),
                    .count = entry.count,
                    .time = to_nanoseconds(entry.time_ns)});
  }
  return rows;
}

KernelSums::Entry& KernelSums::entry_of(std::string_view name, records::KernelPart part) {
  const auto find = [&] {
    return std::ranges::find_if(entries_, [&](const Entry& e) { return e.part == part && e.name == name; });
  };
  if (const auto known = find(); known != entries_.end()) {
    return *known;
  }
  const auto named = std::ranges::count_if(entries_, [](const Entry& e) { return !e.name.empty(); });
  if (!name.empty() && static_cast<std::size_t>(named) >= kMaxNames) {
    return entry_of({}, part);
  }
  return entries_.emplace_back(Entry{.name = name, .part = part});
}

}  // namespace headscope::aggregate
