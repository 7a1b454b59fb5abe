#include <algorithm>
#include <string_view>

#include "headscope/metric.h"
#include "headscope/report.h"
#include "report/inference_to_value.h"
#include "report/json_writer.h"
#include "report/patterns_to_value.h"
#include "report/row_figures.h"

namespace headscope {
namespace {

using Object = Value::Object;
using List = Value::List;
using report::figures_of;
using report::text_or_null;
using report::to_value;

struct Absent {
  std::string_view key;
  std::string_view reason;
};

/// Sections of the schema that this version does not make.
constexpr Absent kAbsentSections[] = {
    {"roofline", "peaks of the device are not measured by this version"},
    {"replay", "inputs are not captured for replay by this version"},
    {"comparison", "one profile is not compared with another by this version"},
    {"recommendations", "advice is not derived by this version"},
};

/// Keys inside the sections that are always null in this version, by their path.
constexpr Absent kAbsentKeys[] = {
    {"attention_breakdown.fixed_cost_ns", "needs a calibration"},
    {"attention_breakdown.bound", "needs the roofline"},
};

Object reasons(std::span<const Absent> absent) {
  Object out;
  for (const auto& [key, reason] : absent) {
    out.emplace_back(key, reason);
  }
  return out;
}

Value size_to_value(const Range& range) {
  if (range.min == range.max) {
    return range.min;
  }
  return report::to_value(range);
}

std::string_view word(Memory memory) {
  switch (memory) {
    case Memory::kOff:
      return "off";
    case Memory::kCalls:
      return "calls";
    case Memory::kScope:
      return "scope";
  }
  return "unknown";
}

std::string_view word(Eager eager) {
  switch (eager) {
    case Eager::kOff:
      return "off";
    case Eager::kBasic:
      return "basic";
    case Eager::kDetail:
      return "detail";
  }
  return "unknown";
}

std::string_view word(DeviceTiming timing) {
  switch (timing) {
    case DeviceTiming::kAuto:
      return "auto";
    case DeviceTiming::kCupti:
      return "cupti";
    case DeviceTiming::kEvents:
      return "events";
    case DeviceTiming::kHost:
      return "host";
  }
  return "unknown";
}

std::string_view word(Threads threads) {
  switch (threads) {
    case Threads::kAll:
      return "all";
    case Threads::kCurrent:
      return "current";
  }
  return "unknown";
}

Object to_value(const Options& options) {
  return {
      {"memory", word(options.memory)},
      {"eager", word(options.eager)},
      {"device_timing", word(options.device_timing)},
      {"threads", word(options.threads)},
      {"per_head", options.per_head},
      {"decode_max_q", options.decode_max_q},
      {"mask_count_budget", options.mask_count_budget},
      {"patterns", options.patterns},
      {"tolerance", options.tolerance},
      {"pattern_rows", options.pattern_rows},
      {"pattern_budget", options.pattern_budget},
      {"keep_calls", std::uint64_t{options.keep_calls}},
      {"start_now", options.start_now},
  };
}

bool heads_absent(const Stats& stats) { return stats.heads.empty() && !stats.meta.options.per_head; }
bool memory_absent(const Stats& stats) { return stats.meta.options.memory == Memory::kOff; }
bool calls_absent(const Stats& stats) { return stats.calls.empty() && stats.meta.options.keep_calls == 0; }

Value to_value(const std::optional<TraceMeta>& trace) {
  if (!trace) {
    return {};
  }
  List devices;
  for (const std::string& device : trace->devices) {
    devices.emplace_back(device);
  }
  Object skipped;
  for (const auto& [reason, events] : trace->skipped) {
    skipped.emplace_back(reason, events);
  }
  return Object{{"path", trace->path},
                {"rank", trace->rank},
                {"world_size", trace->world_size},
                {"platform", text_or_null(trace->platform)},
                {"devices", std::move(devices)},
                {"events", trace->events},
                {"skipped", std::move(skipped)}};
}

Object meta_to_value(const Stats& stats) {
  Object sections = reasons(kAbsentSections);
  if (heads_absent(stats)) {
    sections.emplace_back("heads", "the option per_head is off");
  }
  if (calls_absent(stats)) {
    sections.emplace_back("calls", "the option keep_calls is 0");
  }
  if (memory_absent(stats)) {
    sections.emplace_back("memory", stats.meta.trace ? "memory is not read from traces" : "the option memory is off");
  }
  const auto absent = [&sections](bool is, std::string_view key, std::string_view reason) {
    if (is) {
      sections.emplace_back(key, reason);
    }
  };
  absent(stats.phases.empty(), "phases", "no attention was seen");
  absent(stats.positions.empty(), "positions", "no forward call with known lengths was timed");
  absent(stats.requests == std::nullopt, "requests", "nothing was prefilled or decoded");
  absent(stats.kv_cache.empty(), "kv_cache",
         stats.meta.trace ? "a trace does not tell how full caches are"
                          : "no cache was seen: give the model, or register the cache");
  absent(!stats.patterns, "patterns",
         stats.meta.options.patterns > 0 ? "no forward call was seen in a step that is sampled"
                                         : "the option patterns is off");
  absent(!stats.tolerance, "tolerance",
         stats.meta.options.tolerance > 0
             ? "no forward call of an op with Q, K and V was seen in a step that is sampled"
             : "the option tolerance is off");
  absent(stats.stages.empty(), "stages", "no part of the program was marked: use stage()");
  if (stats.steps.empty()) {
    sections.emplace_back("steps", "no step has ended: call step() at the end of each");
  }
  return {
      {"headscope_version", text_or_null(stats.meta.headscope_version)},
      {"torch_version", text_or_null(stats.meta.torch_version)},
      {"options", to_value(stats.meta.options)},
      {"trace", to_value(stats.meta.trace)},
      {"absent_sections", std::move(sections)},
      {"absent_keys", reasons(kAbsentKeys)},
  };
}

/// Every metric of the catalogue, then where each known one comes from.
void append_figures(Object& row, const Figures& figures) {
  Object provenance;
  for (const Metric& metric : metrics()) {
    Value value = metric.read(figures);
    if (!value.is_null()) {
      provenance.emplace_back(metric.id, to_string(provenance_of(metric, figures)));
    }
    row.emplace_back(metric.id, std::move(value));
  }
  row.emplace_back("provenance", std::move(provenance));
}

Object to_value(const AttentionRow& row) {
  Object out{
      {"layer", row.layer},
      {"layer_index", row.layer_index},
      {"layer_provenance", row.layer_by_order ? Value(to_string(Provenance::kEstimated)) : Value()},
      {"variant", row.variant},
      {"op", row.op},
      {"phase", to_string(row.phase)},
      {"direction", to_string(row.direction)},
      {"inside_backward", row.inside_backward},
      {"device", row.device},
      {"dtype", row.dtype},
      {"batch", size_to_value(row.batch)},
      {"heads", row.heads},
      {"kv_heads", row.kv_heads},
      {"model_kv_heads", row.model_kv_heads},
      {"head_dim", row.head_dim},
      {"head_dim_v", row.head_dim_v},
      {"q_len", size_to_value(row.q_len)},
      {"kv_len", size_to_value(row.kv_len)},
      {"causal", row.causal},
      {"causal_alignment", row.causal_alignment},
      {"mask", text_or_null(row.mask)},
      {"fallback_reason", row.fallback_reason},
  };
  append_figures(out, row);
  return out;
}

void append_metrics(Object& row, const Figures& figures, std::span<const std::string_view> ids) {
  for (const std::string_view id : ids) {
    row.emplace_back(id, find_metric(id)->read(figures));
  }
}

Object to_value(const HeadRow& row) {
  Object out{
      {"layer", row.layer},
      {"layer_index", row.layer_index},
      {"head", row.head},
      {"kv_head", row.kv_head},
      {"direction", to_string(row.direction)},
      {"calls", row.calls},
      {"flops", row.flops},
      {"bytes", row.bytes},
      {"bytes_materialized", row.bytes_materialized},
      {"allocated_bytes", row.allocated_bytes},
      {"time_ns", row.time},
  };
  constexpr std::string_view kDerived[] = {"gb_per_s", "flops_per_byte", "bound"};
  append_metrics(out, figures_of(row), kDerived);
  out.emplace_back("time_provenance", row.time ? Value(to_string(row.time_provenance)) : Value());
  out.emplace_back("entropy", row.entropy);
  out.emplace_back("effective_tokens", row.effective_tokens);
  out.emplace_back("sink_mass", row.sink_mass);
  out.emplace_back("local_mass", row.local_mass);
  return out;
}

List kernels_to_value(const std::vector<CallKernelRow>& kernels) {
  List out;
  for (const CallKernelRow& kernel : kernels) {
    out.emplace_back(Object{{"name", kernel.name},
                            {"part", kernel.part},
                            {"time_ns", kernel.time},
                            {"stream", std::uint64_t{kernel.stream}},
                            {"grid", List{kernel.grid[0], kernel.grid[1], kernel.grid[2]}}});
  }
  return out;
}

Object to_value(const CallRow& row) {
  Object out{
      {"call_id", row.call_id},
      {"forward_call_id", row.forward_call_id},
      {"layer", row.layer},
      {"variant", row.variant},
      {"op", row.op},
      {"phase", to_string(row.phase)},
      {"direction", to_string(row.direction)},
      {"inside_backward", row.inside_backward},
      {"device", row.device},
      {"dtype", row.dtype},
      {"step", row.step},
      {"batch", row.batch},
      {"heads", row.heads},
      {"kv_heads", row.kv_heads},
      {"head_dim", row.head_dim},
      {"head_dim_v", row.head_dim_v},
      {"q_len", row.q_len},
      {"kv_len", row.kv_len},
      {"causal", row.causal},
      {"mask", text_or_null(row.mask)},
      {"fallback_reason", row.fallback_reason},
      {"time_ns", row.time},
      {"time_source", row.time ? Value(to_string(row.time_source)) : Value()},
      {"host_ns", row.host},
      {"gap_ns", row.gap},
      {"launch_latency_ns", row.launch_latency},
      {"queue_ns", row.queue},
      {"kernels", row.kernels.empty() ? Value() : Value(kernels_to_value(row.kernels))},
      {"flops", row.flops},
      {"flops_dense", row.flops_dense},
      {"recompute_flops", row.recompute_flops},
      {"bytes", row.bytes},
      {"bytes_materialized", row.bytes_materialized},
  };
  constexpr std::string_view kDerived[] = {"gb_per_s", "useful_gb_per_s", "flops_per_byte"};
  append_metrics(out, figures_of(row), kDerived);
  out.emplace_back("peak_bytes", row.peak_bytes);
  out.emplace_back("score_bytes", row.score_bytes);
  return out;
}

Object to_value(const StepPoint& point) {
  return {
      {"first_step", point.first_step},
      {"last_step", point.last_step},
      {"steps", point.steps},
      {"wall_ns", point.wall},
      {"calls", point.calls},
      {"attention_ns", point.attention},
      {"forward_ns", point.forward},
      {"backward_ns", point.backward},
      {"recompute_ns", point.recompute},
      {"flops", point.flops},
      {"bytes", point.bytes},
      {"bytes_materialized", point.bytes_materialized},
      {"peak_bytes", point.peak_bytes},
  };
}

Object to_value(const LayerPeak& peak) {
  return {{"layer", peak.layer}, {"layer_index", peak.layer_index}, {"peak_bytes", peak.peak_bytes}};
}

Object to_value(const DevicePeak& peak) { return {{"device", peak.device}, {"peak_bytes", peak.peak_bytes}}; }

Object to_value(const MemorySpike& spike) {
  Object parts;
  for (const MemoryPart& part : spike.parts) {
    parts.emplace_back(part.cause, part.bytes);
  }
  return {
      {"layer", spike.layer},     {"layer_index", spike.layer_index},
      {"variant", spike.variant}, {"direction", to_string(spike.direction)},
      {"step", spike.step},       {"bytes", spike.bytes},
      {"cause", spike.cause},     {"parts", std::move(parts)},
  };
}

template <class Row>
List rows_to_value(const std::vector<Row>& rows) {
  List out;
  out.reserve(rows.size());
  for (const Row& row : rows) {
    out.emplace_back(to_value(row));
  }
  return out;
}

template <class Row>
Value list_or_null(const std::vector<Row>& rows) {
  return rows.empty() ? Value() : Value(rows_to_value(rows));
}

Object to_value(const MemorySection& memory) {
  Value peak;
  if (!memory.devices.empty()) {
    peak = std::ranges::max_element(memory.devices, {}, &DevicePeak::peak_bytes)->peak_bytes;
  }
  return {
      {"peak_bytes", std::move(peak)},
      {"devices", memory.devices.empty() ? Value() : Value(rows_to_value(memory.devices))},
      {"incomplete", text_or_null(memory.incomplete)},
      {"layers", rows_to_value(memory.layers)},
      {"spikes", rows_to_value(memory.spikes)},
  };
}

Object to_value(const TimeSection& time) {
  return {
      {"wall_ns", time.wall},
      {"steps", time.steps},
      {"attention_ns", time.attention},
      {"attention_share", time.attention_share},
      {"forward_ns", time.forward},
      {"backward_ns", time.backward},
      {"recompute_ns", time.recompute},
      {"recompute_share", time.recompute_share},
      {"gaps", Object{{"host_outside_attention_ns", time.outside_attention}, {"device_idle_ns", time.device_idle}}},
      {"hardware_flops", time.hardware_flops},
      {"model_flops", time.model_flops},
      {"recompute_flops_share", time.recompute_flops_share},
      {"backward_recompute_flops_share", time.backward_recompute_flops_share},
  };
}

Object to_value(const Diagnostics& diagnostics) {
  List not_observable;
  for (const NotObservable& item : diagnostics.not_observable) {
    not_observable.emplace_back(Object{{"what", item.what}, {"reason", item.reason}});
  }
  return {
      {"overhead_ns", diagnostics.overhead},
      {"overhead_share", diagnostics.overhead_share},
      {"calls_seen", diagnostics.calls_seen},
      {"calls_attributed", diagnostics.calls_attributed},
      {"calls_failed", diagnostics.calls_failed},
      {"chains_unfinished", diagnostics.chains_unfinished},
      {"calls_beyond_labels", diagnostics.calls_beyond_labels},
      {"calls_untimed", diagnostics.calls_untimed},
      {"calls_captured", diagnostics.calls_captured},
      {"kernels_unmatched", diagnostics.kernels_unmatched},
      {"kernels_of_unknown_graphs", diagnostics.kernels_of_unknown_graphs},
      {"records_dropped", diagnostics.records_dropped},
      {"hook_errors", diagnostics.hook_errors},
      {"device_timing", Object{{"mode", text_or_null(diagnostics.device_timing_mode)},
                               {"reason", text_or_null(diagnostics.device_timing_reason)}}},
      {"not_observable", std::move(not_observable)},
  };
}

}  // namespace

Value to_value(const Stats& stats) {
  Object total;
  append_figures(total, stats.total);
  Object out{
      {"schema_version", Stats::kSchemaVersion},
      {"meta", meta_to_value(stats)},
      {"total", std::move(total)},
      {"attention_breakdown", rows_to_value(stats.attention_breakdown)},
      {"phases", list_or_null(stats.phases)},
      {"positions", list_or_null(stats.positions)},
      {"requests", stats.requests ? Value(report::to_value(*stats.requests)) : Value()},
      {"kv_cache", list_or_null(stats.kv_cache)},
      {"stages", list_or_null(stats.stages)},
      {"heads", heads_absent(stats) ? Value() : Value(rows_to_value(stats.heads))},
      {"calls", calls_absent(stats) ? Value() : Value(rows_to_value(stats.calls))},
      {"steps", stats.steps.empty() ? Value() : Value(rows_to_value(stats.steps))},
      {"memory", memory_absent(stats) ? Value() : Value(to_value(stats.memory))},
      {"time", to_value(stats.time)},
      {"tolerance", stats.tolerance ? Value(report::to_value(*stats.tolerance)) : Value()},
      {"patterns", stats.patterns ? Value(report::to_value(*stats.patterns)) : Value()},
      {"diagnostics", to_value(stats.diagnostics)},
  };
  for (const auto& [key, reason] : kAbsentSections) {
    out.emplace_back(key, Value());
  }
  return out;
}

std::string to_json(const Stats& stats, int indent) { return report::write_json(to_value(stats), indent); }

}  // namespace headscope
