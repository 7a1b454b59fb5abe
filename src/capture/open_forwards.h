#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "records/attention_call.h"

namespace headscope::capture {

/// Where a forward call ran, in autograd's terms.
struct ForwardPlace {
  /// Checkpoints that nest deeper are not told apart.
  static constexpr std::size_t kLevels = 3;

  std::uint64_t thread = 0;  ///< as autograd numbers threads
  /// Sequence number from which on the thread's nodes were made by this call or after it.
  std::uint64_t first_node = 0;
  /// No graph is built here: a checkpoint that runs its segment without gradients, an autograd.Function, a no_grad
  /// block.
  bool without_gradients = false;
  /// What unpacks the tensors that autograd saves here, outermost first: each checkpoint of the other kind has one of
  /// its own, which lives as long as the graph.
  std::array<std::uintptr_t, kLevels> hooks{};
  std::size_t depth = 0;         ///< number of hooks, those beyond kLevels too
  std::int64_t graph_task = -1;  ///< the backward pass it ran in, a repetition itself; -1: none

  /// A backward pass can only run again what kept less than its whole graph.
  [[nodiscard]] bool repeatable() const noexcept { return without_gradients || depth > 0; }
};

/// A forward call inside a backward pass: what is known of the forward that it may repeat.
struct Repetition {
  enum class Of : std::uint8_t {
    kSegment,    ///< the hooked segment that holds the node: its calls in their order
    kSinceNode,  ///< what ran without gradients after the node was made: those calls in their order
    kNode,       ///< what ran while the node was the newest: those calls from the last to the first
  };

  Of of = Of::kSegment;
  std::uint64_t thread = 0;      ///< that made the node
  std::uint64_t node = 0;        ///< sequence number of the node that runs
  std::int64_t graph_task = -1;  ///< the backward pass; another one may repeat the same forwards
  /// It ended before its last op and is met in the backward that follows.
  bool interrupted = false;
  /// Around the repeating call, as ForwardPlace has them.
  std::array<std::uintptr_t, ForwardPlace::kLevels> hooks{};
  std::size_t depth = 0;
};

/// Forward calls that activation checkpointing may run again in a backward pass, and which of them a call there
/// repeats. Layers are not compared: the modules around a segment do not run again.
///
/// Tables of fixed size that all threads share, one for a few threads each. Old calls are forgotten when their place
/// is needed; a table in use by another thread is skipped, never waited for.
class OpenForwards {
 public:
  struct Forward {
    std::uint64_t call_id = 0;
    records::LayerRef layer;
  };

  /// `call_id` is that of the model's own call, where `call` repeats it.
  void open(std::uint64_t call_id, const records::AttentionCall& call, const ForwardPlace& place) noexcept;
  /// The forward that `call` repeats; each is found once a backward pass.
  std::optional<Forward> take(const records::AttentionCall& call, const Repetition& repetition) noexcept;

 private:
  static constexpr std::size_t kTables = 8;
  static constexpr std::size_t kForwards = 1024;

  struct Entry {
    Forward forward;
    const records::OpInfo* op = nullptr;
    records::Geometry geometry;
    ForwardPlace place;
    /// Last backward pass that repeated it: with each hooked segment around it, and below them all by itself.
    std::array<std::int64_t, ForwardPlace::kLevels + 1> repeated_in{-1, -1, -1, -1};

    [[nodiscard]] std::int64_t& repeated_alone_in() noexcept {
      return repeated_in[place.depth < ForwardPlace::kLevels ? place.depth : ForwardPlace::kLevels];
    }
  };

  struct Table {
    std::atomic_flag busy;
    std::size_t opened = 0;
    std::array<Entry, kForwards> ring{};

    [[nodiscard]] std::size_t size() const noexcept { return opened < kForwards ? opened : kForwards; }
    /// 0: the newest.
    [[nodiscard]] Entry& back(std::size_t age) noexcept { return ring[(opened - 1 - age) % kForwards]; }
  };

  /// Level of the segment that runs again, seen from a call in it; std::nullopt where none does.
  static std::optional<std::size_t> repeated_level(const ForwardPlace& place, const Repetition& repetition) noexcept;
  /// False where the call at `place` runs again with a hooked segment around it.
  static bool may_repeat_whole(const ForwardPlace& place, const Repetition& repetition) noexcept;
  static Entry* find_in_segment(Table& table, const records::AttentionCall& call, const Repetition& repetition,
                                std::size_t& level) noexcept;
  static Entry* find_since_node(Table& table, const records::AttentionCall& call,
                                const Repetition& repetition) noexcept;
  static Entry* find_of_node(Table& table, const records::AttentionCall& call, const Repetition& repetition) noexcept;

  Table& table_of(std::uint64_t thread) noexcept { return tables_[thread % kTables]; }

  std::array<Table, kTables> tables_{};
};

}  // namespace headscope::capture
