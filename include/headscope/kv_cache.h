#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headscope/export.h"
#include "headscope/types.h"

/// How full key/value caches are. Slots are counted in tokens: a slot holds K and V of one token of one sequence.
namespace headscope {

enum class KvCacheKind : std::uint8_t {
  kDynamic,    ///< grows with its tokens
  kStatic,     ///< allocated once, for a longest sequence
  kSliding,    ///< keeps the last tokens of a window
  kQuantized,  ///< grows, and holds most tokens in fewer bits
  kPaged,      ///< blocks of slots, given to sequences by a table
  kView,       ///< seen in calls: keys that are the used part of a larger tensor
  kRegistered,
};

/// "dynamic", "static", "sliding", "quantized", "paged", "view", "registered".
HEADSCOPE_EXPORT std::string_view to_string(KvCacheKind kind) noexcept;

/// Of a paged cache. A block that several sequences share counts once.
struct KvBlocks {
  std::int64_t block_size = 0;  ///< slots
  std::int64_t total = 0;
  std::int64_t used = 0;
  /// Distinct slots written; std::nullopt where the owner does not tell.
  std::optional<std::int64_t> slots_written;

  friend bool operator==(const KvBlocks&, const KvBlocks&) = default;
};

/// How full a cache, or one layer of it, is.
struct KvCacheUse {
  /// Empty: the cache as a whole.
  std::string layer;
  KvCacheKind kind = KvCacheKind::kRegistered;
  /// Layers that these figures are of.
  std::int64_t layers = 1;
  std::optional<std::int64_t> sequences;
  /// Slots: the most there may be (std::nullopt: no limit), allocated, written (padding included), written for padding,
  /// and spared because sequences share them.
  std::optional<std::int64_t> capacity_tokens;
  std::optional<std::int64_t> reserved_tokens;
  std::optional<std::int64_t> used_tokens;
  std::optional<std::int64_t> padding_tokens;
  std::optional<std::int64_t> shared_tokens;
  /// Bytes of a token in all `layers`.
  std::optional<double> bytes_per_token;
  // Where absent: the slots × bytes_per_token.
  std::optional<std::int64_t> capacity_bytes;
  std::optional<std::int64_t> reserved_bytes;
  std::optional<std::int64_t> used_bytes;
  std::optional<KvBlocks> blocks;
  /// Free memory of the device that holds the cache, for the forecast of caches without a limit.
  std::optional<std::int64_t> device_free_bytes;

  friend bool operator==(const KvCacheUse&, const KvCacheUse&) = default;
};

/// What a cache held at some moment.
struct KvCachePoint {
  /// Since the cache was registered.
  Nanoseconds at{};
  std::int64_t used_tokens = 0;
  std::optional<std::int64_t> reserved_tokens;

  friend bool operator==(const KvCachePoint&, const KvCachePoint&) = default;
};

/// A row of Stats::kv_cache.
struct KvCacheRow : KvCacheUse {
  std::string cache;
  /// used ÷ capacity, or ÷ reserved where there is no capacity, and which of them: "capacity", "reserved".
  std::optional<double> occupancy;
  std::string occupancy_of;
  /// Blocks used ÷ total. Never mixed up with:
  std::optional<double> block_occupancy;
  /// Distinct slots written ÷ slots of the blocks used.
  std::optional<double> token_occupancy;
  /// 1 − token_occupancy: slots of used blocks that hold nothing.
  std::optional<double> fragmentation;
  /// Padding ÷ used.
  std::optional<double> padding_share;
  /// Slots that can still be written, and what ends them: "capacity", "device_memory" (estimated).
  std::optional<std::int64_t> tokens_left;
  std::string tokens_left_of;
  /// Share of the admitted keys that holds 95 % of the attention mass, where patterns were sampled: of the row's layer,
  /// or the mean over all layers.
  std::optional<double> attended_share;
  /// The cache is gone: figures are the last ones known.
  bool freed = false;
  /// Of the cache as a whole; at most 512 points.
  std::vector<KvCachePoint> growth;

