#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/eager_recogniser.h"
#include "headscope/annotate.h"
#include "records/attention_call.h"

namespace headscope::capture {

/// What a hooked op is to attention.
enum class OpRole : std::uint8_t {
  kComposite,  ///< scaled_dot_product_attention: its arguments explain the op that runs inside
  kFusedForward,
  kFusedBackward,
  kNativeMha,  ///< attention between projections, inputs [batch, sequence, embedding]
  kProduct,
  kSoftmax,
  kSoftmaxBackward,
  kElementwise,  ///< hooked for Eager::kDetail only
};

/// What an argument means, whatever a schema calls it.
enum class Arg : std::uint8_t {
  kQuery,
  kKey,
  kValue,
  kMask,
  kCausal,    ///< bool, or an integer that is not 0
  kMaskType,  ///< int: 0 none, 1 causal upper-left, 2 causal lower-right
  kWindowLeft,
  kWindowRight,
  kWindow,  ///< int (how far back) or a pair of ints
  kCuSeqlensQ,
  kCuSeqlensK,
  kSequsedK,
  kBlockTable,
  kDropout,
  kEnableGqa,
  kSavedOut,  ///< a backward's saved output
  kSavedLogsumexp,
  kNumHeads,
  kEmbedDim,
  kLeft,  ///< of a product
  kRight,
  kInput,  ///< of a softmax or an elementwise op
  kOther,
  kGradOut,
  kDim,
  kScale,
  kSoftcap,
  kAlibi,
  kCount,
};
inline constexpr std::size_t kArgCount = static_cast<std::size_t>(Arg::kCount);

/// One hooked op. Stable address.
struct OpEntry {
  records::OpInfo info;
  OpRole role = OpRole::kFusedForward;
  Layout layout = Layout::kBHSD;
  bool causal_lower_right = false;
  /// The op works on cached keys that are not among its arguments.
  bool hidden_cache = false;
  ElementwiseEvent::Kind elementwise = ElementwiseEvent::Kind::kArithmetic;
  /// Looked at only where it changes the dtype.
  bool only_casts = false;
  /// Names given by register_attention_op; an empty one stands for no such argument.
  std::array<std::string, kArgCount> names;
  bool names_given = false;
};

/// The ops known without registration.
std::span<const OpEntry> known_ops();

/// Schema names that stand for `arg` in `entry`, the first that a schema has wins.
std::vector<std::string_view> argument_names(const OpEntry& entry, Arg arg);

/// The entry that `spec` describes. Throws Error for a malformed name, variant or argument name.
OpEntry entry_of(const AttentionOpSpec& spec);

}  // namespace headscope::capture
