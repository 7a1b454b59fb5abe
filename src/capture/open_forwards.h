#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "records/attention_call.h"

namespace headscope::capture {

/// Forward calls whose backward has not run, by (op, layer label, geometry): how a forward inside a backward
/// pass is known to repeat one of them (activation checkpointing). Equal calls are taken last in, first
/// out, as a backward pass walks through a model.
///
/// A table of fixed size that all threads share. Old calls are forgotten when their place is needed; an
/// entry in use by another thread is skipped, never waited for.
class OpenForwards {
 public:
  struct Forward {
    std::uint64_t call_id = 0;
    records::LayerRef layer;
  };

  void open(const records::AttentionCall& call) noexcept;
  /// The last open forward that `call` repeats; it is open no longer.
  std::optional<Forward> take(const records::AttentionCall& call) noexcept;
  /// The backward `call` of forward `call_id` has run.
  void close(const records::OpInfo* op, const records::LayerRef& layer, const records::Geometry& geometry,
             std::uint64_t call_id) noexcept;

 private:
  static constexpr std::size_t kEntries = 1024;
  /// Unnamed layers of one geometry share an entry.
  static constexpr std::size_t kDepth = 64;

  struct Entry {
    std::atomic_flag busy;
    const records::OpInfo* op = nullptr;
    std::uint32_t label = 0;
    records::Geometry geometry;
    /// The newest of a ring of kDepth; `count` of them are valid.
    std::size_t newest = 0;
    std::size_t count = 0;
    std::array<Forward, kDepth> forwards{};
  };

  Entry& entry_of(const records::OpInfo* op, std::uint32_t label, const records::Geometry& geometry) noexcept;

  std::array<Entry, kEntries> entries_{};
};

}  // namespace headscope::capture
