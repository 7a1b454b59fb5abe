#include "capture/torch/scope_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>

#include "capture/torch/memory_reporter.h"
#include "capture/torch/tensor_reader.h"

namespace headscope::capture::torch {
namespace {

using Info = c10::ThreadLocalDebugInfo;

constinit thread_local AllocationListener* t_listener = nullptr;

}  // namespace

/// Levels and peaks of one profiler; threads report to it at once.
class ScopeMeter {
 public:
  void report(std::int64_t bytes, c10::Device device) noexcept {
    Level& level = levels_[place_of(device)];
    level.type.store(device_of(device).type, std::memory_order_relaxed);
    const std::int64_t bytes_in_use = level.bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t peak = level.peak.load(std::memory_order_relaxed);
    while (bytes_in_use > peak && !level.peak.compare_exchange_weak(peak, bytes_in_use, std::memory_order_relaxed)) {
    }
  }
  void begin_stretch() noexcept {
    for (Level& level : levels_) {
      level.bytes.store(0, std::memory_order_relaxed);
    }
  }
  void reset() noexcept {
    for (Level& level : levels_) {
      level.bytes.store(0, std::memory_order_relaxed);
      level.peak.store(0, std::memory_order_relaxed);
    }
    displaced_.store(false, std::memory_order_relaxed);
  }
  void displace() noexcept { displaced_.store(true, std::memory_order_relaxed); }

  [[nodiscard]] ScopeMemory::Reading reading() const {
    ScopeMemory::Reading reading;
    for (std::size_t place = 0; place < levels_.size(); ++place) {
      const std::int64_t peak = levels_[place].peak.load(std::memory_order_relaxed);
      if (place == 0 || peak > 0) {
        const auto index = place == 0 ? std::int8_t{-1} : static_cast<std::int8_t>(place - 1);
        reading.devices.push_back({{levels_[place].type.load(std::memory_order_relaxed), index}, peak});
      }
    }
    if (displaced_.load(std::memory_order_relaxed)) {
      reading.incomplete = "a profiler of torch holds the slot for memory reports, or held it during the scope";
    }
    return reading;
  }

 private:
  struct Level {
    std::atomic<std::int64_t> bytes{0};
    std::atomic<std::int64_t> peak{0};
    std::atomic<records::DeviceType> type{records::DeviceType::kCpu};
  };
  static constexpr std::size_t kGpus = 64;

  // The CPU, then devices of the other types by their index: a process has one other type.
  static std::size_t place_of(c10::Device device) noexcept {
    const auto index = static_cast<std::size_t>(std::max<int>(device.index(), 0));
    return device.is_cpu() ? 0 : 1 + std::min(index, kGpus - 1);
  }

  std::array<Level, 1 + kGpus> levels_;
  std::atomic<bool> displaced_{false};
};

/// Lies in one thread's slot, and in those of the backward threads that inherit it, for all scopes started there.
class ScopeReporter final : public MemoryReporter, public std::enable_shared_from_this<ScopeReporter> {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t bytes, std::size_t /*allocated*/, std::size_t /*reserved*/,
                         c10::Device device) override {
    {
      const std::lock_guard lock(mutex_);
      for (const std::shared_ptr<ScopeMeter>& meter : meters_) {
        meter->report(bytes, device);
      }
    }
    if (t_listener != nullptr) {
      t_listener->on_allocation(bytes, device);
    }
  }

  void add(std::shared_ptr<ScopeMeter> meter) {
    const std::lock_guard lock(mutex_);
    meters_.push_back(std::move(meter));
  }
  /// True when nobody is left.
  bool remove(const std::shared_ptr<ScopeMeter>& meter) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(meters_, meter);
    return meters_.empty();
  }
  void displace() noexcept {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<ScopeMeter>& meter : meters_) {
      meter->displace();
    }
    meters_.clear();
  }

  /// Puts this into the calling thread's slot.
  void enter() {
    before_ = Info::current();
    Info::_push(c10::DebugInfoKind::PROFILER_STATE, shared_from_this());
    own_ = Info::current();
  }
  /// Gives the slot back if the calling thread's debug info is still what enter() made of it.
  bool leave() noexcept {
    if (Info::current() == nullptr || Info::current() != own_.lock()) {
      return false;
    }
    Info::_forceCurrentDebugInfo(std::exchange(before_, nullptr));
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<ScopeMeter>> meters_;
  // Of the thread that entered. The second holds this, in turn.
  std::shared_ptr<Info> before_;
  std::weak_ptr<Info> own_;
};

ScopeMemory::ScopeMemory() : meter_(std::make_shared<ScopeMeter>()) {}

void ScopeMemory::start() noexcept {
  const std::lock_guard lock(mutex_);
  if (reporter_) {
    return;
  }
  try {
    meter_->begin_stretch();
    c10::DebugInfoBase* holder = Info::get(c10::DebugInfoKind::PROFILER_STATE);
    if (holder == nullptr) {
      auto made = std::make_shared<ScopeReporter>();
      made->add(meter_);
      made->enter();
      reporter_ = std::move(made);
    } else if (auto* shared = dynamic_cast<ScopeReporter*>(holder)) {
      shared->add(meter_);
      reporter_ = shared->shared_from_this();
    } else {
      meter_->displace();
    }
  } catch (...) {
    meter_->displace();  // out of memory
  }
}

void ScopeMemory::stop() noexcept {
  const std::lock_guard lock(mutex_);
  if (const std::shared_ptr<ScopeReporter> reporter = std::exchange(reporter_, nullptr)) {
    if (reporter->remove(meter_)) {
      reporter->leave();
    }
  }
}

void ScopeMemory::reset() noexcept { meter_->reset(); }

ScopeMemory::Reading ScopeMemory::reading() const { return meter_->reading(); }

bool reports_to_a_scope(const c10::DebugInfoBase& info) noexcept {
  return dynamic_cast<const ScopeReporter*>(&info) != nullptr;
}

void listen(AllocationListener* listener) noexcept { t_listener = listener; }

bool leave_memory_reports() noexcept {
  auto* reporter = dynamic_cast<ScopeReporter*>(Info::get(c10::DebugInfoKind::PROFILER_STATE));
  if (reporter == nullptr) {
    return false;
  }
  reporter->displace();
  return reporter->leave();
}

}  // namespace headscope::capture::torch
