#include "timeline/trace/recorder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>

#include "timeline/trace/raw_list.h"
#include "timeline/trace/token.h"

namespace headscope::timeline::trace {
namespace {

using records::SkipReason;

/// More arguments than any op has; a list of that length is no op's.
constexpr std::size_t kMaxInputs = 256;
constexpr std::size_t kMaxDims = 64;

template <class Number>
Number narrow(std::optional<std::int64_t> value, Number otherwise = 0) noexcept {
  return value && std::in_range<Number>(*value) ? static_cast<Number>(*value) : otherwise;
}

std::array<std::int32_t, 3> triple(std::string_view array) noexcept {
  std::array<std::int32_t, 3> result{};
  RawList list(array);
  std::string_view element;
  for (std::size_t i = 0; i < result.size() && list.next(element); ++i) {
    result[i] = narrow<std::int32_t>(integer_of(element));
  }
  return result;
}

/// By thread and time, what encloses before what is enclosed; where two took the same time, as whole microseconds of
/// older traces often say, the one that was opened first.
constexpr auto kBefore = [](const records::HostOp& a, const records::HostOp& b) {
  return std::tie(a.thread, a.start_ns, b.end_ns, a.external_id) <
         std::tie(b.thread, b.start_ns, a.end_ns, b.external_id);
};

}  // namespace

void Recorder::skip(SkipReason reason) noexcept {
  ++recording_.events;
  ++recording_.skipped[static_cast<std::size_t>(reason)];
}

void Recorder::add(EventKind kind, const EventFields& fields) {
  if (!fields.start_ns) {
    return skip(SkipReason::kNoTime);
  }
  if (fields.duration_ns.value_or(0) < 0) {
    return skip(SkipReason::kNegativeDuration);
  }
  const bool on_device = kind == EventKind::kKernel || kind == EventKind::kMemcpy || kind == EventKind::kMemset;
  if (!on_device && (!fields.process || !fields.thread)) {
    return skip(SkipReason::kNoThread);
  }
  ++recording_.events;
  switch (kind) {
    case EventKind::kHostOp:
      return add_op(fields);
    case EventKind::kModule:
      return add_module(fields);
    case EventKind::kStep:
      return add_step(fields);
    case EventKind::kLaunch:
      return add_launch(fields);
    case EventKind::kKernel:
      return add_span(records::DeviceSpan::Kind::kKernel, fields);
    case EventKind::kMemcpy:
      return add_span(records::DeviceSpan::Kind::kMemcpy, fields);
    case EventKind::kMemset:
      return add_span(records::DeviceSpan::Kind::kMemset, fields);
    case EventKind::kSkipped:
      break;
  }
}

void Recorder::add_op(const EventFields& fields) {
  records::HostOp op;
  op.start_ns = *fields.start_ns;
  op.end_ns = op.start_ns + fields.duration_ns.value_or(0);
  op.sequence = fields.sequence.value_or(-1);
  op.external_id = static_cast<std::uint64_t>(fields.external_id.value_or(0));
  op.name = recording_.names.intern(fields.name);
  op.thread = thread_of(fields);
  op.forward_thread = narrow<std::uint32_t>(fields.forward_thread);
  op.has_inputs = !fields.input_sizes.empty();
  if (op.has_inputs && keeps_inputs(op.name)) {
    add_inputs(op, fields);
  }
  recording_.ops.push_back(op);
}

void Recorder::add_inputs(records::HostOp& op, const EventFields& fields) {
  std::vector<records::TraceInput>& inputs = recording_.inputs;
  std::vector<std::int64_t>& integers = recording_.integers;
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max() - kMaxInputs * kMaxDims;
  if (inputs.size() > kMost || integers.size() > kMost) {
    return;
  }
  op.first_input = static_cast<std::uint32_t>(inputs.size());
  RawList sizes(fields.input_sizes);
  RawList strides(fields.input_strides);
  RawList types(fields.input_types);
  RawList concrete(fields.concrete_inputs);
  std::string_view of_sizes;
  std::string_view element;
  while (op.input_count < kMaxInputs && sizes.next(of_sizes)) {
    records::TraceInput input;
    input.sizes = static_cast<std::uint32_t>(integers.size());
    RawList of_axes(of_sizes);
    std::string_view axis;
    bool is_list = false;
    while (input.dims < kMaxDims && of_axes.next(axis)) {
      const std::optional<std::int64_t> size = integer_of(axis);
      is_list = is_list || !size;
      integers.push_back(size.value_or(0));
      ++input.dims;
    }
    if (is_list) {  // a list of tensors
      integers.resize(input.sizes);
      input.dims = 0;
    }
    if (strides.next(element) && input.dims > 0) {
      RawList of_strides(element);
      std::size_t count = 0;
      while (count < input.dims && of_strides.next(axis)) {
        integers.push_back(integer_of(axis).value_or(0));
        ++count;
      }
      input.has_strides = count == input.dims;
      if (!input.has_strides) {
        integers.resize(input.sizes + input.dims);
      }
    }
    if (types.next(element)) {
      input.type = recording_.names.intern(unquoted(element));
    }
    if (concrete.next(element)) {
      input.concrete = recording_.names.intern(unquoted(element));
    }
    inputs.push_back(input);
    ++op.input_count;
  }
}

void Recorder::add_module(const EventFields& fields) {
  records::ModuleSpan span;
  span.start_ns = *fields.start_ns;
  span.end_ns = span.start_ns + fields.duration_ns.value_or(0);
  span.id = fields.python_id.value_or(-1);
  span.parent_id = fields.python_parent_id.value_or(-1);
  span.module_id = fields.python_module_id.value_or(-1);
  span.name = recording_.names.intern(module_name(fields.name));
  span.thread = thread_of(fields);
  recording_.modules.push_back(span);
}

void Recorder::add_step(const EventFields& fields) {
  records::StepSpan span;
  span.start_ns = *fields.start_ns;
  span.end_ns = span.start_ns + fields.duration_ns.value_or(0);
  span.number = integer_of(fields.name.substr(fields.name.find('#') + 1)).value_or(-1);
  span.thread = thread_of(fields);
  recording_.steps.push_back(span);
}

void Recorder::add_launch(const EventFields& fields) {
  records::Launch launch;
  launch.correlation = narrow<std::uint32_t>(fields.correlation);
  launch.thread = thread_of(fields);
  launch.start_ns = *fields.start_ns;
  launch.end_ns = launch.start_ns + fields.duration_ns.value_or(0);
  launch.of_graph = is_graph_launch(fields.name);
  recording_.device_activity.launches.push_back(launch);
  if (platform_of_calls_ == records::TracePlatform::kUnknown) {
    platform_of_calls_ = platform_of_call(fields.name);
  }
}

void Recorder::add_span(records::DeviceSpan::Kind kind, const EventFields& fields) {
  records::DeviceSpan span;
  span.kind = kind;
  span.device.index = narrow<std::int8_t>(fields.device ? fields.device : fields.process, -1);
  span.context = narrow<std::uint32_t>(fields.context);
  span.stream = narrow<std::uint32_t>(fields.stream ? fields.stream : fields.thread);
  span.correlation = narrow<std::uint32_t>(fields.correlation);
  span.graph = narrow<std::uint32_t>(fields.graph);
  span.graph_node = narrow<std::uint64_t>(fields.graph_node);
  span.start_ns = *fields.start_ns;
  span.end_ns = span.start_ns + fields.duration_ns.value_or(0);
  span.grid = triple(fields.grid);
  span.block = triple(fields.block);
  span.bytes = fields.bytes.value_or(0);
  span.name = recording_.names[recording_.names.intern(fields.name)];
  recording_.device_activity.untimed += span.timed() ? 0 : 1;
  recording_.device_activity.spans.push_back(span);
}

bool Recorder::keeps_inputs(std::uint32_t name) {
  if (!keep_inputs_) {
    return true;
  }
  if (name >= kept_names_.size()) {
    kept_names_.resize(recording_.names.size());
  }
  if (kept_names_[name] == 0) {
    kept_names_[name] = keep_inputs_(recording_.names[name]) ? 2 : 1;
  }
  return kept_names_[name] == 2;
}

std::uint32_t Recorder::thread_of(const EventFields& fields) {
  std::vector<records::TraceThread>& threads = recording_.threads;
  if (last_thread_ < threads.size() && threads[last_thread_].process == *fields.process &&
      threads[last_thread_].id == *fields.thread) {
    return last_thread_;
  }
  const auto [found, added] =
      thread_ids_.try_emplace({*fields.process, *fields.thread}, static_cast<std::uint32_t>(threads.size()));
  if (added) {
    threads.push_back({*fields.process, *fields.thread});
  }
  last_thread_ = found->second;
  return last_thread_;
}

void Recorder::add_device(std::int64_t id, std::string_view name) {
  recording_.devices.push_back({id, std::string(name)});
}

void Recorder::set_rank(std::int64_t rank, std::int64_t world_size) noexcept {
  recording_.rank = rank;
  recording_.world_size = world_size;
}

records::TraceRecording Recorder::finish() {
  order_ops();
  tell_devices();
  find_bounds();
  return std::move(recording_);
}

void Recorder::order_ops() {
  std::vector<records::HostOp>& ops = recording_.ops;
  std::stable_sort(ops.begin(), ops.end(), kBefore);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    records::TraceThread& thread = recording_.threads[ops[i].thread];
    thread.first_op = thread.op_count == 0 ? i : thread.first_op;
    ++thread.op_count;
  }
  std::stable_sort(recording_.modules.begin(), recording_.modules.end(),
                   [](const records::ModuleSpan& a, const records::ModuleSpan& b) {
                     return std::tie(a.thread, a.start_ns, b.end_ns, a.id) <
                            std::tie(b.thread, b.start_ns, a.end_ns, b.id);
                   });
  std::stable_sort(recording_.steps.begin(), recording_.steps.end(),
                   [](const records::StepSpan& a, const records::StepSpan& b) { return a.start_ns < b.start_ns; });
}

