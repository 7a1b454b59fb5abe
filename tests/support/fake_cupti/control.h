#pragma once

#include <cstddef>
#include <cstdint>

/// A libcupti and a libcuda without a device: shared libraries with the C functions of the real ones, and these
/// functions, by which a test says what "the device" does. The state is one for the process, as that of CUPTI is.
extern "C" {

/// Back to: version 12.4, no kinds, no subscriber, no failures, CUPTI's own clock, empty stacks of the calling thread.
void fake_cupti_reset();

/// What cuptiGetVersion says, and the length of records that goes with it.
void fake_cupti_set_version(std::uint32_t version);

struct FakeLayout {
  std::uint32_t version;
  std::size_t kernel;
  std::size_t memcpy;
  std::size_t memset;
};
/// All layouts, in the order of release.
const FakeLayout* fake_cupti_layouts(std::size_t* count);

struct FakeLaunch {
  const char* name = "kernel";
  std::uint32_t correlation = 0;  ///< 0: the next one
  std::uint64_t start = 0;        ///< ticks; start = end = 0 with `untimed`
  std::uint64_t end = 0;          ///< 0: from now on, 1000 ticks
  bool untimed = false;
  bool running = false;  ///< until fake_cupti_finish_running
  std::uint32_t device = 0;
  std::uint32_t context = 1;
  std::uint32_t stream = 7;
  std::int32_t grid[3] = {1, 1, 1};
  std::int32_t block[3] = {128, 1, 1};
  bool by_driver = false;        ///< cuLaunchKernel instead of cudaLaunchKernel
  bool kernel_first = false;     ///< the kernel's record before those of the call
  std::uint64_t call_start = 0;  ///< 0: now
  std::uint64_t call_end = 0;
};
/// The calling thread launches a kernel: ids on its stacks, the API call, the kernel. Gives the correlation id.
std::uint32_t fake_cupti_launch(const FakeLaunch* launch);
/// Kernels that were launched as running have ended.
void fake_cupti_finish_running();
/// kind 1: a copy of `what` direction; 2: a fill. Gives the correlation id.
std::uint32_t fake_cupti_transfer(std::uint32_t kind, std::uint32_t what, std::uint64_t bytes);
/// An API call that launches nothing.
std::uint32_t fake_cupti_call();

/// The calling thread captures a node with this id.
void fake_cupti_capture_node(std::uint64_t node);
/// A graph with copies of the nodes is instantiated: copies[i] of nodes[i].
void fake_cupti_instantiate(const std::uint64_t* nodes, const std::uint64_t* copies, std::size_t count);
/// One launch that runs a kernel for each node.
std::uint32_t fake_cupti_replay(std::uint32_t graph, const std::uint64_t* nodes, std::size_t count);

/// Puts bytes into the buffer as they are.
void fake_cupti_write(const void* bytes, std::size_t count);
/// Pushes an id of another tool on the calling thread.
void fake_cupti_push(std::uint32_t kind, std::uint64_t id);
/// Ids on the calling thread's stack of a kind.
std::size_t fake_cupti_stack_depth(std::uint32_t kind);

/// Uses at most this much of each buffer.
void fake_cupti_limit_buffers(std::size_t bytes);
/// Full buffers wait for a flush, which gives them back in reverse.
void fake_cupti_reorder(bool on);
/// Buffers come back on a thread of CUPTI's own.
void fake_cupti_deliver_on_thread(bool on);
/// Buffers come back only when fake_cupti_deliver_late() is called.
void fake_cupti_hold(bool on);
void fake_cupti_deliver_late();
/// Each return of a buffer takes this long.
void fake_cupti_delay(std::uint32_t microseconds);
/// One buffer a launching thread, as CUPTI 13.0 and later.
void fake_cupti_buffer_per_thread(bool on);
/// What cuptiActivityGetNumDroppedRecords adds next time.
void fake_cupti_drop(std::size_t records);
/// Gives a buffer back that was never asked for.
void fake_cupti_return_foreign(std::uint8_t* buffer, std::size_t valid);

/// `function` ("cuptiSubscribe") fails with `code` from now on; 0: works again. For cuptiActivityEnable, `kind`
/// says for which; 0: all.
void fake_cupti_fail(const char* function, int code, std::uint32_t kind);
/// Another tool has the subscriber; null: nobody.
void fake_cupti_hold_subscriber(const char* name);
/// Another client registers its callbacks and gets all buffers from here on.
void fake_cupti_steal();
/// Another client's clock: ticks = nanoseconds since now · numerator / denominator + offset. 0/0: CUPTI's own.
void fake_cupti_set_clock(std::uint64_t numerator, std::uint64_t denominator, std::uint64_t offset);
std::uint64_t fake_cupti_now();

struct FakeState {
  std::size_t enabled_kinds;
  bool subscribed;
  std::size_t subscriptions;  ///< so far
  std::uint64_t buffers_requested;
  std::uint64_t buffers_returned;
  std::uint64_t refused;       ///< requests that gave no buffer
  std::uint64_t unsafe_nulls;  ///< of these, below the version that takes it
  std::uint64_t lost;          ///< records for which there was no buffer
  std::uint64_t calls;         ///< of any function of CUPTI
  std::uint32_t thread_id_type;
};
FakeState fake_cupti_state();

/// cuInit gives `result`, then cuDeviceGetCount `devices`.
void fake_cuda_set(int init_result, int devices, int count_result, int version);
/// How often cuInit was called.
int fake_cuda_inits();

}  // extern "C"
