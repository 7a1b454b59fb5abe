#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "capture/copy_ring.h"
#include "capture/eager_chain.h"
#include "capture/eager_work.h"
#include "capture/tensor_view.h"
#include "records/attention_call.h"

namespace headscope::capture {

/// bmm or baddbmm: out[n,M,N] = a[n,M,K] @ b[n,K,N] (+ `addend`).
struct ProductEvent {
  TensorView a, b, out;
  OpSpan span;
  bool inside_backward = false;
  std::uint64_t newest_node = 0;  ///< of the thread's autograd graphs
};

/// A softmax; `dim` counted from the front.
struct SoftmaxEvent {
  TensorView in, out;
  int dim = 0;
  OpSpan span;
  bool inside_backward = false;
  std::uint32_t label = 0;  ///< innermost layer of the thread
};

/// _softmax_backward_data(grad_output, output) → grad_input.
struct SoftmaxBackwardEvent {
  TensorView grad_out, output, grad_in;
  int dim = 0;
  OpSpan span;
  /// The forward call that saved `output`, when one is known.
  bool forward_known = false;
  std::uint64_t forward_call_id = 0;
  records::LayerRef forward_layer;
  records::Geometry forward_geometry;
};

/// An elementwise op, copy or concatenation that Eager::kDetail hooks.
struct ElementwiseEvent {
  enum class Kind : std::uint8_t {
    kArithmetic,  ///< mul, div, tanh, dropout, casts: no pair is masked by it
    kAdd,         ///< one operand may be an additive mask or bias
    kMaskedFill,  ///< `other` is True where masked
    kWhere,       ///< `other` is True where kept
    kCopy,        ///< clone, copy_, contiguous, index_select, cat
  };
  Kind kind = Kind::kArithmetic;
  /// The first tensor that is no mask. Of kWhere and kAdd the larger one, where sizes differ; of kWhere
  /// `other` must be True where `in` is kept.
  TensorView in;
  TensorView other;  ///< the second tensor or the mask; dims 0 and storage 0 when there is none
  TensorView out;
  OpSpan span;
};

/// What the recogniser found an elementwise op to be.
enum class ElementwiseRole : std::uint8_t {
  kNone,      ///< no part of an open chain
  kChain,     ///< reads or writes the chain's scores or probabilities
  kMask,      ///< the same, and `other` (kAdd, kMaskedFill, kWhere) masks pairs: count it and call set_mask
  kKeyValue,  ///< copies a tensor whose heads are broadcast, as GQA expands K and V
  kMaskCopy,  ///< builds a floating-point mask from a bool one
};

/// Recognises attention written as QKᵀ → softmax → PV, and its backward, from the ops of one thread.
/// Feed only the outermost op: what an op that was fed calls below itself is part of it.
///
/// A product whose output a softmax over its last axis reads, and whose probabilities a second product
/// takes as its first operand, is one call. Steps are linked by storage where it is the same, else by
/// shape and order (a scaled copy of the scores has another storage); shapes must agree in both cases.
/// A softmax may run over one more column than the product has (attention sinks). Between the product
/// and the softmax, further products belong to the chain when they share an operand's storage with it,
/// or have its batch, its inner size and a row for each query or key (DeBERTa's position scores); so do
/// products just before it with a row for each query and another number of columns (Conformer's).
/// A softmax that fits no product, and products without a softmax, are no attention; nor is a product
/// of inner size 1 (rotary angles).
///
/// Not recognised: K·Qᵀ with a softmax over its last axis but one, Vᵀ·Pᵀ, products of other rank than 3,
/// a backward in which neither Q nor K needs a gradient (no softmax backward runs; dV alone is no sign), nor one
/// whose forward is not known if it shows just one of dQ and dK and no storage proves that one.
///
/// Without detail a mask is never seen: it may be added in place, which leaves no trace. The mask of such
/// chains is kUnseen. With detail it is kNone, or what set_mask says, as long as each step was linked by
/// storage, else kUnseen. A backward's mask is kUnseen: its forward has it.
///
/// No allocation, no lock; keeps no tensor.
class EagerRecogniser {
 public:
  /// A finished chain. Filled: geometry (score_layout in eager_shapes.h says where heads come from; of a
  /// backward the forward's, where it is known), device, dtype, operands q, k, v, out, kv_overlap_bytes,
  /// mask fields as set, extra_product_flops, product_flops and gradients (backward), materialized, times
  /// (glue −1 unless detail), allocated, peak and score bytes, direction, inside_backward, has_dropout false.
  ///
  /// `peak_bytes` is the largest of (an op's own peak + the score-sized tensors of the chain that it reads):
  /// at least so much is allocated at once, beyond the operands. `materialized.traffic_bytes` holds the
  /// copies of K, V and masks too, each written once and read once; out-of-place masked_fill counts as the
  /// copy and the fill that ATen makes of it.
  struct Finished {
    records::AttentionCall call;
    /// Storage of the softmax's output, which autograd saves for the backward.
    StorageId probabilities = 0;
    /// The newest autograd node at QKᵀ.
    std::uint64_t first_node = 0;
  };

