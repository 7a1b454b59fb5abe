#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>

#include "headscope/error.h"
#include "headscope/kv_cache.h"
#include "kv_cache/registry.h"

namespace headscope {
namespace {

/// A block of the cache.
struct Block {
  std::uint32_t holders = 0;  ///< sequences
  std::uint32_t written = 0;  ///< slots, from the first on
};

/// What a number of add_sequence() stands for: its place, and how often that was given out.
struct SequenceState {
  std::vector<std::uint32_t> blocks;
  std::int64_t length = 0;
  std::uint32_t generation = 0;
  bool alive = false;
};

/// A sequence's number holds its place in the low half, above it how often the place was given out before.
constexpr int kGenerationShift = 32;

std::size_t place_of(KvCacheTracker::Sequence sequence) noexcept {
  return static_cast<std::size_t>(sequence & 0xffffffffU);
}

void check(const KvCacheShape& shape) {
  const std::initializer_list<std::pair<const char*, std::int64_t>> sizes = {{"layers", shape.layers},
                                                                             {"kv_heads", shape.kv_heads},
                                                                             {"head_dim", shape.head_dim},
                                                                             {"block_size", shape.block_size},
                                                                             {"blocks", shape.blocks}};
  for (const auto& [name, value] : sizes) {
    if (value < 1) {
      throw Error("KvCacheShape::" + std::string(name) + " is " + std::to_string(value) + "; give 1 or more");
    }
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (shape.blocks >= kMost || shape.block_size >= kMost) {
    throw Error("KvCacheShape: blocks and block_size must be below 2^31");
  }
  if (shape.head_dim_v < 0 || !(shape.element_size > 0.0)) {
    throw Error("KvCacheShape: head_dim_v must be 0 or more, and element_size above 0");
  }
}

}  // namespace

struct KvCacheTracker::Books {
  explicit Books(const KvCacheShape& given) : shape(given), blocks(static_cast<std::size_t>(given.blocks)) {}

  SequenceState& at(Sequence number) {
    const std::size_t place = place_of(number);
    const auto generation = static_cast<std::uint32_t>(number >> kGenerationShift);
    if (place >= sequences.size() || !sequences[place].alive || sequences[place].generation != generation) {
      throw Error("sequence " + std::to_string(number) + " of the KV cache " + shape.name +
                  " is not known: it was freed, or add_sequence() did not make it");
    }
    return sequences[place];
  }

  std::pair<Sequence, SequenceState&> add() {
    std::size_t place = sequences.size();
    if (free_places.empty()) {
      sequences.emplace_back();
      free_places.reserve(sequences.capacity());  // so that freeing allocates nothing
    } else {
      place = free_places.back();
      free_places.pop_back();
    }
    SequenceState& state = sequences[place];
    state.alive = true;
    ++alive;
    return {Sequence{state.generation} << kGenerationShift | place, state};
  }

  /// Throws unless `block` may be given to a sequence.
  void check_free(std::uint32_t block) const {
    if (block >= blocks.size()) {
      throw Error("block " + std::to_string(block) + " is out of range: the KV cache " + shape.name + " has " +
                  std::to_string(blocks.size()) + " blocks, from 0 on");
    }
    if (blocks[block].holders > 0) {
      throw Error("block " + std::to_string(block) + " of the KV cache " + shape.name +
                  " is in use; share() lets sequences hold the same blocks");
    }
  }

  void hold(std::uint32_t block) noexcept { blocks_used += blocks[block].holders++ == 0 ? 1 : 0; }

  void let_go(std::uint32_t number) noexcept {
    Block& block = blocks[number];
    if (--block.holders == 0) {
      --blocks_used;
      slots_written -= std::exchange(block.written, 0);
    }
  }

  /// Blocks that hold the first `length` tokens.
  [[nodiscard]] std::size_t blocks_of(std::int64_t length) const noexcept {
    return static_cast<std::size_t>((length + shape.block_size - 1) / shape.block_size);
  }

  /// Slots of block number `index` that a sequence of `length` tokens has written.
  [[nodiscard]] std::uint32_t written_in(std::size_t index, std::int64_t length) const noexcept {
    const std::int64_t before = static_cast<std::int64_t>(index) * shape.block_size;
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(length - before, 0, shape.block_size));
  }

  void set_written(Block& block, std::uint32_t written) noexcept {
    slots_written += std::int64_t{written} - std::int64_t{block.written};
    block.written = written;
  }

  [[nodiscard]] KvCacheUse use() const {
    const auto v = static_cast<double>(shape.head_dim_v > 0 ? shape.head_dim_v : shape.head_dim);
    KvCacheUse use;
    use.kind = KvCacheKind::kPaged;
    use.layers = shape.layers;
    use.sequences = alive;
    use.capacity_tokens = shape.blocks * shape.block_size;
    use.reserved_tokens = blocks_used * shape.block_size;
    use.used_tokens = slots_written;
    use.shared_tokens = tokens - slots_written;
    use.bytes_per_token = static_cast<double>(shape.layers * shape.kv_heads) *
                          (static_cast<double>(shape.head_dim) + v) * shape.element_size;
    use.blocks = KvBlocks{
        .block_size = shape.block_size, .total = shape.blocks, .used = blocks_used, .slots_written = slots_written};
    return use;
  }

