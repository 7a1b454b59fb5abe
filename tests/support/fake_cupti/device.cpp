#include "support/fake_cupti/device.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace headscope::fake_cupti {
namespace {

thread_local std::map<std::uint32_t, std::vector<std::uint64_t>> t_stacks;

std::int64_t realtime_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

FakeDevice& device() {
  static auto* const device = new FakeDevice;
  return *device;
}

std::vector<std::uint64_t>& stack_of(std::uint32_t kind) { return t_stacks[kind]; }

void FakeDevice::reset() {
  const std::lock_guard lock(mutex_);
  version_ = 22;
  kinds_.clear();
  failures_.clear();
  fails_ = false;
  requested_ = nullptr;
  completed_ = nullptr;
  callback_ = nullptr;
  callback_ids_.clear();
  subscribed_ = false;
  held_by_other_ = false;
  holder_.clear();
  buffer_limit_ = 0;
  reorder_ = on_thread_ = hold_ = per_thread_ = false;
  delay_us_ = 0;
  dropped_ = 0;
  clock_numerator_ = clock_denominator_ = clock_offset_ = 0;
  thread_id_type_ = 0;
  correlation_ = 0;
  counts_ = {};
  calls_ = 0;
  running_.clear();
  filling_.clear();
  waiting_.clear();
  late_.clear();
  t_stacks.clear();
}

int FakeDevice::failure_of(const char* function, std::uint32_t kind) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (!fails_.load(std::memory_order_acquire)) {
    return abi::kSuccess;
  }
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(function);
  if (found == failures_.end() || (found->second.second != 0 && found->second.second != kind)) {
    return abi::kSuccess;
  }
  return found->second.first;
}

std::uint64_t FakeDevice::now() const {
  const std::int64_t time = realtime_ns();
  if (clock_denominator_ == 0) {
    return static_cast<std::uint64_t>(time);
  }
  const double since = static_cast<double>(time - clock_begin_);
  return clock_offset_ + static_cast<std::uint64_t>(since * static_cast<double>(clock_numerator_) /
                                                    static_cast<double>(clock_denominator_));
}

void FakeDevice::give_back(const Filling& buffer) {
  if (delay_us_ != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us_));
  }
  ++counts_.buffers_returned;
  const auto call = [&] { buffer.completed(nullptr, 0, buffer.data, buffer.size, buffer.used); };
  if (on_thread_) {
    std::thread(call).join();
  } else {
    call();
  }
}

void FakeDevice::finish(Filling& buffer) {
  if (buffer.data != nullptr) {
    // Whoever registered last gets it, wherever it came from.
    buffer.completed = completed_;
    if (hold_) {
      late_.push_back(buffer);
    } else if (reorder_) {
      waiting_.push_back(buffer);
    } else {
      give_back(buffer);
    }
  }
  buffer = {};
}

void FakeDevice::write(const Bytes& record) {
  const std::lock_guard lock(mutex_);
  Filling& buffer = filling_[per_thread_ ? std::this_thread::get_id() : std::thread::id()];
  if (buffer.data != nullptr && buffer.used + record.size() > buffer.size) {
    finish(buffer);
  }
  if (buffer.data == nullptr) {
    if (requested_ == nullptr) {
      return;
    }
    std::size_t max_records = 0;
    ++counts_.buffers_requested;
    requested_(&buffer.data, &buffer.size, &max_records);
    buffer.used = 0;
    if (buffer.data == nullptr) {
      ++counts_.refused;
      counts_.unsafe_nulls += version_ < abi::kMayRefuseBuffer ? 1 : 0;
      ++counts_.lost;
      ++dropped_;
      return;
    }
    if (buffer_limit_ != 0) {
      buffer.size = std::min(buffer.size, buffer_limit_);
    }
  }
  std::memcpy(buffer.data + buffer.used, record.data(), record.size());
  buffer.used += record.size();
}

void FakeDevice::flush(bool forced) {
  const std::lock_guard lock(mutex_);
  if (forced) {
    for (const auto& [unfinished, whole] : running_) {
      write(unfinished);
    }
    running_.clear();
  }
  for (auto& [thread, buffer] : filling_) {
    finish(buffer);
  }
  std::vector<Filling> waiting;
  waiting.swap(waiting_);
  for (auto buffer = waiting.rbegin(); buffer != waiting.rend(); ++buffer) {
    give_back(*buffer);
  }
}

void FakeDevice::deliver_late() {
  const std::lock_guard lock(mutex_);
  std::vector<Filling> late;
  late.swap(late_);
  for (const Filling& buffer : late) {
    give_back(buffer);
  }
}

void FakeDevice::write_call(std::uint32_t kind, std::uint32_t function, std::uint32_t correlation, std::uint64_t start,
                            std::uint64_t end) {
  if (!on(kind)) {
    return;
  }
  if (on(abi::kExternalCorrelation)) {
    for (const auto& [external_kind, stack] : t_stacks) {
      if (!stack.empty()) {
        write(external_record(external_kind, stack.back(), correlation));
      }
    }
  }
  abi::ApiRecord record;
  record.kind = kind;
  record.function = function;
  record.start = start;
  record.end = end;
  record.process = static_cast<std::uint32_t>(getpid());
  // The default of CUPTI is pthread_self, cut off; any number that is not the system's will do.
  record.thread = thread_id_type_ == abi::kSystemThreadIds ? static_cast<std::uint32_t>(gettid()) : 0xFFFFFFF0U;
  record.correlation = correlation;
  write(api_record(record));
}

}  // namespace headscope::fake_cupti
