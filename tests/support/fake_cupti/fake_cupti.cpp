// The C functions of the fake libcupti, and those by which a test controls it.

#include <cstring>
#include <string>

#include "support/fake_cupti/device.h"

#define HEADSCOPE_FAKE extern "C" __attribute__((visibility("default")))

using headscope::fake_cupti::Bytes;
using headscope::fake_cupti::device;
using headscope::fake_cupti::FakeDevice;
using headscope::fake_cupti::stack_of;
namespace fake = headscope::fake_cupti;
namespace abi = headscope::timeline::cupti::abi;

namespace {

constexpr int kQueueEmpty = 18;
constexpr int kInvalidParameter = 1;
constexpr std::uint32_t kRuntimeLaunchKernel = 211;
constexpr std::uint32_t kDriverLaunchKernel = 307;
constexpr std::uint32_t kRuntimeMalloc = 20;
constexpr std::uint32_t kRuntimeMemcpyAsync = 41;

// NOLINTNEXTLINE(performance-no-int-to-ptr): a handle stands for its number
void* handle_of(std::uint64_t node) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(node)); }

/// A resource callback, if the subscriber asked for it. Not under the lock: it may ask CUPTI for ids.
void tell(std::uint32_t id, const abi::GraphData& graph) {
  abi::Callback callback = nullptr;
  void* user_data = nullptr;
  {
    FakeDevice& fake = device();
    const std::lock_guard lock(fake.mutex_);
    if (fake.subscribed_ && fake.callback_ids_.contains(id)) {
      callback = fake.callback_;
      user_data = fake.user_data_;
    }
  }
  if (callback != nullptr) {
    abi::ResourceData data;
    data.descriptor = &graph;
    callback(user_data, abi::kResourceDomain, id, &data);
  }
}

int subscribe(void** subscriber, abi::Callback callback, void* user_data) {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  if (fake.held_by_other_ || fake.subscribed_) {
    return abi::kMultipleSubscribers;
  }
  fake.subscribed_ = true;
  ++fake.counts_.subscriptions;
  fake.callback_ = callback;
  fake.user_data_ = user_data;
  *subscriber = &fake;
  return abi::kSuccess;
}

}  // namespace

// --- CUPTI -----------------------------------------------------------------------------------------------------------

HEADSCOPE_FAKE int cuptiGetVersion(std::uint32_t* version) {
  const int failure = device().failure_of("cuptiGetVersion");
  *version = device().version_;
  return failure;
}

HEADSCOPE_FAKE int cuptiGetTimestamp(std::uint64_t* ticks) {
  FakeDevice& fake = device();
  const int failure = fake.failure_of("cuptiGetTimestamp");
  const std::lock_guard lock(fake.mutex_);
  *ticks = fake.now();
  return failure;
}

HEADSCOPE_FAKE int cuptiGetResultString(int result, const char** text) {
  *text = result == abi::kMultipleSubscribers ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_FAKE";
  return device().failure_of("cuptiGetResultString");
}

HEADSCOPE_FAKE int cuptiSetThreadIdType(std::uint32_t type) {
  const int failure = device().failure_of("cuptiSetThreadIdType");
  if (failure == abi::kSuccess) {
    device().thread_id_type_ = type;
  }
  return failure;
}

HEADSCOPE_FAKE int cuptiSubscribe(void** subscriber, abi::Callback callback, void* user_data) {
  if (const int failure = device().failure_of("cuptiSubscribe"); failure != abi::kSuccess) {
    return failure;
  }
  return subscribe(subscriber, callback, user_data);
}

HEADSCOPE_FAKE int cuptiSubscribe_v2(void** subscriber, abi::Callback callback, void* user_data,
                                     abi::SubscriberParams* params) {
  if (const int failure = device().failure_of("cuptiSubscribe_v2"); failure != abi::kSuccess) {
    return failure;
  }
  const int result = subscribe(subscriber, callback, user_data);
  if (result != abi::kSuccess && params != nullptr && params->holder != nullptr) {
    const std::string& holder = device().holder_;
    const std::size_t count = std::min(holder.size(), params->holder_size - 1);
    std::memcpy(params->holder, holder.data(), count);
    params->holder[count] = '\0';
  }
  return result;
}