void Recorder::tell_devices() {
  using records::TracePlatform;
  TracePlatform platform = TracePlatform::kUnknown;
  for (const records::TraceDevice& device : recording_.devices) {
    if (platform == TracePlatform::kUnknown) {
      platform = platform_of_device(device.name);
    }
  }
  recording_.platform = platform != TracePlatform::kUnknown ? platform : platform_of_calls_;
  const records::DeviceType type = recording_.platform == TracePlatform::kXpu       ? records::DeviceType::kXpu
                                   : recording_.platform == TracePlatform::kUnknown ? records::DeviceType::kOther
                                                                                    : records::DeviceType::kCuda;
  for (records::DeviceSpan& span : recording_.device_activity.spans) {
    span.device.type = type;
  }
}

void Recorder::find_bounds() noexcept {
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  const auto widen = [&start, &end](const auto& spans) {
    for (const auto& span : spans) {
      start = std::min(start, span.start_ns);
      end = std::max(end, span.end_ns);
    }
  };
  widen(recording_.ops);
  widen(recording_.modules);
  widen(recording_.steps);
  widen(recording_.device_activity.spans);
  widen(recording_.device_activity.launches);
  if (start <= end) {
    recording_.start_ns = start;
    recording_.end_ns = end;
  }
}

}  // namespace headscope::timeline::trace
