// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <krama/core/error.hpp>
#include <krama/core/extents.hpp>
#include <krama/definitions.hpp>

namespace krama::train {

/// Text as a language model sees it: sample i is the window of `context` bytes from byte
/// i * context, its targets are the bytes one place later. Windows do not overlap.
class TextSource {
 public:
  using input_type = std::int32_t;
  using target_type = std::int32_t;

  TextSource(std::vector<std::uint8_t> text, std::int64_t context, std::string name = "text");

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(text_.size()); }
  [[nodiscard]] std::int64_t size() const { return (bytes() - 1) / context_; }
  [[nodiscard]] Shape input_shape() const { return {context_}; }
  [[nodiscard]] std::int64_t targets_per_sample() const { return context_; }
  [[nodiscard]] std::int64_t rows_per_sample() const { return context_; }

  void fetch(std::span<const std::int64_t> ids, std::span<std::int32_t> x,
             std::span<std::int32_t> y, std::span<float> weights) const;

 private:
  std::vector<std::uint8_t> text_;
  std::int64_t context_;
  std::string name_;
};

/// Rows of a matrix with a class label each, for example images as pixels. Labels are checked when a
/// batch is put together, in every build.
class LabelledRows {
 public:
  using input_type = float;
  using target_type = std::int32_t;

  /// `rows` holds labels.size() rows of `features` numbers.
  LabelledRows(std::vector<float> rows, std::vector<std::int32_t> labels, std::int64_t features,
               std::int32_t classes, std::string name = "rows");

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  [[nodiscard]] Shape input_shape() const { return {features_}; }
  [[nodiscard]] std::int64_t targets_per_sample() const { return 1; }
  [[nodiscard]] std::int64_t rows_per_sample() const { return 1; }

  void fetch(std::span<const std::int64_t> ids, std::span<float> x, std::span<std::int32_t> y,
             std::span<float> weights) const;

 private:
  std::vector<float> rows_;
  std::vector<std::int32_t> labels_;
  std::int64_t features_;
  std::int32_t classes_;
  std::string name_;
};

/// A user's own host-accessible Views as a data source, without a copy: inputs (samples, features)
/// and one label a sample.
template <class Inputs, class Labels>
class ViewSource {
 public:
  using input_type = typename Inputs::non_const_value_type;
  using target_type = std::int32_t;
  static_assert(Inputs::rank() == 2 && Labels::rank() == 1,
                "ViewSource: inputs have rank 2 (samples, features), labels rank 1");
  static_assert(
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Inputs::memory_space>::accessible,
      "ViewSource: the Views must be readable by the host; copy them there first");

  ViewSource(Inputs inputs, Labels labels, std::int32_t classes)
      : inputs_(std::move(inputs)), labels_(std::move(labels)), classes_(classes) {
    KRAMA_EXPECTS(inputs_.extent(0) == labels_.extent(0), "{} samples have {} labels",
                  inputs_.extent(0), labels_.extent(0));
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(labels_.extent(0)); }
  [[nodiscard]] Shape input_shape() const { return {static_cast<std::int64_t>(inputs_.extent(1))}; }
  [[nodiscard]] std::int64_t targets_per_sample() const { return 1; }
  [[nodiscard]] std::int64_t rows_per_sample() const { return 1; }

  void fetch(std::span<const std::int64_t> ids, std::span<input_type> x, std::span<std::int32_t> y,
             std::span<float> weights) const {
    std::size_t at = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
      KRAMA_EXPECTS(ids[k] >= 0 && ids[k] < size(),
                    "View \"{}\": sample {} does not exist; there are {}", labels_.label(), ids[k],
                    size());
      const auto id = static_cast<std::size_t>(ids[k]);
      const auto label = static_cast<std::int64_t>(labels_(id));
      KRAMA_EXPECTS(label >= 0 && label < classes_,
                    "View \"{}\": label of sample {} is {}; wanted 0 to {}", labels_.label(), id,
                    label, classes_ - 1);
      for (std::size_t j = 0; j < inputs_.extent(1); ++j) x[at++] = inputs_(id, j);
      y[k] = static_cast<std::int32_t>(label);
      weights[k] = 1.0F;
    }
  }

 private:
  Inputs inputs_;
  Labels labels_;
  std::int32_t classes_;
};

}  // namespace krama::train

#if KRAMA_DEFINITIONS

namespace krama::train {

KRAMA_INLINE TextSource::TextSource(std::vector<std::uint8_t> text, std::int64_t context,
                                    std::string name)
    : text_(std::move(text)), context_(context), name_(std::move(name)) {
  KRAMA_EXPECTS(context > 0, "the context must be positive, not {}", context);
  KRAMA_EXPECTS(bytes() > context, "{}: {} bytes are fewer than one context of {} and a target",
                name_, bytes(), context);
}

KRAMA_INLINE void TextSource::fetch(std::span<const std::int64_t> ids, std::span<std::int32_t> x,
                                    std::span<std::int32_t> y, std::span<float> weights) const {
  std::size_t at = 0;
  for (const auto id : ids) {
    KRAMA_EXPECTS(id >= 0 && id < size(), "{}: sample {} does not exist; there are {}", name_, id,
                  size());
    const auto begin = static_cast<std::size_t>(id * context_);
    for (std::size_t t = 0; t < static_cast<std::size_t>(context_); ++t, ++at) {
      x[at] = text_[begin + t];
      y[at] = text_[begin + t + 1];
      weights[at] = 1.0F;
    }
  }
}

KRAMA_INLINE LabelledRows::LabelledRows(std::vector<float> rows, std::vector<std::int32_t> labels,
                                        std::int64_t features, std::int32_t classes,
                                        std::string name)
    : rows_(std::move(rows)),
      labels_(std::move(labels)),
      features_(features),
      classes_(classes),
      name_(std::move(name)) {
  KRAMA_EXPECTS(static_cast<std::int64_t>(rows_.size()) == size() * features,
                "{}: {} numbers are not {} rows of {}", name_, rows_.size(), size(), features);
}

KRAMA_INLINE void LabelledRows::fetch(std::span<const std::int64_t> ids, std::span<float> x,
                                      std::span<std::int32_t> y, std::span<float> weights) const {
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const auto id = static_cast<std::size_t>(ids[k]);
    KRAMA_EXPECTS(ids[k] >= 0 && ids[k] < size(), "{}: sample {} does not exist; there are {}",
                  name_, ids[k], size());
    KRAMA_EXPECTS(labels_[id] >= 0 && labels_[id] < classes_,
                  "{}: label of sample {} is {}; wanted 0 to {}", name_, id, labels_[id],
                  classes_ - 1);
    const auto n = static_cast<std::size_t>(features_);
    std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(id * n), n,
                x.begin() + static_cast<std::ptrdiff_t>(k * n));
    y[k] = labels_[id];
    weights[k] = 1.0F;
  }
}

}  // namespace krama::train

#endif  // KRAMA_DEFINITIONS
