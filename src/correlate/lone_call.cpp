#include "correlate/lone_call.h"

#include <map>
#include <mutex>
#include <string>

namespace headscope::correlate {
namespace {

/// As many as the table of kernel names has entries; for the life of the process, as rows refer to them.
const records::OpInfo& op_of(const KernelName& name) {
  static std::mutex mutex;
  static auto* ops = new std::map<std::string_view, records::OpInfo>;
  const std::lock_guard lock(mutex);
  return ops
      ->try_emplace(name.known_as, records::OpInfo{.name = "kernel " + std::string(name.known_as),
                                                   .variant = std::string(name.family)})
      .first->second;
}

}  // namespace

records::AttentionCall call_of(const LoneKernel& lone) {
  const records::DeviceSpan& span = *lone.span;
  records::AttentionCall call;
  call.op = &op_of(lone.name);
  call.direction = lone.name.direction;
  call.device = span.device;
  call.lengths_unknown = true;
  call.mask = records::MaskState::kUnseen;
  call.layer.order = records::LayerRef::kUnknownOrder;
  call.start_ns = span.start_ns;
  call.end_ns = span.end_ns;
  call.time_source = TimeSource::kDevice;
  call.time_ns = span.timed() ? span.end_ns - span.start_ns : -1;
  call.lone_kernel = true;
  auto work = std::make_shared<records::DeviceWork>();
  work->kernels.push_back({span.name, records::KernelPart::kAttention, call.time_ns, span.stream, span.grid});
  call.device_work = std::move(work);
  return call;
}

}  // namespace headscope::correlate
