#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "capture/eager_shapes.h"
#include "capture/eager_work.h"
#include "capture/tensor_view.h"
#include "records/attention_call.h"

namespace headscope::capture {

/// A product that may prove to be QKᵀ, dP, or a further product of an open chain.
struct EagerProduct {
  bool open = false;
  /// Taken as a further product of a chain, or of a forward pass that is over: only its storage can make it QKᵀ.
  bool by_storage_only = false;
  std::uint64_t sequence = 0;
  /// Softmaxes and softmax backwards before it.
  std::uint64_t epoch = 0;
  ProductShape shape;
  StorageId a = 0;
  StorageId b = 0;
  StorageId out = 0;
  TensorView left;
  TensorView right;
  std::uint64_t out_bytes = 0;
  records::DType dtype = records::DType::kOther;
  records::Device device;
  bool inside_backward = false;
  std::uint64_t newest_node = 0;
  EagerWork work;
};

/// QKᵀ and its softmax, waiting for PV.
struct EagerChain {
  bool open = false;
  std::uint64_t softmax_sequence = 0;
  EagerProduct product;
  ScoreLayout layout;
  StorageId probabilities = 0;
  std::uint32_t label = 0;  ///< of the layer in which the softmax ran

  [[nodiscard]] EagerWork& work() noexcept { return product.work; }
};

/// Storages of the operands of a forward that had further products; its backward has two for each.
struct ExtraOperands {
  static constexpr std::size_t kMax = 8;

  StorageId probabilities = 0;
  std::array<StorageId, kMax> storages{};
  std::size_t count = 0;
  int products = 0;

  void add(StorageId storage) noexcept {
    if (count < kMax && storage != 0) {
      storages[count++] = storage;
    }
  }
  [[nodiscard]] bool has(StorageId storage) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (storages[i] == storage) {
        return true;
      }
    }
    return false;
  }
};

/// A softmax backward with the products found around it.
struct EagerBackward {
  bool open = false;
  ProductShape scores;  ///< of QKᵀ; inner 0 where it is not known
  ScoreLayout layout;
  std::int64_t head_dim = 0;    ///< 0: not known
  std::int64_t head_dim_v = 0;  ///< 0: not known
  /// Operand that dQ and dK share, once one of them was seen.
  StorageId score_gradient = 0;
  /// The backwards of further products that are still expected.
  int extra_left = 0;
  ExtraOperands extra;
  records::Operand q, k, v, out;
  records::Gradients gradients{false, false, false};
  /// dQ or dK read the very storage that the softmax backward wrote.
  bool proven = false;
  std::uint64_t product_flops = 0;
  std::uint64_t extra_flops = 0;
  bool forward_known = false;
  bool detail = false;
  std::uint64_t forward_call_id = 0;
  records::LayerRef layer;
  records::Geometry forward_geometry;
  records::DType dtype = records::DType::kOther;
  records::Device device;
  std::uint32_t element_size = 0;
  StorageId probabilities = 0;
  EagerWork work;
};

}  // namespace headscope::capture
