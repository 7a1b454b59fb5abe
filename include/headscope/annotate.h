#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headscope/export.h"

namespace headscope {

/// Names the layer of the attention calls that this thread makes during the scope's life.
/// The innermost scope wins. The name is copied; the scope belongs to the thread that made it.
class HEADSCOPE_EXPORT LayerScope {
 public:
  [[nodiscard]] explicit LayerScope(std::string_view name);
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;
  ~LayerScope();
};

/// What is known of a layer before it runs; for bindings that hook modules.
struct LayerInfo {
  std::string name;
  /// Order among the attention modules of the model.
  std::optional<std::int64_t> index;
  /// Query heads of the module: splits the batch × heads axis of 3-D products.
  std::optional<std::int64_t> heads;
  /// Key/value heads of the model (its keys may be repeated before the op sees them).
  std::optional<std::int64_t> model_kv_heads;
  /// Keys and values come from another sequence.
  bool cross = false;

  friend bool operator==(const LayerInfo&, const LayerInfo&) = default;
};

/// Registers a layer once, so that entering it costs no string. Equal infos give equal handles.
HEADSCOPE_EXPORT std::uint32_t intern_layer(const LayerInfo& info);
/// Enters and leaves an interned layer on this thread; what LayerScope does.
HEADSCOPE_EXPORT void push_layer(std::uint32_t layer) noexcept;
HEADSCOPE_EXPORT void pop_layer() noexcept;

/// Axis order of an op's query, key and value.
enum class Layout : std::uint8_t {
  kBHSD,  ///< [batch, heads, sequence, dim]: torch's scaled_dot_product_attention
  kBSHD,  ///< [batch, sequence, heads, dim]: flash-attn
  kTHD,   ///< [tokens, heads, dim]: packed sequences with cumulative lengths
  kHSD,   ///< [batch × heads, sequence, dim]
};

/// Tells headscope how to read an attention op that it does not know.
struct AttentionOpSpec {
  /// Qualified name, with the overload after a dot where it has one: "my_lib::attention".
  std::string op;
  /// The `variant` that reports show.
  std::string variant;
  Layout layout = Layout::kBHSD;
  /// Names of schema arguments.
  std::string query = "query";
  std::string key = "key";
  std::string value = "value";
  std::optional<std::string> mask;
  /// A bool argument.
  std::optional<std::string> causal;
  /// True: the last query sees the last key (flash-attn). False: the first sees the first (torch).
  bool causal_lower_right = false;
  /// Int arguments: how far a query sees to each side; negative is unlimited.
  std::optional<std::string> window_left;
  std::optional<std::string> window_right;
  /// Int tensors of cumulative lengths, one more than sequences.
  std::optional<std::string> cu_seqlens_q;
  std::optional<std::string> cu_seqlens_k;
  /// Int tensor of used key lengths, one a sequence.
  std::optional<std::string> seqused_k;
  /// Page table of a paged cache; key and value are then [pages, page size, kv heads, dim].
  std::optional<std::string> block_table;
  bool backward = false;

  friend bool operator==(const AttentionOpSpec&, const AttentionOpSpec&) = default;
};

/// Profiles calls of `spec.op`, whether it is defined already or later. Registering the same spec
/// again has no effect. Throws Error when the name is malformed, when the op is known under another
/// spec, when it is defined and its schema lacks a named argument, or when it cannot be hooked
/// (it has a BackendSelect kernel of its own, or is composite).
HEADSCOPE_EXPORT void register_attention_op(const AttentionOpSpec& spec);

}  // namespace headscope
