#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "records/trace_recording.h"
#include "timeline/trace/event_parser.h"

namespace headscope::timeline::trace {

/// Tells by an op's name whether its inputs are to be kept; empty: those of all ops are.
using KeepInputs = std::function<bool(std::string_view op)>;

/// Turns events, in any order, into a recording.
class Recorder {
 public:
  explicit Recorder(KeepInputs keep_inputs) : keep_inputs_(std::move(keep_inputs)) {}

  void add(EventKind kind, const EventFields& fields);
  void skip(records::SkipReason reason) noexcept;
  void add_device(std::int64_t id, std::string_view name);
  void set_rank(std::int64_t rank, std::int64_t world_size) noexcept;
  void set_base_time(std::int64_t nanoseconds) noexcept { recording_.base_time_ns = nanoseconds; }

  [[nodiscard]] std::uint64_t events() const noexcept { return recording_.events; }
  /// Puts everything in order. Ends the recorder's use.
  records::TraceRecording finish();

 private:
  void add_op(const EventFields& fields);
  void add_module(const EventFields& fields);
  void add_step(const EventFields& fields);
  void add_launch(const EventFields& fields);
  void add_span(records::DeviceSpan::Kind kind, const EventFields& fields);
  void add_inputs(records::HostOp& op, const EventFields& fields);
  /// Whether `inputs` of the op called `name` are kept; asks once a name.
  bool keeps_inputs(std::uint32_t name);
  std::uint32_t thread_of(const EventFields& fields);
  void order_ops();
  void tell_devices();
  void find_bounds() noexcept;

  KeepInputs keep_inputs_;
  records::TraceRecording recording_;
  records::TracePlatform platform_of_calls_ = records::TracePlatform::kUnknown;
  std::vector<std::uint8_t> kept_names_;  // by name: 0 not asked, 1 no, 2 yes
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> thread_ids_;
  std::uint32_t last_thread_ = 0;
};

}  // namespace headscope::timeline::trace
