#include "model/work.h"

#include <new>
#include <optional>

#include "base/wide.h"
#include "model/bytes.h"
#include "model/facts.h"
#include "model/memory_parts.h"
#include "model/pairs.h"
#include "model/phase.h"

namespace headscope::model {

using base::fit;
using base::Wide;
using records::AttentionCall;
using records::CostedCall;

namespace {

/// FLOPs of one admitted pair.
Wide flops_per_pair(const AttentionCall& call) noexcept {
  const Wide d = positive(call.geometry.head_dim);
  const Wide dv = positive(call.geometry.head_dim_v);
  if (!is_backward(call)) {
    return 2 * (d + (call.scores_only ? 0 : dv));
  }
  if (is_fused(call)) {
    return 2 * (3 * d + 2 * dv);
  }
  const records::Gradients& made = call.gradients;
  const bool needs_dp = made.q || made.k;
  return 2 * ((made.q ? d : 0) + (made.k ? d : 0) + (made.v ? dv : 0) + (needs_dp ? dv : 0));
}

void set_flops(const AttentionCall& call, const CallPairs& pairs, CostedCall& costed) noexcept {
  const Wide extra = call.extra_product_flops;
  const bool eager_backward = is_backward(call) && !is_fused(call);
  if (eager_backward && call.product_flops) {
    const Wide ran = *call.product_flops;
    costed.flops_dense = fit(ran + extra);
    // Both factors are below 2⁶⁴.
    const bool all = pairs.dense == 0 || pairs.dense == pairs.admitted;
    costed.flops = fit((all ? ran : ran * pairs.admitted / pairs.dense) + extra);
  } else {
    const Wide per_pair = flops_per_pair(call);
    costed.flops = fit(pairs.admitted * per_pair + extra);
    costed.flops_dense = fit(pairs.dense * per_pair + extra);
  }
}

}  // namespace

CostedCall cost(const AttentionCall& call, std::int64_t decode_max_q) noexcept {
  CostedCall costed;
  costed.call = &call;
  costed.phase = phase_of(call, decode_max_q);
  if (costed.phase == Phase::kMixed) {
    try {
      costed.phase_shares = phase_shares(call, decode_max_q);
    } catch (const std::bad_alloc&) {
      costed.phase_shares = nullptr;  // stays one mixed call
    }
  }

  const bool recomputes_scores = is_backward(call) && is_fused(call);
  const std::optional<CallPairs> pairs = call_pairs(call);
  if (pairs) {
    costed.queries = pairs->queries;
    costed.pairs = fit(pairs->admitted);
    if (costed.pairs) {
      set_flops(call, *pairs, costed);
    }
  }
  if (!recomputes_scores) {
    costed.recompute_flops = 0;
  } else if (costed.pairs) {
    const std::uint64_t d = positive(call.geometry.head_dim);
    costed.recompute_flops = fit(Wide{*costed.pairs} * 2 * d);
  }
  if (mask_is_unknown(call)) {
    costed.flops_provenance = Provenance::kEstimated;
  }

  const Bytes bytes = compulsory_bytes(call, pairs);
  costed.bytes = bytes.value;
  costed.bytes_provenance = bytes.provenance;
  const Bytes materialized = materialized_bytes(call);
  costed.bytes_materialized = materialized.value;
  costed.materialized_provenance = materialized.provenance;

  costed.memory = memory_parts(call);

  if (const records::MaskCount* mask = counted_mask(call); mask != nullptr && !mask->pairs_per_head.empty()) {
    costed.head_weights = &mask->pairs_per_head;
  }
  return costed;
}

}  // namespace headscope::model
