#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "timeline/cupti/abi.h"
#include "timeline/cupti/discovery.h"

namespace headscope::timeline::cupti {

/// The functions of a libcupti. Those marked optional may be null.
struct Api {
  abi::Result (*get_version)(std::uint32_t*) = nullptr;
  abi::Result (*get_timestamp)(std::uint64_t*) = nullptr;
  abi::Result (*get_result_string)(abi::Result, const char**) = nullptr;  ///< optional
  abi::Result (*set_thread_id_type)(std::uint32_t) = nullptr;             ///< optional

  abi::Result (*subscribe)(void** subscriber, abi::Callback, void* user_data) = nullptr;
  abi::Result (*subscribe_v2)(void** subscriber, abi::Callback, void*, abi::SubscriberParams*) = nullptr;  ///< optional
  abi::Result (*unsubscribe)(void* subscriber) = nullptr;
  abi::Result (*enable_callback)(std::uint32_t on, void* subscriber, std::uint32_t domain,
                                 std::uint32_t id) = nullptr;                 ///< optional
  abi::Result (*get_graph_node_id)(void* node, std::uint64_t* id) = nullptr;  ///< optional

  abi::Result (*register_callbacks)(abi::BufferRequested, abi::BufferCompleted) = nullptr;
  abi::Result (*enable)(std::uint32_t kind) = nullptr;
  abi::Result (*disable)(std::uint32_t kind) = nullptr;
  abi::Result (*push_external_id)(std::uint32_t kind, std::uint64_t id) = nullptr;
  abi::Result (*pop_external_id)(std::uint32_t kind, std::uint64_t* last) = nullptr;
  abi::Result (*flush_all)(std::uint32_t flags) = nullptr;
  abi::Result (*get_next_record)(std::uint8_t* buffer, std::size_t valid_size, void** record) = nullptr;
  abi::Result (*get_dropped)(void* context, std::uint32_t stream, std::size_t* dropped) = nullptr;  ///< optional
};

struct Library {
  Api api;
  std::string path;     ///< empty when nothing was loaded
  std::string problem;  ///< why nothing was loaded, or which functions it lacks

  [[nodiscard]] bool usable() const noexcept { return problem.empty(); }
};

/// Loads the first candidate that there is. It is never unloaded: CUPTI keeps pointers to our callbacks and we to
/// its functions. Calls nothing of it.
Library load_library(const std::vector<Candidate>& candidates);

/// "cuptiSubscribe failed with 39 (CUPTI_ERROR_…)"; the words only where the library has them.
std::string describe_failure(const Api& api, std::string_view function, abi::Result result);

}  // namespace headscope::timeline::cupti
