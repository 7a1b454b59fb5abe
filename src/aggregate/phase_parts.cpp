#include "aggregate/phase_parts.h"

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "base/split.h"

namespace headscope::aggregate {
namespace {

using records::kPhases;
using Shares = std::array<std::optional<std::uint64_t>, kPhases>;

Shares divide(std::optional<std::uint64_t> value, std::span<const std::uint64_t> weights) noexcept {
  Shares shares;
  if (value) {
    base::split(*value, kPhases, weights,
                [&shares](std::size_t phase, base::Wide share) { shares[phase] = static_cast<std::uint64_t>(share); });
  }
  return shares;
}

std::optional<std::uint64_t> time_of(const records::AttentionCall& call) noexcept {
  return call.time_ns >= 0 ? std::optional(static_cast<std::uint64_t>(call.time_ns)) : std::nullopt;
}

}  // namespace

void PhaseParts::Part::merge(const Part& other) noexcept {
  calls += other.calls;
  sequences.merge(other.sequences);
  queries.merge(other.queries);
  time_ns.merge(other.time_ns);
  flops.merge(other.flops);
  bytes.merge(other.bytes);
  divided = divided || other.divided;
}

void PhaseParts::add(const records::CostedCall& costed) {
  const records::AttentionCall& call = *costed.call;
  const records::PhaseShares* shares = costed.phase_shares.get();
  if (shares == nullptr) {
    Part& part = parts_[costed.phase];
    ++part.calls;
    const bool known = costed.queries.has_value() && call.geometry.batch >= 0;
    part.sequences.add(known ? std::optional<Count>(static_cast<std::uint64_t>(call.geometry.batch)) : std::nullopt);
    part.queries.add(costed.queries);
    part.time_ns.add(time_of(call));
    part.flops.add(costed.flops);
    part.bytes.add(costed.bytes);
    return;
  }
  const Shares times = divide(time_of(call), shares->pairs);
  const Shares flops = divide(costed.flops, shares->pairs);
  const Shares bytes = divide(costed.bytes, shares->elements);
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    if (shares->sequences[phase] == 0) {
      continue;
    }
    Part& part = parts_[static_cast<Phase>(phase)];
    ++part.calls;
    part.sequences.add(shares->sequences[phase]);
    part.queries.add(shares->queries[phase]);
    part.time_ns.add(times[phase]);
    part.flops.add(flops[phase]);
    part.bytes.add(bytes[phase]);
    part.divided = true;
  }
}

void PhaseParts::merge(const PhaseParts& other) {
  for (const auto& [phase, part] : other.parts_) {
    parts_[phase].merge(part);
  }
}

}  // namespace headscope::aggregate