  const KvCacheShape shape;
  mutable std::mutex mutex;
  std::vector<Block> blocks;
  std::vector<SequenceState> sequences;
  std::vector<std::size_t> free_places;
  std::int64_t alive = 0;
  std::int64_t tokens = 0;  ///< of all sequences
  std::int64_t slots_written = 0;
  std::int64_t blocks_used = 0;
};

KvCacheTracker::KvCacheTracker(const KvCacheShape& shape) {
  check(shape);
  books_ = std::make_shared<Books>(shape);
  entry_ = kv_cache::the_registry().open(shape.name, [books = books_] {
    const std::lock_guard lock(books->mutex);
    return std::vector<KvCacheUse>{books->use()};
  });
}

KvCacheTracker::~KvCacheTracker() { entry_->close(); }

KvCacheTracker::Sequence KvCacheTracker::add_sequence() {
  const std::lock_guard lock(books_->mutex);
  return books_->add().first;
}

void KvCacheTracker::give_blocks(Sequence sequence, std::span<const std::uint32_t> blocks) {
  const std::lock_guard lock(books_->mutex);
  SequenceState& state = books_->at(sequence);
  state.blocks.reserve(state.blocks.size() + blocks.size());
  std::size_t held = 0;
  try {
    for (const std::uint32_t block : blocks) {
      books_->check_free(block);
      books_->hold(block);
      ++held;
    }
  } catch (...) {
    std::ranges::for_each(blocks.first(held), [this](std::uint32_t block) { books_->let_go(block); });
    throw;
  }
  state.blocks.insert(state.blocks.end(), blocks.begin(), blocks.end());
}

void KvCacheTracker::append(Sequence sequence, std::int64_t tokens) {
  const std::lock_guard lock(books_->mutex);
  SequenceState& state = books_->at(sequence);
  const std::int64_t slots = static_cast<std::int64_t>(state.blocks.size()) * books_->shape.block_size;
  if (tokens < 0 || tokens > slots - state.length) {
    throw Error("append(" + std::to_string(tokens) + ") to a sequence of " + std::to_string(state.length) +
                " tokens in " + std::to_string(slots) + " slots of the KV cache " + books_->shape.name +
                "; give 0 or more, and give_blocks() first");
  }
  if (tokens == 0) {
    return;
  }
  const std::int64_t length = state.length + tokens;
  const auto first = static_cast<std::size_t>(state.length / books_->shape.block_size);
  const std::size_t end = books_->blocks_of(length);
  for (std::size_t i = first; i < end; ++i) {
    if (books_->blocks[state.blocks[i]].holders > 1) {
      throw Error("block " + std::to_string(state.blocks[i]) + " of the KV cache " + books_->shape.name +
                  " is shared and cannot be written; replace_block() it first");
    }
  }
  for (std::size_t i = first; i < end; ++i) {
    books_->set_written(books_->blocks[state.blocks[i]], books_->written_in(i, length));
  }
  state.length = length;
  books_->tokens += tokens;
}

KvCacheTracker::Sequence KvCacheTracker::share(Sequence from, std::int64_t tokens) {
  const std::lock_guard lock(books_->mutex);
  const SequenceState& origin = books_->at(from);
  if (tokens < 0 || tokens > origin.length) {
    throw Error("share() of " + std::to_string(tokens) + " tokens: the sequence has " + std::to_string(origin.length));
  }
  const std::size_t count = books_->blocks_of(tokens);
  std::vector<std::uint32_t> blocks(origin.blocks.begin(), origin.blocks.begin() + static_cast<std::ptrdiff_t>(count));
  auto [number, state] = books_->add();
  state.blocks = std::move(blocks);
  state.length = tokens;
  std::ranges::for_each(state.blocks, [this](std::uint32_t block) { books_->hold(block); });
  books_->tokens += tokens;
  return number;
}

void KvCacheTracker::replace_block(Sequence sequence, std::size_t index, std::uint32_t block) {
  const std::lock_guard lock(books_->mutex);
  SequenceState& state = books_->at(sequence);
  if (index >= state.blocks.size()) {
    throw Error("replace_block(" + std::to_string(index) + "): the sequence has " +
                std::to_string(state.blocks.size()) + " blocks, from 0 on");
  }
  books_->check_free(block);
  books_->hold(block);
  books_->set_written(books_->blocks[block], books_->written_in(index, state.length));
  books_->let_go(std::exchange(state.blocks[index], block));
}

void KvCacheTracker::truncate(Sequence sequence, std::int64_t tokens) {
  const std::lock_guard lock(books_->mutex);
  SequenceState& state = books_->at(sequence);
  if (tokens < 0 || tokens > state.length) {
    throw Error("truncate() to " + std::to_string(tokens) + " tokens: the sequence has " +
                std::to_string(state.length));
  }
  for (std::size_t i = static_cast<std::size_t>(tokens / books_->shape.block_size); i < books_->blocks_of(state.length);
       ++i) {
    // What a shared block holds, others may still read.
    if (Block& block = books_->blocks[state.blocks[i]]; block.holders == 1) {
      books_->set_written(block, books_->written_in(i, tokens));
    }
  }
  books_->tokens -= state.length - tokens;
  state.length = tokens;
}

void KvCacheTracker::free_sequence(Sequence sequence) {
  const std::lock_guard lock(books_->mutex);
  SequenceState& state = books_->at(sequence);
  std::ranges::for_each(state.blocks, [this](std::uint32_t block) { books_->let_go(block); });
  books_->tokens -= std::exchange(state.length, 0);
  state.blocks = {};
  state.alive = false;
  --books_->alive;
  if (++state.generation != 0) {
    books_->free_places.push_back(place_of(sequence));
  }
}

std::int64_t KvCacheTracker::length(Sequence sequence) const {
  const std::lock_guard lock(books_->mutex);
  return books_->at(sequence).length;
}

KvCacheUse KvCacheTracker::use() const {
  const std::lock_guard lock(books_->mutex);
  return books_->use();
}

}  // namespace headscope
