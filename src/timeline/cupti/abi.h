#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The part of CUPTI's C interface that is used, as releases 12.4 to 13.5 lay it out. Declared here so that one
/// build, made without CUDA, reads what any of them writes; abi_check.cpp compares it with headers where there are.
namespace headscope::timeline::cupti::abi {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kMaxLimitReached = 12;
inline constexpr Result kNotCompatible = 14;
inline constexpr Result kInvalidKind = 21;
inline constexpr Result kInsufficientPrivileges = 35;
inline constexpr Result kMultipleSubscribers = 39;

inline constexpr std::uint32_t kMemcpy = 1;
inline constexpr std::uint32_t kMemset = 2;
inline constexpr std::uint32_t kSerialKernel = 3;
inline constexpr std::uint32_t kDriver = 4;
inline constexpr std::uint32_t kRuntime = 5;
inline constexpr std::uint32_t kConcurrentKernel = 10;
inline constexpr std::uint32_t kExternalCorrelation = 39;

/// Stacks of external ids are apart by kind. Kineto uses CUSTOM0 and CUSTOM1.
inline constexpr std::uint32_t kCustom2 = 5;

inline constexpr std::uint32_t kFlushForced = 1;
inline constexpr std::uint32_t kSystemThreadIds = 1;  ///< gettid; the default is a truncated pthread_self

inline constexpr std::uint32_t kResourceDomain = 3;
inline constexpr std::uint32_t kGraphNodeCreated = 13;
inline constexpr std::uint32_t kGraphNodeCloned = 20;

// Launches of a whole graph: cudaGraphLaunch and its per-thread-stream form; cuGraphLaunch likewise.
inline constexpr std::array<std::uint32_t, 2> kRuntimeGraphLaunch = {311, 312};
inline constexpr std::array<std::uint32_t, 2> kDriverGraphLaunch = {514, 515};

/// cuptiGetVersion from which a request for a buffer may be answered with none (CUDA 12.9).
inline constexpr std::uint32_t kMayRefuseBuffer = 27;
/// cuptiGetVersion of 13.0 before its Update 1, which can hang or crash where tracing ends.
inline constexpr std::uint32_t kVersion13Ga = 130000;

// Records begin with these fields. They are longer, by a length that grows from release to release: only
// cuptiActivityGetNextRecord steps from one to the next.

struct KernelRecord {
  std::uint32_t kind = 0;
  std::uint32_t cache_and_registers = 0;
  std::uint64_t shared_memory_config = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t completed = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::int32_t static_shared_memory = 0;
  std::int32_t dynamic_shared_memory = 0;
  std::uint32_t local_memory_per_thread = 0;
  std::uint32_t local_memory_total = 0;
  std::uint32_t correlation = 0;
  std::int64_t grid_id = 0;
  const char* name = nullptr;
  std::uint64_t reserved = 0;
  std::uint64_t queued = 0;
  std::uint64_t submitted = 0;
  std::uint32_t launch_type_and_carveout = 0;
  std::uint32_t shared_memory_executed = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t shared_memory_limit = 0;
  std::uint32_t graph = 0;
};
static_assert(offsetof(KernelRecord, start) == 16 && offsetof(KernelRecord, end) == 24);
static_assert(offsetof(KernelRecord, device) == 40 && offsetof(KernelRecord, context) == 44);
static_assert(offsetof(KernelRecord, stream) == 48 && offsetof(KernelRecord, grid) == 52);
static_assert(offsetof(KernelRecord, block) == 64 && offsetof(KernelRecord, correlation) == 92);
static_assert(offsetof(KernelRecord, name) == 104 && offsetof(KernelRecord, graph_node) == 144);
static_assert(offsetof(KernelRecord, graph) == 156 && sizeof(KernelRecord) == 160);

/// Of a copy and of a fill, which have their common fields at the same places.
struct TransferRecord {
  std::uint32_t kind = 0;
  std::uint32_t what = 0;  ///< of a copy: direction in the low byte; of a fill: the value
  std::uint64_t bytes = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  std::uint32_t runtime_correlation_or_flags = 0;
  std::uint32_t padding = 0;
  std::uint64_t reserved = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0;
  std::uint32_t channel = 0;
};
static_assert(offsetof(TransferRecord, bytes) == 8 && offsetof(TransferRecord, start) == 16);
static_assert(offsetof(TransferRecord, device) == 32 && offsetof(TransferRecord, stream) == 40);
static_assert(offsetof(TransferRecord, correlation) == 44 && offsetof(TransferRecord, graph_node) == 64);
static_assert(offsetof(TransferRecord, graph) == 72 && sizeof(TransferRecord) == 80);

struct ExternalRecord {
  std::uint32_t kind = 0;
  std::uint32_t external_kind = 0;
  std::uint64_t external_id = 0;
  std::uint32_t correlation = 0;
  std::uint32_t reserved = 0;
};
static_assert(offsetof(ExternalRecord, external_id) == 8 && offsetof(ExternalRecord, correlation) == 16);
static_assert(sizeof(ExternalRecord) == 24);

struct ApiRecord {
  std::uint32_t kind = 0;
  std::uint32_t function = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t process = 0;
  std::uint32_t thread = 0;
  std::uint32_t correlation = 0;
  std::uint32_t return_value = 0;
};
static_assert(offsetof(ApiRecord, start) == 8 && offsetof(ApiRecord, thread) == 28);
static_assert(offsetof(ApiRecord, correlation) == 32 && sizeof(ApiRecord) == 40);

/// What a resource callback points to, for events of graphs.
struct GraphData {
  void* graph = nullptr;
  void* original_graph = nullptr;
  void* node = nullptr;
  void* original_node = nullptr;
  std::uint32_t node_type = 0;
  void* dependency = nullptr;
  void* executable = nullptr;
};
static_assert(offsetof(GraphData, node) == 16 && offsetof(GraphData, original_node) == 24);
static_assert(offsetof(GraphData, node_type) == 32 && offsetof(GraphData, executable) == 48);

struct ResourceData {
  void* context = nullptr;
  void* handle = nullptr;
  const GraphData* descriptor = nullptr;
};
static_assert(offsetof(ResourceData, descriptor) == 16);

/// Of cuptiSubscribe_v2 as 13.0 has it; later releases append to it and go by `size`.
struct SubscriberParams {
  std::size_t size = sizeof(SubscriberParams);
  const char* name = nullptr;
  char* holder = nullptr;  ///< out, with kMultipleSubscribers: the name of who holds the subscriber
  std::size_t holder_size = 0;
};
static_assert(sizeof(SubscriberParams) == 32);
inline constexpr std::size_t kHolderNameSize = 64;

/// CUgraphNodeType: kernels, copies and fills are 0 to 2; the others (host functions, events, child graphs) are no
/// work of a device.
inline constexpr std::uint32_t kLastWorkingNodeType = 2;

using BufferRequested = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records);
using BufferCompleted = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                                 std::size_t valid_size);
using Callback = void (*)(void* user_data, std::uint32_t domain, std::uint32_t id, const void* data);

}  // namespace headscope::timeline::cupti::abi
