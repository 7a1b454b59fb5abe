#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "capture/eager_recogniser.h"

/// Builders of what the recogniser sees of a program: `Program{}.product(t({8, 5, 3}, 1), …).softmax(…)`.
namespace headscope::capture::test {

/// An fp32 tensor at storage `id`, contiguous.
inline TensorView t(std::initializer_list<std::int64_t> sizes, StorageId id) {
  TensorView view;
  view.storage = id;
  view.element_size = 4;
  view.dtype = records::DType::kFloat32;
  for (const std::int64_t size : sizes) {
    view.sizes[static_cast<std::size_t>(view.dims++)] = size;
  }
  std::int64_t stride = 1;
  for (int axis = view.dims - 1; axis >= 0; --axis) {
    view.strides[static_cast<std::size_t>(axis)] = stride;
    stride *= view.sizes[static_cast<std::size_t>(axis)];
  }
  return view;
}

inline TensorView strided(std::initializer_list<std::int64_t> sizes, std::initializer_list<std::int64_t> strides,
                          StorageId id, std::int64_t offset = 0) {
  TensorView view = t(sizes, id);
  std::size_t axis = 0;
  for (const std::int64_t stride : strides) {
    view.strides[axis++] = stride;
  }
  view.offset = offset;
  return view;
}

/// [n, rows, columns] seen as [n, columns, rows].
inline TensorView turned(std::int64_t n, std::int64_t rows, std::int64_t columns, StorageId id) {
  return strided({n, columns, rows}, {rows * columns, 1, columns}, id);
}

inline TensorView boolean(TensorView view) {
  view.element_size = 1;
  view.dtype = records::DType::kOther;
  return view;
}

inline TensorView half(TensorView view) {
  view.element_size = 2;
  view.dtype = records::DType::kBFloat16;
  return view;
}

/// Feeds a recogniser; each op takes 10 ns, and 5 ns pass between ops.
class Program {
 public:
  using Kind = ElementwiseEvent::Kind;

  explicit Program(bool detail = false) { recogniser.set_detail(detail); }

  /// Memory that the next op measures.
  Program& memory(std::int64_t allocated, std::int64_t peak) { return allocated_ = allocated, peak_ = peak, *this; }

  Program& product(const TensorView& a, const TensorView& b, const TensorView& out) {
    keep(recogniser.on_product({a, b, out, span(), inside_backward_}));
    return *this;
  }
  /// What follows runs inside a backward pass.
  Program& enter_backward() { return inside_backward_ = true, *this; }
  Program& leave_backward() { return inside_backward_ = false, *this; }
  Program& softmax(const TensorView& in, const TensorView& out) { return softmax(in, out, in.dims - 1); }
  Program& softmax(const TensorView& in, const TensorView& out, int dim) {
    recogniser.on_softmax({in, out, dim, span(), inside_backward_});
    return *this;
  }
  Program& softmax_backward(const TensorView& grad_out, const TensorView& output, const TensorView& grad_in) {
    SoftmaxBackwardEvent event;
    event.grad_out = grad_out;
    event.output = output;
    event.grad_in = grad_in;
    event.dim = grad_out.dims - 1;
    event.span = span();
    return softmax_backward(event);
  }
  Program& softmax_backward(const SoftmaxBackwardEvent& event) {
    keep(recogniser.on_softmax_backward(event));
    return *this;
  }
  Program& op(Kind kind, const TensorView& in, const TensorView& out, const TensorView& other = {}) {
    role = recogniser.on_elementwise({kind, in, other, out, span()});
    return *this;
  }
  Program& mask(records::MaskState state, std::uint64_t pairs, std::uint64_t bytes) {
    auto count = std::make_shared<records::MaskCount>();
    count->pairs = pairs;
    recogniser.set_mask(state, state == records::MaskState::kCounted ? std::move(count) : nullptr, bytes);
    return *this;
  }
  Program& flush() {
    keep(recogniser.flush());
    return *this;
  }

  [[nodiscard]] std::size_t calls() const { return finished.size(); }
  [[nodiscard]] const records::AttentionCall& call(std::size_t index = 0) const { return finished.at(index).call; }

  EagerRecogniser recogniser;
  ElementwiseRole role = ElementwiseRole::kNone;
  std::vector<EagerRecogniser::Finished> finished;

 private:
  OpSpan span() {
    OpSpan span{clock_, clock_ + 10, allocated_, peak_};
    clock_ += 15;
    allocated_ = peak_ = -1;
    return span;
  }
  void keep(std::optional<EagerRecogniser::Finished> result) {
    if (result) {
      finished.push_back(std::move(*result));
    }
  }

  std::int64_t clock_ = 1000;
  bool inside_backward_ = false;
  std::int64_t allocated_ = -1;
  std::int64_t peak_ = -1;
};

}  // namespace headscope::capture::test
