// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/core/extents.hpp>
#include <krama/io/labelled_images.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace krama::bench {

/// Grey images with labels, and each of them moved by up to `reach` pixels each way: sample i is image
/// i modulo their number, moved in the way that the quotient says. Pixels are brought to mean 0 and
/// deviation 1 by MNIST's own (0.1307 and 0.3081); what moves in is black.
class ShiftedImages {
 public:
  using input_type = float;
  using target_type = std::int32_t;

  /// Of `all`, every tenth image (the last of each ten) if `held_out`, else the others.
  ShiftedImages(const io::LabelledImages& all, bool held_out, std::int64_t reach)
      : rows_(all.rows), columns_(all.cols), reach_(reach) {
    for (std::int64_t i = 0; i < all.count; ++i) {
      if ((i % 10 == 9) != held_out) continue;
      const auto first = all.pixels.begin() + i * rows_ * columns_;
      pixels_.insert(pixels_.end(), first, first + rows_ * columns_);
      labels_.push_back(all.labels[static_cast<std::size_t>(i)]);
    }
  }

  [[nodiscard]] std::int64_t images() const { return static_cast<std::int64_t>(labels_.size()); }
  [[nodiscard]] std::int64_t size() const { return images() * ways() * ways(); }
  [[nodiscard]] Shape input_shape() const { return {rows_, columns_, 1}; }
  [[nodiscard]] std::int64_t targets_per_sample() const { return 1; }
  [[nodiscard]] std::int64_t rows_per_sample() const { return 1; }
  [[nodiscard]] std::int32_t label(std::int64_t id) const {
    return labels_[static_cast<std::size_t>(id % images())];
  }

  void fetch(std::span<const std::int64_t> ids, std::span<float> x, std::span<std::int32_t> y,
             std::span<float> weights) const {
    std::size_t at = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const std::int64_t image = ids[k] % images();
      const std::int64_t way = ids[k] / images();
      const std::int64_t down = way / ways() - reach_, right = way % ways() - reach_;
      for (std::int64_t r = 0; r < rows_; ++r) {
        for (std::int64_t c = 0; c < columns_; ++c) {
          x[at++] = (pixel(image, r - down, c - right) / 255.0F - 0.1307F) / 0.3081F;
        }
      }
      y[k] = label(ids[k]);
      weights[k] = 1.0F;
    }
  }

 private:
  [[nodiscard]] std::int64_t ways() const { return 2 * reach_ + 1; }
  [[nodiscard]] float pixel(std::int64_t image, std::int64_t r, std::int64_t c) const {
    if (r < 0 || r >= rows_ || c < 0 || c >= columns_) return 0.0F;
    return pixels_[static_cast<std::size_t>((image * rows_ + r) * columns_ + c)];
  }

  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t reach_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace krama::bench
