// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/channel_norm.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

namespace detail {

/// One item: a group of an image. Mean and 1/sqrt(variance + epsilon) of the group, written for each
/// of its channels.
template <class A>
struct GroupStatistics {
  const double* moments;  ///< (images, 2, channels)
  A* mean;                ///< (images, channels)
  A* rstd;
  std::int64_t rows;
  std::int64_t channels;
  std::int64_t groups;
  double epsilon;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t image = i / groups;
    const std::int64_t each = channels / groups;
    const std::int64_t first = i % groups * each;
    const double* m = moments + image * 2 * channels + first;
    double average = 0.0;
    for (std::int64_t c = 0; c < each; ++c) average += m[c];
    average /= static_cast<double>(each);
    double m2 = 0.0;
    for (std::int64_t c = 0; c < each; ++c) {
      const double d = m[c] - average;
      m2 += m[channels + c] + static_cast<double>(rows) * d * d;
    }
    const double variance = m2 / static_cast<double>(rows * each);
    const A s = static_cast<A>(1.0 / Kokkos::sqrt(variance + epsilon));
    for (std::int64_t c = first; c < first + each; ++c) {
      mean[image * channels + c] = static_cast<A>(average);
      rstd[image * channels + c] = s;
    }
  }
};

/// With g = dy gamma and m elements in a group: a = rstd gamma, b = rstd sum(g xhat) / m and
/// d = rstd sum(g) / m.
template <class T>
struct GroupFactors {
  using A = accum_t<T>;
  const double* sums;  ///< (images, 2, channels)
  const T* gamma;
  const A* rstd;
  A* factors;  ///< (images, 3, channels)
  std::int64_t rows;
  std::int64_t channels;
  std::int64_t groups;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t image = i / groups;
    const std::int64_t each = channels / groups;
    const std::int64_t first = i % groups * each;
    const double* s = sums + image * 2 * channels + first;
    double plain = 0.0;
    double times = 0.0;
    for (std::int64_t c = 0; c < each; ++c) {
      const auto scale = static_cast<double>(static_cast<A>(gamma[first + c]));
      plain += s[c] * scale;
      times += s[channels + c] * scale;
    }
    const double m = static_cast<double>(rows * each);
    for (std::int64_t c = first; c < first + each; ++c) {
      const A r = rstd[image * channels + c];
      A* f = factors + image * 3 * channels + c;
      f[0] = r * static_cast<A>(gamma[c]);
      f[channels] = static_cast<A>(static_cast<double>(r) * times / m);
      f[2 * channels] = static_cast<A>(static_cast<double>(r) * plain / m);
    }
  }
};

}  // namespace detail

/// GroupNorm (Wu and He 2018, arXiv:1803.08494) of (images, …, channels): the channels are cut into
/// `groups` runs of equal length, and each image's run is normalised over all its positions:
/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with the biased variance and one weight
/// and bias a channel. One group is LayerNorm over the image, as many groups as channels is
/// InstanceNorm. Images do not meet each other, so nothing depends on how a batch is split.
/// Saves the input, and mean and 1/sqrt(variance + epsilon) for each image and channel.
struct GroupNorm {
  std::int64_t groups = 1;
  std::int64_t channels = 0;
  double epsilon = 1e-5;

  static constexpr std::string_view type_name = "group_norm";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 2;

  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() >= 2 && in[-1] == channels,
                  "group_norm: the input must be (images, …, channels) with {} channels, found {}",
                  channels, to_string(in));
    return in;
  }
  void params(ParamSpec& spec) const {
    KRAMA_EXPECTS(channels > 0 && groups > 0 && channels % groups == 0,
                  "group_norm: {} channels cannot be cut into {} groups of equal length", channels,
                  groups);
    KRAMA_EXPECTS(epsilon > 0.0, "group_norm: epsilon must be positive, not {}", epsilon);
    spec("weight", {channels}, Init::ones(), {.decay = false});
    spec("bias", {channels}, Init::zeros(), {.decay = false});
  }
  template <class T>
  void stash(StashSpec& spec, const Shape& in) const {
    spec.add<accum_t<T>>(
        kernels::channel_results(cut(in.size(), in[0])));  // means, then 1/deviations
  }
  template <class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    const auto n = cut(in.size(), in[0]);
    spec.add<double>(kernels::channel_results(n));
    spec.add<double>(kernels::channel_scratch(n));
    spec.add<accum_t<T>>(checked_product(3 * n.segments, n.channels));
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 2, D> x, Ref<T, 2, D> y) const {
    using A = accum_t<T>;
    constexpr const char* label = "krama::nn::group_norm::forward";
    const auto n = cut(x.size(), ctx.batch().samples);
    const std::int64_t each = n.segments * channels;
    A* mean = ctx.template slot<A, 1>(0, {2 * each}).data();
    auto* moments = ctx.template scratch<double>(0);
    kernels::channel_moments(ctx.exec(), label, n, x.data(), moments,
                             ctx.template scratch<double>(1));
    kokkos_ext::launch(
        ctx.exec(), label, n.segments * groups,
        detail::GroupStatistics<A>{moments, mean, mean + each, n.rows, channels, groups, epsilon});
    kernels::channel_affine(ctx.exec(), label, n, x.data(), ctx.template param<1>(0).data(),
                            ctx.template param<1>(1).data(), mean, mean + each, y.data());
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<GroupNorm, D, T>& saved,
                Ref<const T, 2, D> dy, Ref<T, 2, D> dx) const {
    using A = accum_t<T>;
    constexpr const char* label = "krama::nn::group_norm::backward";
    const auto n = cut(dy.size(), ctx.batch().samples);
    const std::int64_t each = n.segments * channels;
    const A* mean = ctx.template slot<A, 1>(0, {2 * each}).data();
    auto* sums = ctx.template scratch<double>(0);
    kernels::channel_sums(ctx.exec(), label, n, saved.x.data(), dy.data(), mean, mean + each, sums,
                          ctx.template scratch<double>(1));
    kernels::channel_param_grads<A>(ctx.exec(), label, n, sums, ctx.template grad<1>(0).data(),
                                    ctx.template grad<1>(1).data());
    if (dx.null()) return;
    A* factors = ctx.template scratch<A>(2);
    kokkos_ext::launch(ctx.exec(), label, n.segments * groups,
                       detail::GroupFactors<T>{sums, ctx.template param<1>(0).data(), mean + each,
                                               factors, n.rows, channels, groups});
    kernels::channel_backward(ctx.exec(), label, n, saved.x.data(), dy.data(), mean, mean + each,
                              factors, dx.data());
  }

 private:
  [[nodiscard]] kernels::ChannelRows cut(std::int64_t elements, std::int64_t images) const {
    if (images == 0) return {0, 0, channels};
    KRAMA_EXPECTS(elements % (images * channels) == 0,
                  "group_norm: {} elements do not divide into {} images of {} channels", elements,
                  images, channels);
    return {images, elements / (images * channels), channels};
  }
};

}  // namespace krama::nn
