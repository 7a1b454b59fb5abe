#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <optional>

#include "capture/tensor_view.h"
#include "capture/torch/tensor_reader.h"

namespace headscope::capture::torch {

/// A storage by its address, which no other storage takes while this is held. The data is freed as ever: only
/// the small StorageImpl stays allocated.
class WeakStorage {
 public:
  WeakStorage() = default;
  /// Of a readable tensor.
  explicit WeakStorage(const at::Tensor& tensor)
      : id_(storage_of(tensor)), hold_(tensor.storage().getWeakStorageImpl()) {}

  /// 0: none.
  [[nodiscard]] StorageId id() const noexcept { return id_; }
  /// Some tensor still uses it.
  [[nodiscard]] bool alive() const noexcept { return hold_ && !hold_->expired(); }

 private:
  StorageId id_ = 0;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> hold_;
};

/// The last storages that some kind of op wrote or read: equal StorageIds mean the same storage for as long as it is
/// here.
template <std::size_t kStorages>
class StorageKeeper {
 public:
  void keep(const at::Tensor& tensor) { storages_[next_++ % kStorages] = WeakStorage(tensor); }
  [[nodiscard]] WeakStorage find(StorageId id) const {
    for (const WeakStorage& storage : storages_) {
      if (storage.id() == id) {
        return storage;
      }
    }
    return {};
  }

 private:
  std::array<WeakStorage, kStorages> storages_;
  std::size_t next_ = 0;
};

}  // namespace headscope::capture::torch
