#include "timeline/cupti/cupti_timeline.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "timeline/cupti/discovery.h"
#include "timeline/cupti/driver_gate.h"
#include "timeline/cupti/record_decoder.h"

namespace headscope::timeline::cupti {
namespace {

/// CUPTI's buffer callbacks carry no data of ours.
std::atomic<BufferPool*> g_pool{nullptr};

void on_buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) noexcept {
  *max_records = 0;  // as many as fit
  g_pool.load(std::memory_order_acquire)->request(buffer, size);
}

void on_buffer_completed(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) noexcept {
  g_pool.load(std::memory_order_acquire)->complete(buffer, valid_bytes);
}

constexpr const char* kForkedText =
    "this process was forked from one that traced devices; CUPTI does not survive a fork. Start processes with "
    "\"spawn\", or start tracing after the fork";

}  // namespace

CuptiTimeline& cupti_timeline() {
  static CuptiTimeline* const timeline = new CuptiTimeline;
  return *timeline;
}

void CuptiTimeline::become_inert() noexcept {
  forked_.store(true, std::memory_order_relaxed);
  marker_.end();
}

/// Loads libcupti once; empty when it can be used.
std::string CuptiTimeline::load(const Situation& situation, int driver_major) {
  if (!library_ || !library_->usable()) {
    SearchInputs inputs = search_inputs();
    inputs.cuda_major = situation.cuda_major;
    inputs.driver_major = driver_major;
    inputs.packages = situation.package_folders;
    library_ = load_library(candidates(inputs));
    if (library_->usable() && pthread_atfork(nullptr, nullptr, [] { cupti_timeline().become_inert(); }) != 0) {
      library_->problem = "pthread_atfork failed: out of memory";
    }
  }
  return library_->problem;
}

/// Asks who uses CUPTI. Empty, with `refusal` set, when it is not ours to use.
std::optional<Decision> CuptiTimeline::claim(const Situation& situation, Status& refusal) {
  const Api& api = library_->api;
  const abi::Result result = api.subscribe(&subscriber_, &GraphWatch::on_event, &graphs_);
  const bool held = result == abi::kMultipleSubscribers && !situation.torch_profiler_used;
  Decision decision = decide_after_probe(situation, result, held ? holder_name(api) : std::string());
  if (result != abi::kSuccess) {
    subscriber_ = nullptr;
  }
  if (decision.claim == Claim::kRefuse) {
    const bool failed = decision.reason == Reason::kCallFailed;
    refusal = {decision.reason, failed ? describe_failure(api, "cuptiSubscribe", result) : decision.text, {}};
    return std::nullopt;
  }
  if (decision.claim == Claim::kKeep) {
    std::string failure;
    if (!graphs_.begin(api, subscriber_, failure)) {
      decision = {Claim::kRelease, Reason::kNone, "", failure + ": ops of captured CUDA graphs are not known"};
    }
  }
  if (decision.claim == Claim::kRelease) {
    api.unsubscribe(subscriber_);
    subscriber_ = nullptr;
  }
  return decision;
}

/// Clocks, callbacks and kinds; empty when tracing is on.
std::string CuptiTimeline::begin_tracing() {
  const Api& api = library_->api;
  if (api.set_thread_id_type != nullptr) {
    if (const abi::Result result = api.set_thread_id_type(abi::kSystemThreadIds); result != abi::kSuccess) {
      status_.warnings.push_back(describe_failure(api, "cuptiSetThreadIdType", result) +
                                 ": threads of launches are not the system's");
    }
  }
  pool_.configure(limits_, version_ >= abi::kMayRefuseBuffer);
  g_pool.store(&pool_, std::memory_order_release);
  if (const abi::Result result = api.register_callbacks(&on_buffer_requested, &on_buffer_completed);
      result != abi::kSuccess) {
    return describe_failure(api, "cuptiActivityRegisterCallbacks", result);
  }
  // Buffers of an earlier session that came back when nobody read.
  while (const auto late = pool_.take_completed()) {
    ++losses_.late_buffers;
    pool_.recycle(*late);
  }
  if (api.get_dropped != nullptr) {
    std::size_t earlier = 0;
    api.get_dropped(nullptr, 0, &earlier);
  }
  // Before the first kind is on: what the session records is later than this.
  const std::optional<Clocks> clocks = read_clocks();
  if (!clocks) {
    return "CUPTI's clock cannot be read (cuptiGetTimestamp)";
  }
  begin_ = *clocks;
  if (std::string failure = kinds_.enable(api, status_.warnings); !failure.empty()) {
    return failure;
  }
  marker_.begin(api);
  return {};
}

