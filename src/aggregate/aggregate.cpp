#include "aggregate/aggregate.h"

namespace headscope::aggregate {
namespace {

bool is_other(LayerKey layer) noexcept { return layer.kind == LayerKey::Kind::kOther; }

std::size_t heads_to_keep(std::int64_t heads) noexcept {
  return heads > 0 && heads <= static_cast<std::int64_t>(Aggregate::kMaxHeads) ? static_cast<std::size_t>(heads) : 0;
}

}  // namespace

void Aggregate::add(const records::CostedCall& costed, LayerKey layer, std::int64_t step) {
  ++calls_seen_;
  RowKey key = row_key(costed, layer);
  RowSums* row = row_of(key);
  (row != nullptr ? *row : unplaced_).add(costed, wanted_.memory, step);
  if (is_other(key.layer)) {
    ++calls_beyond_labels_;
  }
  if (wanted_.per_head && row != nullptr) {
    HeadSums& heads = heads_of(head_key(costed, key.layer), heads_to_keep(costed.call->geometry.heads));
    heads.add(costed, wanted_.memory);
    calls_without_heads_ += heads.heads() == 0 ? 1 : 0;
  }
  if (wanted_.patterns_every > 0 && row != nullptr && step % wanted_.patterns_every == 0) {
    add_patterns(costed, key.layer, step);
  }
  kept_.add(costed, key.layer, step, wanted_.memory);
}

void Aggregate::add_patterns(const records::CostedCall& costed, LayerKey layer, std::int64_t step) {
  const records::AttentionCall& call = *costed.call;
  if (call.pattern_sample) {
    if (PatternSums* sums = patterns_of(head_key(costed, layer), call.pattern_sample->heads.size())) {
      sums->add(*call.pattern_sample, step);
      if (wanted_.tolerance && call.tolerance_sample) {
        tolerances_of(head_key(costed, layer)).add(*call.tolerance_sample);
      }
    } else {
      not_sampled_.add(records::NotSampled::kBudget);
    }
  } else if (call.not_sampled != records::NotSampled::kNone) {
    not_sampled_.add(call.not_sampled);
  }
}

void Aggregate::merge(const Aggregate& other) {
  calls_seen_ += other.calls_seen_;
  calls_beyond_labels_ += other.calls_beyond_labels_;
  unplaced_.merge(other.unplaced_);
  for (const auto& slot : other.rows_.slots()) {
    RowKey key = slot->key;
    if (RowSums* row = row_of(key)) {
      row->merge(slot->entry);
    } else {
      unplaced_.merge(slot->entry);
    }
    if (is_other(key.layer) && !is_other(slot->key.layer)) {
      calls_beyond_labels_ += slot->entry.calls();
    }
  }
  for (const auto& slot : other.heads_.slots()) {
    HeadSums& heads = heads_of(slot->key, slot->entry.heads());
    heads.merge(slot->entry);
    calls_without_heads_ += heads.heads() == 0 ? slot->entry.calls() : 0;
  }
  for (const auto& slot : other.patterns_.slots()) {
    if (PatternSums* sums = patterns_of(slot->key, slot->entry.total().size())) {
      sums->merge(slot->entry);
    }
  }
  for (const auto& slot : other.tolerances_.slots()) {
    if (patterns_.find(slot->key) != nullptr) {
      tolerances_of(slot->key).merge(slot->entry);
    }
  }
  not_sampled_.merge(other.not_sampled_);
  kept_.merge(other.kept_);
}

RowSums* Aggregate::row_of(RowKey& key) {
  if (RowSums* row = rows_.find(key)) {
    return row;
  }
  if (!is_other(key.layer) && rows_.size() - other_rows_ >= kMaxRows) {
    key.layer = LayerKey{};
    if (RowSums* row = rows_.find(key)) {
      return row;
    }
  }
  if (is_other(key.layer)) {
    if (other_rows_ == kMaxOtherRows) {
      return nullptr;
    }
    ++other_rows_;
  }
  return &rows_.insert(key, RowSums{});
}

HeadSums& Aggregate::heads_of(const HeadKey& key, std::size_t heads) {
  if (HeadSums* known = heads_.find(key)) {
    return *known;
  }
  if (head_cells_ + heads > kMaxHeadCells) {
    heads = 0;
  }
  head_cells_ += heads;
  return heads_.insert(key, HeadSums(heads));
}

ToleranceSums& Aggregate::tolerances_of(const HeadKey& key) {
  ToleranceSums* known = tolerances_.find(key);
  return known != nullptr ? *known : tolerances_.insert(key, ToleranceSums{});
}

PatternSums* Aggregate::patterns_of(const HeadKey& key, std::size_t heads) {
  if (PatternSums* known = patterns_.find(key)) {
    return known;
  }
  if (pattern_heads_ + heads > kMaxPatternHeads) {
    return nullptr;
  }
  pattern_heads_ += heads;
  return &patterns_.insert(key, PatternSums{});
}

}  // namespace headscope::aggregate
