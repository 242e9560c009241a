// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <krama/kokkos_ext/seam.hpp>
#include <krama/memory/tier.hpp>
#include <krama/tensor/tensor.hpp>

namespace krama {

/// Something of every parameter of a model (values, gradients, moments): in near memory `M`, or in a
/// far tier of the host, where host code can work on it all the same. Copies share the memory. Near
/// memory is not initialised, far memory is zero.
template <class U, MemorySpace M>
class FlatArray {
 public:
  FlatArray() = default;
  /// In near memory where `far` says nothing.
  /// \throws OutOfMemory; TierError where the far tier has no room; Error for devices whose memory
  /// the host cannot address: they keep parameters in near memory
  template <ExecutionSpace E>
  FlatArray(const E& exec, const std::string& label, std::int64_t size,
            const std::optional<TierOptions>& far = {})
      : size_(size) {
    if (!far) {
      near_ = Tensor<U, 1, M>(exec, label, {size});
      data_ = near_.data();
      return;
    }
    constexpr bool host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, M>::accessible &&
                          !kokkos_ext::StandIn<E>::active;
    KRAMA_EXPECTS(host,
                  "\"{}\" cannot lie in far memory: only hosts work on it, and this is {}; keep "
                  "the parameters of such a rank in near memory",
                  label, E::name());
    far_ = std::make_shared<FileTier>(
        far->folder, checked_product(size, static_cast<std::int64_t>(sizeof(U))), far->calls);
    data_ = reinterpret_cast<U*>(far_->map());
  }

  [[nodiscard]] U* data() const { return data_; }
  [[nodiscard]] TensorRef<U, 1, M> ref() const { return {data_, {size_}}; }
  [[nodiscard]] TensorRef<const U, 1, M> cref() const { return {data_, {size_}}; }
  /// Null in near memory.
  [[nodiscard]] const FileTier* file() const { return far_.get(); }

 private:
  Tensor<U, 1, M> near_;
  std::shared_ptr<FileTier> far_;
  U* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace krama