  friend bool operator==(const KvCacheRow&, const KvCacheRow&) = default;
};

namespace kv_cache {
class Entry;
}

/// Shows a cache whose owner knows how full it is, in the Stats of each profiler, as long as the gauge lives and
/// after that with its last figures. Thread-safe.
class HEADSCOPE_EXPORT KvCacheGauge {
 public:
  /// `profiler`: AttentionProfiler::id() of the only one that shows it; 0: all do.
  [[nodiscard]] explicit KvCacheGauge(std::string name, std::uint64_t profiler = 0);
  KvCacheGauge(const KvCacheGauge&) = delete;
  KvCacheGauge& operator=(const KvCacheGauge&) = delete;
  ~KvCacheGauge();

  /// The cache as a whole first, then its layers, if they are of interest. Throws Error for negative figures, and for
  /// more used than reserved or than capacity; the figures before stay.
  void set(std::vector<KvCacheUse> uses);

 private:
  std::shared_ptr<kv_cache::Entry> entry_;
};

/// What a KvCacheTracker needs to know of a cache.
struct KvCacheShape {
  std::string name = "kv_cache";
  std::int64_t layers = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  /// 0: as head_dim.
  std::int64_t head_dim_v = 0;
  /// Bytes of an element of K and V.
  double element_size = 2.0;
  std::int64_t block_size = 16;
  std::int64_t blocks = 0;

  friend bool operator==(const KvCacheShape&, const KvCacheShape&) = default;
};

/// Keeps the books of a paged cache for a server that tells it what it does. A block belongs to one sequence unless
/// share() says otherwise; all layers use the same blocks.
///
///     headscope::KvCacheTracker cache{{.name = "server", .layers = 32, .kv_heads = 8, .head_dim = 128, .blocks =
///     4096}}; auto sequence = cache.add_sequence(); cache.give_blocks(sequence, blocks); cache.append(sequence,
///     prompt_length);
///
/// Shown in the Stats of each profiler while it lives, and after that with its last figures. All members may be called
/// from any thread and take constant time, apart from their arguments and the blocks of the sequence. Wrong use throws
/// Error and changes nothing. 8 bytes a block, 40 a sequence, 4 a block of a sequence.
class HEADSCOPE_EXPORT KvCacheTracker {
 public:
  using Sequence = std::uint64_t;

  /// Throws Error for sizes below 1.
  [[nodiscard]] explicit KvCacheTracker(const KvCacheShape& shape);
  KvCacheTracker(const KvCacheTracker&) = delete;
  KvCacheTracker& operator=(const KvCacheTracker&) = delete;
  ~KvCacheTracker();

  /// A sequence without blocks. Its number is not used again after free_sequence().
  [[nodiscard]] Sequence add_sequence();
  /// Blocks for what the sequence will write next. Throws Error for one that is out of range or in use.
  void give_blocks(Sequence sequence, std::span<const std::uint32_t> blocks);
  /// Writes the next `tokens` slots. Throws Error where the sequence's blocks do not suffice, and where a block that
  /// must be written is shared: replace_block() it first.
  void append(Sequence sequence, std::int64_t tokens = 1);
  /// A sequence that begins with the first `tokens` tokens of `from`, in the same blocks (a common prefix, a beam).
  [[nodiscard]] Sequence share(Sequence from, std::int64_t tokens);
  /// Puts `block`, with a copy of what the old one held for this sequence, in the place of block number `index` of the
  /// sequence.
  void replace_block(Sequence sequence, std::size_t index, std::uint32_t block);
  /// Takes back the last tokens (rejected drafts), down to a length of `tokens`. Keeps the blocks.
  void truncate(Sequence sequence, std::int64_t tokens);
  /// Blocks that no other sequence holds become free.
  void free_sequence(Sequence sequence);

  [[nodiscard]] std::int64_t length(Sequence sequence) const;
  [[nodiscard]] KvCacheUse use() const;

 private:
  struct Books;
  std::shared_ptr<Books> books_;
  std::shared_ptr<kv_cache::Entry> entry_;
};

}  // namespace headscope