HEADSCOPE_FAKE int cuptiUnsubscribe(void*) {
  FakeDevice& fake = device();
  const int failure = fake.failure_of("cuptiUnsubscribe");
  const std::lock_guard lock(fake.mutex_);
  fake.subscribed_ = false;
  fake.callback_ids_.clear();
  return failure;
}

HEADSCOPE_FAKE int cuptiEnableCallback(std::uint32_t on, void*, std::uint32_t domain, std::uint32_t id) {
  FakeDevice& fake = device();
  if (const int failure = fake.failure_of("cuptiEnableCallback"); failure != abi::kSuccess) {
    return failure;
  }
  const std::lock_guard lock(fake.mutex_);
  if (domain != abi::kResourceDomain) {
    return kInvalidParameter;
  }
  if (on != 0) {
    fake.callback_ids_.insert(id);
  } else {
    fake.callback_ids_.erase(id);
  }
  return abi::kSuccess;
}

HEADSCOPE_FAKE int cuptiGetGraphNodeId(void* node, std::uint64_t* id) {
  *id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(node));
  return device().failure_of("cuptiGetGraphNodeId");
}

HEADSCOPE_FAKE int cuptiActivityRegisterCallbacks(abi::BufferRequested requested, abi::BufferCompleted completed) {
  FakeDevice& fake = device();
  if (const int failure = fake.failure_of("cuptiActivityRegisterCallbacks"); failure != abi::kSuccess) {
    return failure;
  }
  const std::lock_guard lock(fake.mutex_);
  fake.requested_ = requested;
  fake.completed_ = completed;
  return abi::kSuccess;
}

HEADSCOPE_FAKE int cuptiActivityEnable(std::uint32_t kind) {
  FakeDevice& fake = device();
  if (const int failure = fake.failure_of("cuptiActivityEnable", kind); failure != abi::kSuccess) {
    return failure;
  }
  const std::lock_guard lock(fake.mutex_);
  fake.kinds_.insert(kind);
  return abi::kSuccess;
}

HEADSCOPE_FAKE int cuptiActivityDisable(std::uint32_t kind) {
  FakeDevice& fake = device();
  if (const int failure = fake.failure_of("cuptiActivityDisable", kind); failure != abi::kSuccess) {
    return failure;
  }
  const std::lock_guard lock(fake.mutex_);
  fake.kinds_.erase(kind);
  return abi::kSuccess;
}

HEADSCOPE_FAKE int cuptiActivityPushExternalCorrelationId(std::uint32_t kind, std::uint64_t id) {
  if (const int failure = device().failure_of("cuptiActivityPushExternalCorrelationId"); failure != abi::kSuccess) {
    return failure;
  }
  stack_of(kind).push_back(id);
  return abi::kSuccess;
}

HEADSCOPE_FAKE int cuptiActivityPopExternalCorrelationId(std::uint32_t kind, std::uint64_t* last) {
  if (const int failure = device().failure_of("cuptiActivityPopExternalCorrelationId"); failure != abi::kSuccess) {
    return failure;
  }
  std::vector<std::uint64_t>& stack = stack_of(kind);
  if (stack.empty()) {
    return kQueueEmpty;
  }
  *last = stack.back();
  stack.pop_back();
  return abi::kSuccess;
}

HEADSCOPE_FAKE int cuptiActivityFlushAll(std::uint32_t flag) {
  if (const int failure = device().failure_of("cuptiActivityFlushAll"); failure != abi::kSuccess) {
    return failure;
  }
  device().flush(flag == abi::kFlushForced);
  return abi::kSuccess;
}

HEADSCOPE_FAKE int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_size, void** record) {
  if (const int failure = device().failure_of("cuptiActivityGetNextRecord"); failure != abi::kSuccess) {
    return failure;
  }
  const FakeLayout& layout = device().layout();
  std::uint8_t* at = buffer;
  if (*record != nullptr) {
    at = static_cast<std::uint8_t*>(*record);
    std::uint32_t kind = 0;
    std::memcpy(&kind, at, sizeof kind);
    at += fake::length_of(kind, layout);
  }
  if (at >= buffer + valid_size) {
    return abi::kMaxLimitReached;
  }
  std::uint32_t kind = 0;
  std::memcpy(&kind, at, sizeof kind);
  if (fake::length_of(kind, layout) == 0) {
    return abi::kInvalidKind;
  }
  *record = at;
  return abi::kSuccess;
}

