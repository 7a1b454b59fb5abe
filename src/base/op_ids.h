#pragma once

#include <atomic>
#include <cstdint>

namespace headscope::base {

/// Ids of ops. They grow and none is used twice in a process, whoever gives them.
inline std::atomic<std::uint64_t> g_next_op_id{1};

inline std::uint64_t next_op_id() noexcept { return g_next_op_id.fetch_add(1, std::memory_order_relaxed); }
/// Above every id given so far.
inline std::uint64_t end_of_op_ids() noexcept { return g_next_op_id.load(std::memory_order_relaxed); }

}  // namespace headscope::base
