#include <algorithm>
#include <string>

#include "headscope/metric.h"

namespace headscope {
namespace {

std::optional<double> per_nanosecond(const std::optional<Count>& amount, const Figures& figures) noexcept {
  if (!amount || !figures.time || figures.time->total.count() <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(*amount) / static_cast<double>(figures.time->total.count());
}

Value read_time(const Figures& figures) {
  if (!figures.time) {
    return {};
  }
  const TimeStats& time = *figures.time;
  return Value::Object{
      {"total", time.total}, {"mean", time.mean},
      {"min", time.min},     {"p50", time.p50},
      {"p90", time.p90},     {"p99", time.p99},
      {"max", time.max},     {"std", time.std},
      {"first", time.first}, {"source", to_string(time.source)},
  };
}

Value read_kernels(const Figures& figures) {
  if (figures.kernels.empty()) {
    return {};
  }
  Value::List kernels;
  for (const KernelRow& kernel : figures.kernels) {
    kernels.emplace_back(
        Value::Object{{"name", kernel.name}, {"part", kernel.part}, {"count", kernel.count}, {"time_ns", kernel.time}});
  }
  return kernels;
}

/// Of ids that the schema names and that no stage fills.
Value unknown(const Figures& /*figures*/) { return {}; }

constexpr Provenance kMeasured = Provenance::kMeasured;
constexpr Provenance kModelled = Provenance::kModelled;

// Order: of reports. The text table leaves columns out from the right, so headings stand in the order
// of their importance.
constexpr Metric kMetrics[] = {
    {"calls", "", "calls", "Executions of attention in the row.", kMeasured,
     [](const Figures& f) -> Value { return f.calls; }},
    {"time_ns", "ns", "time", "The attention's own time, over all calls and per call.", kMeasured, read_time},
    {"host_ns", "ns", "", "Host time from the start of a call's first op to the end of its last.", kMeasured,
     [](const Figures& f) -> Value { return f.host; }},
    {"glue_ns", "ns", "", "Time between the ops of an eager chain: scale, mask, dropout, casts.", kMeasured,
     [](const Figures& f) -> Value { return f.glue; }},
    {"other_ns", "ns", "", "Time of work under the op that is no attention.", kMeasured,
     [](const Figures& f) -> Value { return f.other; }},
    {"gap_ns", "ns", "", "Between a call's first and last kernel, with none of its kernels running.", kMeasured,
     [](const Figures& f) -> Value { return f.gap; }},
    {"launch_latency_ns", "ns", "",
     "Start of a call's first kernel minus start of its launch, on an idle stream, the mean.", kMeasured,
     [](const Figures& f) -> Value { return f.launch_latency; }},
    {"queue_ns", "ns", "", "Start of a call's first kernel minus start of its launch, on a busy stream, the mean.",
     kMeasured, [](const Figures& f) -> Value { return f.queue; }},
    {"fixed_cost_ns", "ns", "", "The variant's time for one token, from calibration.", kMeasured, unknown},
    {"flops", "FLOP", "", "FLOPs of the matrix products over admitted pairs.", kModelled,
     [](const Figures& f) -> Value { return f.flops; }},
    {"flops_dense", "FLOP", "", "The same with every pair admitted.", kModelled,
     [](const Figures& f) -> Value { return f.flops_dense; }},
    {"recompute_flops", "FLOP", "", "The part of a fused backward's FLOPs that repeats QKᵀ.", kModelled,
     [](const Figures& f) -> Value { return f.recompute_flops; }},
    {"bytes", "bytes", "", "Compulsory traffic: each operand once.", kModelled,
     [](const Figures& f) -> Value { return f.bytes; }},
    {"bytes_materialized", "bytes", "", "Extra traffic that the variant makes beyond the operands.", kModelled,
     [](const Figures& f) -> Value { return f.bytes_materialized; }},
    {"kv_copy_bytes", "bytes", "", "Copies of K and V made for shared heads or layout, each once.", kMeasured,
     [](const Figures& f) -> Value { return f.kv_copy_bytes; }},
    {"mask_copy_bytes", "bytes", "", "Masks built from another mask, each once.", kMeasured,
     [](const Figures& f) -> Value { return f.mask_copy_bytes; }},
    {"gb_per_s",
     "GB/s",
     "GB/s",
     "Bytes moved per second of attention time.",
     kModelled,
     [](const Figures& f) -> Value { return gb_per_s(f); },
     {"bytes", "bytes_materialized", "time_ns"}},
    {"useful_gb_per_s",
     "GB/s",
     "",
     "Compulsory bytes per second of attention time.",
     kModelled,
     [](const Figures& f) -> Value { return useful_gb_per_s(f); },
     {"bytes", "time_ns"}},
    {"flops_per_byte",
     "FLOP/byte",
     "FLOP/B",
     "FLOPs per byte moved.",
     kModelled,
     [](const Figures& f) -> Value { return flops_per_byte(f); },
     {"flops", "bytes", "bytes_materialized"}},
    {"tflop_per_s",
     "TFLOP/s",
     "TFLOP/s",
     "FLOPs per second of attention time.",
     kModelled,
     [](const Figures& f) -> Value { return tflop_per_s(f); },
     {"flops", "time_ns"}},
    {"bound", "", "", "What limits the row: memory, compute or latency.", kModelled, unknown},
    {"peak_bytes", "bytes", "peak", "The largest rise of allocated memory above the level at a call's start.",
     kMeasured, [](const Figures& f) -> Value { return f.peak_bytes; }},
    {"score_bytes", "bytes", "scores", "Query×key sized tensors allocated in one call, the largest over the row.",
     kMeasured, [](const Figures& f) -> Value { return f.score_bytes; }},
    {"allocated_bytes", "bytes", "", "Bytes allocated by all calls together.", kMeasured,
     [](const Figures& f) -> Value { return f.allocated_bytes; }},
    {"kernels", "", "", "Device kernels, copies and fills of the row, by name.", kMeasured, read_kernels},
};

}  // namespace

std::span<const Metric> metrics() noexcept { return kMetrics; }

const Metric* find_metric(std::string_view id) noexcept {
  const auto* found = std::ranges::find(kMetrics, id, &Metric::id);
  return found == std::end(kMetrics) ? nullptr : found;
}

Provenance provenance_of(const Metric& metric, const Figures& figures) {
  if (const auto said = figures.provenance.find(std::string(metric.id)); said != figures.provenance.end()) {
    return said->second;
  }
  if (metric.inputs.front().empty()) {
    return metric.provenance;
  }
  Provenance weakest = kMeasured;
  for (const std::string_view id : metric.inputs) {
    if (const Metric* input = find_metric(id)) {
      weakest = std::max(weakest, provenance_of(*input, figures));
    }
  }
  return weakest;
}

std::optional<Count> bytes_moved(const Figures& figures) noexcept {
  if (!figures.bytes || !figures.bytes_materialized) {
    return std::nullopt;
  }
  return *figures.bytes + *figures.bytes_materialized;
}

std::optional<double> gb_per_s(const Figures& figures) noexcept {
  return per_nanosecond(bytes_moved(figures), figures);  // bytes a nanosecond are 10⁹ bytes a second
}

std::optional<double> useful_gb_per_s(const Figures& figures) noexcept {
  return per_nanosecond(figures.bytes, figures);
}

std::optional<double> tflop_per_s(const Figures& figures) noexcept {
  if (!figures.time_is_attention) {
    return std::nullopt;
  }
  const auto gflop_per_s = per_nanosecond(figures.flops, figures);
  return gflop_per_s ? std::optional(*gflop_per_s / 1e3) : std::nullopt;
}

std::optional<double> flops_per_byte(const Figures& figures) noexcept {
  const auto moved = bytes_moved(figures);
  if (!figures.flops || !moved || *moved == 0) {
    return std::nullopt;
  }
  return static_cast<double>(*figures.flops) / static_cast<double>(*moved);
}

}  // namespace headscope
