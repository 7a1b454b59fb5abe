#include "capture/torch/device_events.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/op_ids.h"
#include "capture/torch/thread_state.h"

namespace headscope::capture::torch {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::CUDA;
constexpr std::string_view kSpanName = "between CUDA events";
constinit thread_local std::uint64_t t_innermost = 0;

using Guard = c10::impl::DeviceGuardImplInterface;

/// An event that is captured into a graph can never be read. torch before 2.13 does not tell.
template <class G>
bool is_captured(const G& guard, const c10::Stream& stream) {
  if constexpr (requires { guard.isStreamCapturing(stream); }) {
    return guard.isStreamCapturing(stream);
  } else {
    return false;
  }
}

}  // namespace

bool DeviceEvents::available() noexcept {
  return c10::impl::hasDeviceGuardImpl(kType) && c10::impl::getDeviceGuardImpl(kType)->deviceCount() > 0;
}

void DeviceEvents::begin() noexcept {
  const std::lock_guard lock(mutex_);
  on_ = true;
}

void DeviceEvents::end() noexcept {
  const std::lock_guard lock(mutex_);
  on_ = false;
  for (Op& op : ops_) {
    recycle(op);
  }
  ops_.clear();
  for (auto& [device, events] : free_) {
    for (void* event : events) {
      c10::impl::getDeviceGuardImpl(kType)->destroyEvent(event, static_cast<c10::DeviceIndex>(device));
    }
  }
  free_.clear();
}

DeviceEvents::Op* DeviceEvents::find(std::uint64_t id) noexcept {
  const auto op = std::ranges::lower_bound(ops_, id, {}, &Op::id);
  return op != ops_.end() && op->id == id ? &*op : nullptr;
}

void DeviceEvents::record(Op& op, void*& event) noexcept {
  try {
    const Guard* guard = c10::impl::getDeviceGuardImpl(kType);
    const c10::Stream stream(c10::Stream::UNSAFE, c10::Device(kType, op.device.index), op.stream);
    if (is_captured(*guard, stream)) {
      return;
    }
    std::vector<void*>& free = free_[op.device.index];
    void* one = free.empty() ? nullptr : free.back();  // none: record() makes one
    if (!free.empty()) {
      free.pop_back();
    }
    guard->record(&one, stream, static_cast<c10::DeviceIndex>(op.device.index), c10::EventFlag::BACKEND_DEFAULT);
    event = one;
  } catch (const std::exception&) {
    event = nullptr;  // an error of the device, which the program meets at its own next call
  }
}

void DeviceEvents::recycle(Op& op) noexcept {
  try {
    for (void* event : {std::exchange(op.begin, nullptr), std::exchange(op.end, nullptr)}) {
      if (event != nullptr) {
        free_[op.device.index].push_back(event);
      }
    }
  } catch (...) {
    return;  // out of memory: the event is lost
  }
}

std::uint64_t DeviceEvents::open_op(const records::Device& device) noexcept {
  const std::lock_guard lock(mutex_);
  if (!on_ || ops_.size() >= kMostOps) {
    return 0;
  }
  try {
    if (Op* parent = find(t_innermost)) {
      parent->holds_ops = true;
    }
    Op& op = ops_.emplace_back();
    op.id = base::next_op_id();
    op.parent = std::exchange(t_innermost, op.id);
    op.thread = system_thread(thread_state());
    op.device = device;
    op.start_ns = base::monotonic_ns();
    if (device.type == records::DeviceType::kCuda && device.index >= 0) {
      op.stream = c10::impl::getDeviceGuardImpl(kType)->getStream(c10::Device(kType, device.index)).id();
      record(op, op.begin);
    }
    return op.id;
  } catch (...) {
    return 0;  // out of memory
  }
}

void DeviceEvents::close_op(std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  Op* op = find(id);
  if (op == nullptr) {
    return;
  }
  t_innermost = op->parent;
  op->end_ns = base::monotonic_ns();
  if (op->begin != nullptr) {
    record(*op, op->end);
  }
}

records::DeviceActivity DeviceEvents::take() {
  records::DeviceActivity activity;
  const std::lock_guard lock(mutex_);
  std::erase_if(ops_, [&](Op& op) {
    if (op.end_ns == 0) {
      return false;
    }
    if (op.holds_ops || op.end == nullptr) {
      recycle(op);
      return true;
    }
    double elapsed_ms = -1;
    try {
      const Guard* guard = c10::impl::getDeviceGuardImpl(kType);
      if (!guard->queryEvent(op.end)) {
        return false;
      }
      elapsed_ms = guard->elapsedTime(op.begin, op.end, static_cast<c10::DeviceIndex>(op.device.index));
    } catch (const std::exception&) {
      elapsed_ms = -1;
    }
    recycle(op);
    if (elapsed_ms < 0) {
      ++activity.dropped;
      return true;
    }
    const auto correlation = static_cast<std::uint32_t>(op.id);
    activity.launches.push_back(
        {.correlation = correlation, .thread = op.thread, .start_ns = op.start_ns, .end_ns = op.end_ns, .op = op.id});
    records::DeviceSpan& span = activity.spans.emplace_back();
    span.device = op.device;
    span.correlation = correlation;
    span.start_ns = op.start_ns;
    span.end_ns = op.start_ns + std::llround(elapsed_ms * 1e6);
    span.name = kSpanName;
    return true;
  });
  return activity;
}

}  // namespace headscope::capture::torch
