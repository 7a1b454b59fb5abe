#include "correlate/device_times.h"

#include <utility>

namespace headscope::correlate {

void set_device_times(records::AttentionCall& call, std::shared_ptr<const records::DeviceWork> work, bool has_glue) {
  call.time_source = TimeSource::kDevice;
  call.time_ns = work == nullptr ? -1 : work->attention_ns;
  call.glue_ns = work == nullptr || !has_glue ? -1 : work->glue_ns;
  call.other_ns = work == nullptr ? -1 : work->other_ns;
  call.device_work = std::move(work);
}

}  // namespace headscope::correlate
