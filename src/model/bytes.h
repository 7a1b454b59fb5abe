#pragma once

#include <cstdint>
#include <optional>

#include "headscope/types.h"
#include "model/pairs.h"
#include "records/attention_call.h"

namespace headscope::model {

/// A number of bytes and how it came about.
struct Bytes {
  std::optional<std::uint64_t> value;
  Provenance provenance = Provenance::kModelled;

  friend bool operator==(const Bytes&, const Bytes&) = default;
};

/// Compulsory traffic of a call, each operand once; see work.h. `pairs` is call_pairs(call).
Bytes compulsory_bytes(const records::AttentionCall& call, const std::optional<CallPairs>& pairs) noexcept;

/// Extra traffic that the variant made; see work.h.
Bytes materialized_bytes(const records::AttentionCall& call) noexcept;

}  // namespace headscope::model
