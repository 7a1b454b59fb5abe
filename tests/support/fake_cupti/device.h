#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_cupti/records.h"

namespace headscope::fake_cupti {

/// A buffer of the client that is being filled.
struct Filling {
  std::uint8_t* data = nullptr;
  std::size_t size = 0;
  std::size_t used = 0;
  abi::BufferCompleted completed = nullptr;  ///< of who gave it, or took over
};

/// The state of the fake libcupti. Its lock is held while the client's buffer callbacks run, as CUPTI's is.
class FakeDevice {
 public:
  void reset();
  int failure_of(const char* function, std::uint32_t kind = 0);

  void write(const Bytes& record);
  /// Forced: kernels that run are handed out too, without an end, and never again.
  void flush(bool forced);
  void deliver_late();
  std::uint64_t now() const;
  std::uint32_t next_correlation() { return ++correlation_; }

  /// ids on the calling thread's stacks, then the API record, if asked for.
  void write_call(std::uint32_t kind, std::uint32_t function, std::uint32_t correlation, std::uint64_t start,
                  std::uint64_t end);
  bool on(std::uint32_t kind) const { return kinds_.contains(kind); }
  const FakeLayout& layout() const { return layout_of(version_); }

  std::recursive_mutex mutex_;
  std::uint32_t version_ = 22;
  std::set<std::uint32_t> kinds_;
  std::map<std::string, std::pair<int, std::uint32_t>> failures_;
  abi::BufferRequested requested_ = nullptr;
  abi::BufferCompleted completed_ = nullptr;
  abi::Callback callback_ = nullptr;
  void* user_data_ = nullptr;
  std::set<std::uint32_t> callback_ids_;
  bool subscribed_ = false;
  std::string holder_;
  bool held_by_other_ = false;
  std::size_t buffer_limit_ = 0;
  bool reorder_ = false;
  bool on_thread_ = false;
  bool hold_ = false;
  bool per_thread_ = false;
  std::uint32_t delay_us_ = 0;
  std::size_t dropped_ = 0;
  std::uint64_t clock_numerator_ = 0;
  std::uint64_t clock_denominator_ = 0;
  std::uint64_t clock_offset_ = 0;
  std::int64_t clock_begin_ = 0;
  std::uint32_t thread_id_type_ = 0;
  std::uint32_t correlation_ = 0;
  /// Kernels that run, as a forced flush hands them out and as they are once they ended.
  std::vector<std::pair<Bytes, Bytes>> running_;
  FakeState counts_{};
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<bool> fails_{false};  ///< failures_ is not empty; asked without the lock

 private:
  void give_back(const Filling& buffer);
  void finish(Filling& buffer);

  std::map<std::thread::id, Filling> filling_;
  std::vector<Filling> waiting_;
  std::vector<Filling> late_;
};

FakeDevice& device();
/// The calling thread's stack of a kind.
std::vector<std::uint64_t>& stack_of(std::uint32_t kind);

}  // namespace headscope::fake_cupti
