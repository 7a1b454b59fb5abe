#include "model/memory_parts.h"

#include <algorithm>
#include <cstdint>

#include "model/facts.h"

namespace headscope::model {
namespace {

std::int64_t bytes_of(const records::Operand& operand) noexcept {
  return static_cast<std::int64_t>(operand.elements) * operand.element_size;
}

}  // namespace

records::MemoryParts memory_parts(const records::AttentionCall& call) noexcept {
  records::MemoryParts parts;
  if (call.peak_bytes < 0) {
    return parts;
  }
  parts.score_matrix = std::max<std::int64_t>(call.score_bytes, 0);
  if (call.found) {
    parts.kv_copy = call.found->kv_copies;
    parts.mask = call.found->masks;
    parts.upcast = call.found->upcasts;
  }
  if (is_backward(call)) {
    parts.gradient = (call.gradients.q ? bytes_of(call.q) : 0) + (call.gradients.k ? bytes_of(call.k) : 0) +
                     (call.gradients.v ? bytes_of(call.v) : 0);
  } else {
    parts.output = bytes_of(call.out);
  }
  const std::int64_t told =
      parts.score_matrix + parts.kv_copy + parts.mask + parts.upcast + parts.gradient + parts.output;
  parts.workspace = std::max<std::int64_t>(call.peak_bytes - told, 0);
  return parts;
}

}  // namespace headscope::model