/// All that comes before tracing. Empty, with status_ set, where there can be none.
std::optional<Decision> CuptiTimeline::prepare(const Situation& situation) {
  const auto refuse = [this](Reason reason, std::string text) -> std::optional<Decision> {
    status_ = {reason, std::move(text), {}};
    return std::nullopt;
  };
  if (const Decision early = decide_before_probe(situation); early.claim == Claim::kRefuse) {
    return refuse(early.reason, early.text);
  }
  const DriverState driver = check_driver(find_driver());
  if (driver.reason != Reason::kNone) {
    return refuse(driver.reason, driver.text);
  }
  if (std::string problem = load(situation, driver.cuda_major); !problem.empty()) {
    return refuse(library_->path.empty() ? Reason::kNoLibrary : Reason::kIncompatibleLibrary, std::move(problem));
  }
  const Api& api = library_->api;
  if (const abi::Result result = api.get_version(&version_); result != abi::kSuccess) {
    return refuse(Reason::kCallFailed, describe_failure(api, "cuptiGetVersion", result));
  }
  return claim(situation, status_);
}

Status CuptiTimeline::probe(Situation situation) {
  if (forked()) {
    return status();
  }
  const std::lock_guard lock(control_);
  if (running()) {
    return status_;
  }
  situation.graphs = false;  // nothing is to be held
  if (!prepare(situation)) {
    return status_;
  }
  status_ = kNeverStarted;
  return {Reason::kNone, "", {}};
}

Status CuptiTimeline::start(const Situation& situation) {
  if (forked()) {
    return status();
  }
  const std::lock_guard lock(control_);
  if (running()) {
    return status_;
  }
  losses_ = {};
  foreign_before_ = pool_.foreign();
  const std::optional<Decision> decision = prepare(situation);
  if (!decision) {
    return status_;
  }
  const Api& api = library_->api;
  status_ = {};
  if (!decision->warning.empty()) {
    status_.warnings.push_back(decision->warning);
  }
  if (version_ == abi::kVersion13Ga) {
    status_.warnings.emplace_back("CUPTI of CUDA 13.0 before Update 1 can hang where tracing ends; use a later one");
  }
  if (std::string failure = begin_tracing(); !failure.empty()) {
    if (subscriber_ != nullptr) {
      api.unsubscribe(std::exchange(subscriber_, nullptr));
    }
    status_ = {Reason::kCallFailed, std::move(failure), {}};
    return status_;
  }
  begin_reading();
  running_ = true;
  status_.reason = Reason::kNone;
  status_.text.clear();
  return status_;
}

Status CuptiTimeline::status() const {
  if (forked()) {
    return {Reason::kForked, kForkedText, {}};
  }
  const std::lock_guard lock(control_);
  return status_;
}

std::optional<CuptiTimeline::Clocks> CuptiTimeline::read_clocks() const {
  const auto device = tightest_point(&realtime_ns, [this]() -> std::optional<std::uint64_t> {
    std::uint64_t ticks = 0;
    if (library_->api.get_timestamp(&ticks) != abi::kSuccess) {
      return std::nullopt;
    }
    return ticks;
  });
  if (!device) {
    return std::nullopt;
  }
  return Clocks{*device, read_host_clocks()};
}

void CuptiTimeline::begin_reading() {
  pool_.rearm();
  try {
    reader_ = std::thread([this] {
      while (pool_.wait_for_completed()) {
        const std::size_t waiting = read_completed();
        void (*const take_some)() = take_some_.load(std::memory_order_relaxed);
        if (waiting >= kManySpans && take_some != nullptr) {
          take_some();
        }
      }
    });
  } catch (const std::system_error&) {
    reader_ = {};  // buffers are then read when flush(), take() and stop() are called
  }
}

void CuptiTimeline::end_reading() {
  pool_.wake();
  if (reader_.joinable()) {
    reader_.join();
  }
}

std::size_t CuptiTimeline::read_completed() {
  const std::lock_guard lock(reading_);
  const NextRecord next_record = library_->api.get_next_record;
  // Not those that come while this reads: launches may be faster.
  const std::uint64_t mark = pool_.mark();
  while (const auto buffer = pool_.take_completed(mark)) {
    const Scope scope{begin_.device.ticks, marker_.first_op(), OpMarker::end_op()};
    Decoded decoded;
    try {
      if (buffer->scrap) {
        decoded.stale = count_records(buffer->data, buffer->valid_bytes, next_record);
      } else {
        decode_buffer(buffer->data, buffer->valid_bytes, next_record, scope, name_table(), decoded);
      }
      join_.add(decoded);
    } catch (...) {
      join_.drop(1);  // out of memory; how many are lost is not known
    }
    pool_.recycle(*buffer);
  }
  return join_.waiting();
}

