#include "timeline/trace/nest_scan.h"

#include <bit>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace headscope::timeline::trace {
namespace {

constexpr std::ptrdiff_t kBlock = 64;

/// Which bytes of a block are what, a bit a byte.
struct BlockMasks {
  std::uint64_t quotes = 0;
  std::uint64_t backslashes = 0;
  std::uint64_t opens = 0;   // { [
  std::uint64_t closes = 0;  // } ]
};

/// { and [, and } and ], differ in this bit only.
constexpr char kCurly = 0x20;

#ifdef __SSE2__

BlockMasks masks_of(const char* text) noexcept {
  BlockMasks masks;
  const auto bits = [](__m128i equal, int shift) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm_movemask_epi8(equal))) << shift;
  };
  for (int part = 0; part < kBlock; part += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + part));
    const __m128i curled = _mm_or_si128(bytes, _mm_set1_epi8(kCurly));
    masks.quotes |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')), part);
    masks.backslashes |= bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')), part);
    masks.opens |= bits(_mm_cmpeq_epi8(curled, _mm_set1_epi8('{')), part);
    masks.closes |= bits(_mm_cmpeq_epi8(curled, _mm_set1_epi8('}')), part);
  }
  return masks;
}

#else

BlockMasks masks_of(const char* text) noexcept {
  BlockMasks masks;
  for (int i = 0; i < kBlock; ++i) {
    const char byte = text[i];
    const char curled = static_cast<char>(byte | kCurly);
    masks.quotes |= std::uint64_t{byte == '"'} << i;
    masks.backslashes |= std::uint64_t{byte == '\\'} << i;
    masks.opens |= std::uint64_t{curled == '{'} << i;
    masks.closes |= std::uint64_t{curled == '}'} << i;
  }
  return masks;
}

#endif

/// Bit i of the result: whether an odd number of the bits 0..i is set.
std::uint64_t parity_so_far(std::uint64_t bits) noexcept {
  for (int shift = 1; shift < kBlock; shift *= 2) {
    bits ^= bits << shift;
  }
  return bits;
}

/// Bytes that follow a backslash which is not itself escaped. `carry`: that the byte before the block was one, and
/// then whether its last byte is.
std::uint64_t escaped_bytes(std::uint64_t backslashes, bool& carry) noexcept {
  std::uint64_t escaped = carry ? 1 : 0;
  backslashes &= ~escaped;
  carry = false;
  while (backslashes != 0) {
    const int at = std::countr_zero(backslashes);
    if (at == kBlock - 1) {
      carry = true;
      break;
    }
    const std::uint64_t next = std::uint64_t{2} << at;
    escaped |= next;
    backslashes &= ~(next | (next >> 1));
  }
  return escaped;
}

}  // namespace

const char* NestScan::advance(const char* text, const char* end, bool last) noexcept {
  while (end - text >= kBlock || (last && text < end)) {
    BlockMasks masks = masks_of(text);
    const std::ptrdiff_t count = end - text < kBlock ? end - text : kBlock;
    if (count < kBlock) {
      const std::uint64_t valid = (std::uint64_t{1} << count) - 1;
      masks = {masks.quotes & valid, masks.backslashes & valid, masks.opens & valid, masks.closes & valid};
    }
    if (masks.backslashes != 0 || escaped_) {
      masks.quotes &= ~escaped_bytes(masks.backslashes, escaped_);
    }
    const std::uint64_t inside = parity_so_far(masks.quotes) ^ inside_string_;
    const std::uint64_t opens = masks.opens & ~inside;
    const std::uint64_t closes = masks.closes & ~inside;
    for (std::uint64_t brackets = opens | closes; brackets != 0; brackets &= brackets - 1) {
      const std::uint64_t lowest = brackets & (0 - brackets);
      depth_ += (opens & lowest) != 0 ? 1 : -1;
      if (depth_ == 0) {
        return text + std::countr_zero(brackets) + 1;
      }
    }
    inside_string_ = 0 - (inside >> (kBlock - 1));
    text += count;
  }
  stopped_ = text;
  return nullptr;
}

}  // namespace headscope::timeline::trace