  /// With `detail`, all elementwise ops are reported too, and `materialized` is exact where every step was
  /// linked by storage and no score-sized tensor came from elsewhere (the mask of a dropout). Chains that are
  /// open keep what they began with.
  void set_detail(bool detail) noexcept { detail_ = detail; }

  /// The forward or backward chain that `event` completes, if it does.
  std::optional<Finished> on_product(const ProductEvent& event) noexcept;
  void on_softmax(const SoftmaxEvent& event) noexcept;
  /// Opens a backward chain around the products before and after it, if dP was seen or the forward is
  /// known. Returns the backward chain that was still open (one with frozen inputs has fewer products
  /// and ends only here or at flush).
  std::optional<Finished> on_softmax_backward(const SoftmaxBackwardEvent& event) noexcept;
  /// The forward chain inside a backward pass that made `event.output` and stopped before PV, if one did.
  /// Ask before on_softmax_backward. Its layer has the label of the softmax.
  std::optional<Finished> take_scores(const SoftmaxBackwardEvent& event) noexcept;
  /// The same of a composite op that began at `start_ns` and raised.
  std::optional<Finished> take_scores_since(std::int64_t start_ns) noexcept;
  ElementwiseRole on_elementwise(const ElementwiseEvent& event) noexcept;

  /// Says what the mask of the last kMask verdict admits. A second mask that admits less than all pairs
  /// makes the chain's mask kOpaque, since the intersection is not known.
  void set_mask(records::MaskState state, std::shared_ptr<const records::MaskCount> count,
                std::uint64_t stored_bytes) noexcept;

  /// Bytes of the copies through which K or V of a fused op came about (GQA expansion, layout, upcast), as
  /// far as detail showed them. Each copy is handed out once.
  std::uint64_t take_kv_copies(const TensorView& operand) noexcept {
    return copies_.take(operand, CopyRing::kKeyValueSteps);
  }
  /// The same for the mask of a fused op that was built from another one.
  std::uint64_t take_mask_copy(const TensorView& mask) noexcept { return copies_.take(mask, CopyRing::kMaskSteps); }

  /// The backward chain that is still open, if any; forgets everything else and counts softmaxes that
  /// never met their second product.
  std::optional<Finished> flush() noexcept;

  /// Chains that reached the softmax and no second product.
  [[nodiscard]] std::uint64_t unfinished() const noexcept { return unfinished_; }

 private:
  /// DeBERTa has three products before its softmax; two attentions may be interleaved.
  static constexpr std::size_t kProducts = 8;
  static constexpr std::size_t kChains = 4;
  /// Layers whose backward may be outstanding.
  static constexpr std::size_t kExtraForwards = 32;

  EagerProduct* find_scores(const TensorView& scores, bool inside_backward, bool with_siblings,
                            ScoreLayout& layout) noexcept;
  EagerChain& free_chain() noexcept;
  EagerChain* chain_by_storage(const ProductEvent& event, const ProductShape& shape) noexcept;
  EagerChain* chain_by_shape(const ProductEvent& event, const ProductShape& shape) noexcept;
  void remember(const ProductEvent& event, const ProductShape& shape) noexcept;
  std::optional<Finished> finish_forward(EagerChain& chain, const ProductEvent& values,
                                         const ProductShape& shape) noexcept;
  Finished finish_scores(EagerChain& chain, std::int64_t head_dim_v) noexcept;
  std::uint64_t absorb_extra_products(EagerChain& chain) noexcept;

  /// True when the product belongs to the open backward chain.
  bool join_backward(const ProductEvent& event, const ProductShape& shape) noexcept;
  bool join_query_gradient(const ProductEvent& event, const ProductShape& shape) noexcept;
  bool join_key_gradient(const ProductEvent& event, const ProductShape& shape) noexcept;
  bool join_extra_gradient(const ProductEvent& event, const ProductShape& shape) noexcept;
  void open_backward(const SoftmaxBackwardEvent& event, EagerProduct* probability_gradient,
                     const ScoreLayout& layout) noexcept;
  void take_value_gradient(const EagerProduct& probability_gradient, StorageId probabilities) noexcept;
  [[nodiscard]] bool backward_complete() const noexcept;
  std::optional<Finished> finish_backward() noexcept;

  /// Books an elementwise op of an open chain; true when it may apply a mask.
  static bool book(EagerWork& work, const ElementwiseEvent& event, bool other_is_scores) noexcept;
  ElementwiseRole on_score_op(EagerProduct& product, const ElementwiseEvent& event, bool other_is_scores) noexcept;
  ElementwiseRole on_other_op(const ElementwiseEvent& event) noexcept;

  bool detail_ = false;
  std::uint64_t sequence_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t unfinished_ = 0;
  std::size_t open_chains_ = 0;
  std::size_t next_product_ = 0;
  std::size_t next_extra_ = 0;
  std::array<EagerProduct, kProducts> products_{};
  std::array<EagerChain, kChains> chains_{};
  std::array<ExtraOperands, kExtraForwards> extra_forwards_{};
  EagerBackward backward_;
  CopyRing copies_;
  /// The product whose scores the last kMask verdict was about.
  EagerProduct* masked_ = nullptr;
};

}  // namespace headscope::capture