/// Records that CUPTI itself lost.
void CuptiTimeline::add_dropped() {
  std::size_t dropped = 0;
  if (library_->api.get_dropped != nullptr && library_->api.get_dropped(nullptr, 0, &dropped) == abi::kSuccess) {
    ready_.dropped += dropped;
  }
}

void CuptiTimeline::flush() {
  if (forked()) {
    return;
  }
  const std::lock_guard lock(control_);
  if (!running()) {
    return;
  }
  library_->api.flush_all(0);
  add_dropped();
  read_completed();
}

/// What has been joined goes to `ready_`, in the calls' clock.
void CuptiTimeline::move_out(const Clocks& end, bool all) {
  records::DeviceActivity joined;
  {
    const std::lock_guard lock(reading_);
    join_.move_to(joined, all);
  }
  const ClockMapping mapping(begin_.device, end.device);
  const RealtimeToMonotonic to_monotonic{begin_.host, end.host};
  const auto convert = [&](std::int64_t& start_ns, std::int64_t& end_ns) {
    const auto from = mapping.to_realtime(static_cast<std::uint64_t>(start_ns));
    const auto to = mapping.to_realtime(static_cast<std::uint64_t>(end_ns));
    start_ns = from && to ? to_monotonic(*from) : 0;
    end_ns = from && to ? start_ns + (*to - *from) : 0;  // durations stay what they were
  };
  for (records::DeviceSpan& span : joined.spans) {
    if (span.timed()) {
      convert(span.start_ns, span.end_ns);
    }
    joined.untimed += span.timed() ? 0 : 1;
    span.capture = graphs_.nodes().capture_of(span.graph_node);
    ready_.spans.push_back(span);
  }
  for (records::Launch& launch : joined.launches) {
    convert(launch.start_ns, launch.end_ns);
    ready_.launches.push_back(launch);
  }
  ready_.dropped += joined.dropped;
  ready_.untimed += joined.untimed;
  std::ranges::copy(graphs_.nodes().take_created(), std::back_inserter(ready_.captures));
}

records::DeviceActivity CuptiTimeline::take() {
  if (forked()) {
    return {};
  }
  const std::lock_guard lock(control_);
  if (running()) {
    read_completed();
    if (const std::optional<Clocks> clocks = read_clocks()) {
      move_out(*clocks, false);
    }
  }
  return std::exchange(ready_, {});
}

void CuptiTimeline::stop() {
  if (forked()) {
    return;
  }
  const std::lock_guard lock(control_);
  if (!running()) {
    return;
  }
  const Api& api = library_->api;
  marker_.end();
  api.flush_all(0);
  const std::optional<Clocks> clocks = read_clocks();
  if (subscriber_ != nullptr) {
    graphs_.end(subscriber_);
    api.unsubscribe(std::exchange(subscriber_, nullptr));
  }
  const std::uint64_t mark = pool_.mark();
  if (const abi::Result result = api.flush_all(abi::kFlushForced); result != abi::kSuccess) {
    status_.warnings.push_back(describe_failure(api, "cuptiActivityFlushAll", result) + ": records are missing");
    kinds_.disable(api);
  } else if (pool_.outstanding_since(mark) != 0) {
    // Another client registered callbacks of its own and gets our buffers. The kinds that we switched on may be
    // those that it wants, so they stay on.
    losses_.stolen = true;
    status_.warnings.emplace_back("another client of CUPTI took over while devices were traced: records are missing");
  } else {
    kinds_.disable(api);
    api.flush_all(abi::kFlushForced);
  }
  add_dropped();
  end_reading();
  read_completed();
  // A clock that cannot be read any more is trusted if it was the host's.
  const Clocks end = clocks.value_or(begin_);
  if (!ClockMapping(begin_.device, end.device).known()) {
    status_.warnings.emplace_back("CUPTI's clock changed while devices were traced: spans are without times");
  }
  move_out(end, true);
  losses_.foreign_buffers = pool_.foreign() - foreign_before_;
  losses_.unmarked_ops = marker_.unmarked();
  pool_.trim();
  running_ = false;
  status_.reason = Reason::kNotStarted;
  status_.text = "the device clock was stopped";
}

void CuptiTimeline::set_limits(const PoolLimits& limits) {
  const std::lock_guard lock(control_);
  limits_ = limits;
}

Losses CuptiTimeline::losses() const {
  const std::lock_guard lock(control_);
  return losses_;
}

std::string CuptiTimeline::library_path() const {
  const std::lock_guard lock(control_);
  return library_ ? library_->path : std::string();
}

std::uint32_t CuptiTimeline::library_version() const {
  const std::lock_guard lock(control_);
  return version_;
}

}  // namespace headscope::timeline::cupti
