#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/wide.h"
#include "records/attention_call.h"

/// How many (query, key) pairs attention admits. Closed forms: no loop over queries.
namespace headscope::model {

/// One sequence, for one head, and what its queries may see. Lengths below 2³¹; negative ones are 0.
struct Sequence {
  std::int64_t q_len = 0;
  std::int64_t kv_len = 0;
  records::Causal causal = records::Causal::kNone;
  records::Window window = {};

  friend bool operator==(const Sequence&, const Sequence&) = default;
};

/// Keys [first, end).
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const noexcept { return end - first; }
  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

std::uint64_t admitted_pairs(const Sequence& sequence) noexcept;

/// Pairs of the queries [from, to), cut to those that exist: the work of one query block.
std::uint64_t admitted_pairs(const Sequence& sequence, std::int64_t from, std::int64_t to) noexcept;

/// Keys that at least one query sees. They are contiguous, since the band moves one key a query.
KeyRange touched_keys(const Sequence& sequence) noexcept;

/// Leading keys of a call's sequence up to the last one that a query may see; all where a mask was not counted.
std::int64_t used_keys(const records::AttentionCall& call, const Sequence& sequence) noexcept;

/// No query i sees a key beyond i because a causal rule or a window says so.
bool is_lower_triangle(const Sequence& sequence) noexcept;

/// A call's pairs and lengths, summed over its batch.
struct CallPairs {
  /// Over batch and query heads. An explicit mask that was counted takes the place of causal and
  /// window; one that was not (opaque, unseen) makes this `dense`.
  base::Wide admitted = 0;
  base::Wide dense = 0;
  /// Σ over the sequences.
  std::uint64_t queries = 0;
  std::uint64_t keys = 0;
  /// Keys that a sliding window lets at least one query see; `keys` without a window.
  std::uint64_t keys_touched = 0;

  friend bool operator==(const CallPairs&, const CallPairs&) = default;
};

/// std::nullopt when the lengths of the batch are not known. 128 bits: batch · heads · Sq · Sk may
/// pass 64.
std::optional<CallPairs> call_pairs(const records::AttentionCall& call) noexcept;

/// The sequences of `call`: one for each entry of `lengths`, else `batch` equal ones.
std::size_t sequence_count(const records::AttentionCall& call) noexcept;
Sequence sequence_at(const records::AttentionCall& call, std::size_t index) noexcept;

}  // namespace headscope::model
