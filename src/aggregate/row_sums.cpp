#include "aggregate/row_sums.h"

#include "aggregate/words.h"

namespace headscope::aggregate {

void RowSums::add(const records::CostedCall& costed, bool memory, std::int64_t step) {
  const records::AttentionCall& call = *costed.call;
  ++calls_;
  if (call.time_ns >= 0) {
    time_.add(call.time_ns, call.start_ns);
  } else {
    ++untimed_;
  }
  positions_.add(costed, step);
  phases_.add(costed);
  cache_.add(call);
  time_source_.add(call.time_source);
  host_.add_measured(call.lone_kernel ? -1 : std::max<std::int64_t>(call.end_ns - call.start_ns, 0));
  glue_.add_measured(call.glue_ns);
  other_.add_measured(call.other_ns);
  if (const records::DeviceWork* work = call.device_work.get()) {
    gap_.add_measured(work->gap_ns);
    launch_latency_.add_measured(work->launch_latency_ns);
    queue_.add_measured(work->queue_ns);
    kernels_.add(*work);
  } else {
    gap_.add_measured(-1);
  }
  flops_.add(costed.flops);
  flops_dense_.add(costed.flops_dense);
  recompute_flops_.add(costed.recompute_flops);
  bytes_.add(costed.bytes);
  bytes_materialized_.add(costed.bytes_materialized);
  const bool copies_seen = call.materialized.exact;
  kv_copy_bytes_.add(copies_seen ? std::optional(call.materialized.kv_copy_bytes) : std::nullopt);
  mask_copy_bytes_.add(copies_seen ? std::optional(call.materialized.mask_copy_bytes) : std::nullopt);
  allocated_bytes_.add_measured(memory ? call.allocated_bytes : -1);
  peak_bytes_.add_measured(memory ? call.peak_bytes : -1);
  score_bytes_.add_measured(memory ? call.score_bytes : -1);
  if (memory) {
    peak_call_.add(call.peak_bytes, step, costed.memory);
    if (copies_seen && (call.op->kernel == records::Kernel::kFused || !call.found)) {
      const records::MemoryParts copies{.mask = static_cast<std::int64_t>(call.materialized.mask_copy_bytes),
                                        .kv_copy = static_cast<std::int64_t>(call.materialized.kv_copy_bytes)};
      copies_before_.add(copies.mask + copies.kv_copy, step, copies);
    }
  }
  flops_provenance_.add(costed.flops_provenance);
  bytes_provenance_.add(costed.bytes_provenance);
  materialized_provenance_.add(costed.materialized_provenance);
  // The names of kernels tell attention from the rest.
  time_is_attention_ = time_is_attention_ && (call.op->time_is_attention || call.device_work != nullptr);

  batch_.add(call.geometry.batch);
  q_len_.add(call.geometry.q_len);
  kv_len_.add(call.geometry.kv_len);
  causal_.add(call.causal);
  is_causal_.add(call.causal != records::Causal::kNone);
  mask_.add(call.mask);
  fallback_.add(call.fallback);
}

void RowSums::merge(const RowSums& other) {
  time_.merge(other.time_);
  positions_.merge(other.positions_);
  phases_.merge(other.phases_);
  cache_.merge(other.cache_);
  merge_all_but_time(other);
}

void RowSums::absorb(const RowSums& other) {
  time_.absorb(other.time_);
  merge_all_but_time(other);
}

void RowSums::merge_all_but_time(const RowSums& other) {
  calls_ += other.calls_;
  untimed_ += other.untimed_;
  time_source_.merge(other.time_source_);
  host_.merge(other.host_);
  glue_.merge(other.glue_);
  other_.merge(other.other_);
  gap_.merge(other.gap_);
  launch_latency_.merge(other.launch_latency_);
  queue_.merge(other.queue_);
  kernels_.merge(other.kernels_);
  flops_.merge(other.flops_);
  flops_dense_.merge(other.flops_dense_);
  recompute_flops_.merge(other.recompute_flops_);
  bytes_.merge(other.bytes_);
  bytes_materialized_.merge(other.bytes_materialized_);
  kv_copy_bytes_.merge(other.kv_copy_bytes_);
  mask_copy_bytes_.merge(other.mask_copy_bytes_);
  allocated_bytes_.merge(other.allocated_bytes_);
  peak_bytes_.merge(other.peak_bytes_);
  score_bytes_.merge(other.score_bytes_);
  peak_call_.merge(other.peak_call_);
  copies_before_.merge(other.copies_before_);
  flops_provenance_.merge(other.flops_provenance_);
  bytes_provenance_.merge(other.bytes_provenance_);
  materialized_provenance_.merge(other.materialized_provenance_);
  time_is_attention_ = time_is_attention_ && other.time_is_attention_;
  batch_.merge(other.batch_);
  q_len_.merge(other.q_len_);
  kv_len_.merge(other.kv_len_);
  causal_.merge(other.causal_);
  is_causal_.merge(other.is_causal_);
  mask_.merge(other.mask_);
  fallback_.merge(other.fallback_);
}

Figures RowSums::figures() const {
  Figures figures;
  figures.calls = calls_;
  if (calls_ == 0) {
    return figures;
  }
  const auto as_time = [](std::optional<Count> sum) {
    return sum ? std::optional(to_nanoseconds(*sum)) : std::nullopt;
  };
  if (const auto source = time_source_.value(); source && untimed_ == 0) {
    figures.time = time_.stats();
    figures.time->source = *source;
  }
  figures.host = as_time(host_.value());
  figures.glue = as_time(glue_.value());
  figures.other = as_time(other_.value());
  figures.gap = as_time(gap_.value());
  figures.launch_latency = as_time(launch_latency_.value());
  figures.queue = as_time(queue_.value());
  figures.kernels = kernels_.rows();
  figures.flops = flops_.value();
  figures.flops_dense = flops_dense_.value();
  figures.recompute_flops = recompute_flops_.value();
  figures.bytes = bytes_.value();
  figures.bytes_materialized = bytes_materialized_.value();
  figures.kv_copy_bytes = kv_copy_bytes_.value();
  figures.mask_copy_bytes = mask_copy_bytes_.value();
  figures.peak_bytes = peak_bytes_.value();
  figures.score_bytes = score_bytes_.value();
  figures.allocated_bytes = allocated_bytes_.value();
  figures.time_is_attention = time_is_attention_;

  const auto say = [&figures](const char* id, bool present, Provenance provenance) {
    if (present) {
      figures.provenance.emplace(id, provenance);
    }
  };
  say("time_ns", figures.time.has_value(), Provenance::kMeasured);
  say("host_ns", figures.host.has_value(), Provenance::kMeasured);
  say("glue_ns", figures.glue.has_value(), Provenance::kMeasured);
  say("other_ns", figures.other.has_value(), Provenance::kMeasured);
  say("flops", figures.flops.has_value(), flops_provenance_.value());
  // Needs no knowledge of masks.
  say("flops_dense", figures.flops_dense.has_value(), Provenance::kModelled);
  say("recompute_flops", figures.recompute_flops.has_value(), flops_provenance_.value());
  say("bytes", figures.bytes.has_value(), bytes_provenance_.value());
  say("bytes_materialized", figures.bytes_materialized.has_value(), materialized_provenance_.value());
  say("kv_copy_bytes", figures.kv_copy_bytes.has_value(), Provenance::kModelled);
  say("mask_copy_bytes", figures.mask_copy_bytes.has_value(), Provenance::kModelled);
  say("peak_bytes", figures.peak_bytes.has_value(), Provenance::kMeasured);
  say("score_bytes", figures.score_bytes.has_value(), Provenance::kMeasured);
  say("allocated_bytes", figures.allocated_bytes.has_value(), Provenance::kMeasured);
  return figures;
}

void RowSums::describe(AttentionRow& row) const {
  row.batch = batch_.range();
  row.q_len = q_len_.range();
  row.kv_len = kv_len_.range();
  row.causal = is_causal_.value();
  const auto alignment = causal_.value();
  row.causal_alignment = alignment ? alignment_word(*alignment) : std::nullopt;
  const auto mask = mask_.value();
  row.mask = mask ? std::string(mask_word(*mask)) : "mixed";
  const auto fallback = fallback_.value();
  row.fallback_reason = fallback ? fallback_word(*fallback) : "mixed";
}

}  // namespace headscope::aggregate