HEADSCOPE_FAKE int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* dropped) {
  FakeDevice& fake = device();
  const int failure = fake.failure_of("cuptiActivityGetNumDroppedRecords");
  const std::lock_guard lock(fake.mutex_);
  *dropped = fake.dropped_;
  fake.dropped_ = 0;
  return failure;
}

// --- control ---------------------------------------------------------------------------------------------------------

HEADSCOPE_FAKE void fake_cupti_reset() { device().reset(); }

HEADSCOPE_FAKE void fake_cupti_set_version(std::uint32_t version) { device().version_ = version; }

HEADSCOPE_FAKE const FakeLayout* fake_cupti_layouts(std::size_t* count) {
  *count = fake::kLayouts.size();
  return fake::kLayouts.data();
}

HEADSCOPE_FAKE std::uint32_t fake_cupti_launch(const FakeLaunch* given) {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  FakeLaunch launch = *given;
  const std::uint32_t correlation = launch.correlation != 0 ? launch.correlation : fake.next_correlation();
  const std::uint64_t now = fake.now();
  if (launch.end == 0) {
    launch.start = now;
    launch.end = now + 1000;
  }
  const std::uint64_t call_start = launch.call_start != 0 ? launch.call_start : now;
  const std::uint64_t call_end = launch.call_end != 0 ? launch.call_end : call_start + 100;
  const auto write_kernel = [&] {
    if (!fake.on(abi::kConcurrentKernel)) {
      return;
    }
    if (launch.running) {
      FakeLaunch ended = launch;
      ended.running = false;
      fake.running_.emplace_back(fake::kernel_record(fake.layout(), launch, correlation, 0, 0),
                                 fake::kernel_record(fake.layout(), ended, correlation, 0, 0));
    } else {
      fake.write(fake::kernel_record(fake.layout(), launch, correlation, 0, 0));
    }
  };
  if (launch.kernel_first) {
    write_kernel();
  }
  if (launch.by_driver) {
    fake.write_call(abi::kDriver, kDriverLaunchKernel, correlation, call_start, call_end);
  } else {
    fake.write_call(abi::kRuntime, kRuntimeLaunchKernel, correlation, call_start, call_end);
  }
  if (!launch.kernel_first) {
    write_kernel();
  }
  return correlation;
}

HEADSCOPE_FAKE void fake_cupti_finish_running() {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  for (const auto& [unfinished, whole] : fake.running_) {
    fake.write(whole);
  }
  fake.running_.clear();
}

HEADSCOPE_FAKE std::uint32_t fake_cupti_transfer(std::uint32_t kind, std::uint32_t what, std::uint64_t bytes) {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  const std::uint32_t correlation = fake.next_correlation();
  const std::uint64_t now = fake.now();
  fake.write_call(abi::kRuntime, kRuntimeMemcpyAsync, correlation, now, now + 100);
  if (fake.on(kind)) {
    abi::TransferRecord record;
    record.kind = kind;
    record.what = what;
    record.bytes = bytes;
    record.start = now;
    record.end = now + 500;
    record.context = 1;
    record.stream = 7;
    record.correlation = correlation;
    fake.write(fake::transfer_record(fake.layout(), record));
  }
  return correlation;
}

HEADSCOPE_FAKE std::uint32_t fake_cupti_call() {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  const std::uint32_t correlation = fake.next_correlation();
  const std::uint64_t now = fake.now();
  fake.write_call(abi::kRuntime, kRuntimeMalloc, correlation, now, now + 100);
  return correlation;
}

HEADSCOPE_FAKE void fake_cupti_capture_node(std::uint64_t node) {
  abi::GraphData graph;
  graph.node = handle_of(node);
  tell(abi::kGraphNodeCreated, graph);
}

HEADSCOPE_FAKE void fake_cupti_instantiate(const std::uint64_t* nodes, const std::uint64_t* copies, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    abi::GraphData graph;
    graph.node = handle_of(copies[i]);
    tell(abi::kGraphNodeCreated, graph);  // as CUPTI does
    graph.original_node = handle_of(nodes[i]);
    tell(abi::kGraphNodeCloned, graph);
  }
}

