#pragma once

#include <cstdint>
#include <memory>

#include "headscope/types.h"
#include "records/attention_call.h"

namespace headscope::model {

/// What part of a model's work `call` is. The first rule that holds decides; "used keys" are the
/// leading keys up to the last one that any query may see.
///
///  1. keys and values come from another sequence        → cross
///  2. one query                                         → prefill if one key is used, else decode
///  3. queries ≤ decode_max_q < used keys                → decode
///  4. no query i may see a key beyond i                 → prefill (the key length may be a static
///                                                         cache's capacity)
///  5. queries < used keys                               → chunked_prefill
///  6. not causal                                        → encode
///  7. else                                              → unknown
///
/// A mask that was not counted (opaque, unseen) may be causal, so rule 6 does not hold for it. A varlen
/// batch whose sequences differ is mixed; sequences without queries are left out. Unknown when the
/// lengths are.
Phase phase_of(const records::AttentionCall& call, std::int64_t decode_max_q) noexcept;

/// What each phase has of a mixed call. Pairs are those of causality and window, of one head.
std::shared_ptr<const records::PhaseShares> phase_shares(const records::AttentionCall& call, std::int64_t decode_max_q);

}  // namespace headscope::model
