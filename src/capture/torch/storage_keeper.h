#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <optional>

namespace headscope::capture::torch {

/// Keeps the addresses of the last storages that hooked ops wrote from being used again, so that equal
/// StorageIds mean the same storage. Holds weak references: a storage's data is freed as ever.
class StorageKeeper {
 public:
  void keep(const at::Tensor& tensor) { storages_[next_++ % kStorages] = tensor.storage().getWeakStorageImpl(); }

 private:
  /// More than the ops that the recogniser looks back on.
  static constexpr std::size_t kStorages = 64;

  std::array<std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>>, kStorages> storages_;
  std::size_t next_ = 0;
};

}  // namespace headscope::capture::torch