HEADSCOPE_FAKE std::uint32_t fake_cupti_replay(std::uint32_t graph, const std::uint64_t* nodes, std::size_t count) {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  const std::uint32_t correlation = fake.next_correlation();
  FakeLaunch launch;
  launch.start = fake.now();
  launch.end = launch.start + 1000;
  fake.write_call(abi::kRuntime, abi::kRuntimeGraphLaunch[0], correlation, launch.start, launch.start + 100);
  for (std::size_t i = 0; i < count; ++i) {
    if (fake.on(abi::kConcurrentKernel)) {
      fake.write(fake::kernel_record(fake.layout(), launch, correlation, graph, nodes[i]));
    }
  }
  return correlation;
}

HEADSCOPE_FAKE void fake_cupti_write(const void* bytes, std::size_t count) {
  const auto* begin = static_cast<const std::uint8_t*>(bytes);
  device().write(Bytes(begin, begin + count));
}

HEADSCOPE_FAKE void fake_cupti_push(std::uint32_t kind, std::uint64_t id) { stack_of(kind).push_back(id); }

HEADSCOPE_FAKE std::size_t fake_cupti_stack_depth(std::uint32_t kind) { return stack_of(kind).size(); }

HEADSCOPE_FAKE void fake_cupti_limit_buffers(std::size_t bytes) { device().buffer_limit_ = bytes; }
HEADSCOPE_FAKE void fake_cupti_reorder(bool on) { device().reorder_ = on; }
HEADSCOPE_FAKE void fake_cupti_deliver_on_thread(bool on) { device().on_thread_ = on; }
HEADSCOPE_FAKE void fake_cupti_hold(bool on) { device().hold_ = on; }
HEADSCOPE_FAKE void fake_cupti_deliver_late() { device().deliver_late(); }
HEADSCOPE_FAKE void fake_cupti_delay(std::uint32_t microseconds) { device().delay_us_ = microseconds; }
HEADSCOPE_FAKE void fake_cupti_buffer_per_thread(bool on) { device().per_thread_ = on; }
HEADSCOPE_FAKE void fake_cupti_drop(std::size_t records) { device().dropped_ += records; }

HEADSCOPE_FAKE void fake_cupti_return_foreign(std::uint8_t* buffer, std::size_t valid) {
  device().completed_(nullptr, 0, buffer, valid, valid);
}

HEADSCOPE_FAKE void fake_cupti_fail(const char* function, int code, std::uint32_t kind) {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  if (code == abi::kSuccess) {
    fake.failures_.erase(function);
  } else {
    fake.failures_[function] = {code, kind};
  }
  fake.fails_ = !fake.failures_.empty();
}

HEADSCOPE_FAKE void fake_cupti_hold_subscriber(const char* name) {
  device().held_by_other_ = name != nullptr;
  device().holder_ = name != nullptr ? name : "";
}

HEADSCOPE_FAKE void fake_cupti_steal() {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  fake.requested_ = [](std::uint8_t** buffer, std::size_t* size, std::size_t*) {
    alignas(8) static std::uint8_t own[65536];
    *buffer = own;
    *size = sizeof own;
  };
  fake.completed_ = [](void*, std::uint32_t, std::uint8_t*, std::size_t, std::size_t) {};
}

HEADSCOPE_FAKE void fake_cupti_set_clock(std::uint64_t numerator, std::uint64_t denominator, std::uint64_t offset) {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  fake.clock_denominator_ = 0;
  fake.clock_begin_ = static_cast<std::int64_t>(fake.now());
  fake.clock_numerator_ = numerator;
  fake.clock_denominator_ = denominator;
  fake.clock_offset_ = offset;
}

HEADSCOPE_FAKE std::uint64_t fake_cupti_now() { return device().now(); }

HEADSCOPE_FAKE FakeState fake_cupti_state() {
  FakeDevice& fake = device();
  const std::lock_guard lock(fake.mutex_);
  FakeState state = fake.counts_;
  state.calls = fake.calls_;
  state.enabled_kinds = fake.kinds_.size();
  state.subscribed = fake.subscribed_;
  state.thread_id_type = fake.thread_id_type_;
  return state;
}
