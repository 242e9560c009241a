// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/channel_norm.hpp>
#include <krama/nn/detail/batch_statistics.hpp>
#include <krama/nn/layer.hpp>

namespace krama::nn {

/// BatchNorm (Ioffe and Szegedy 2015, arXiv:1502.03167) of (samples, …, channels): each channel is
/// normalised over all samples and positions,
/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias. In training with the biased variance of
/// the micro-batch, of all ranks together when `synchronised`: counts are the true ones, a rank
/// without samples takes part, and every rank uses the same bits. Ranks must then have equally many
/// micro-batches. Statistics see every sample, also those whose loss has weight 0.
///
/// In evaluation with `running_mean` and `running_var`, which are buffers: a step replaces them once
/// by (1 - momentum) old + momentum new, with the statistics of its last micro-batch and the unbiased
/// variance, as PyTorch does. Not synchronised, they are those of the first rank that has samples.
///
/// Saves the input, and each channel's mean and 1/sqrt(variance + epsilon).
struct BatchNorm {
  std::int64_t channels = 0;
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool synchronised = true;

  static constexpr std::string_view type_name = "batch_norm";
  static constexpr Saves saves = Saves::input;
  static constexpr int rank = 2;

  [[nodiscard]] bool meets_ranks() const { return synchronised; }
  [[nodiscard]] Shape out(const Shape& in) const {
    KRAMA_EXPECTS(in.rank() >= 2 && in[-1] == channels,
                  "batch_norm: the input must be (samples, …, channels) with {} channels, found {}",
                  channels, to_string(in));
    return in;
  }
  void params(ParamSpec& spec) const {
    KRAMA_EXPECTS(channels > 0, "batch_norm: channels must be positive, not {}", channels);
    KRAMA_EXPECTS(epsilon > 0.0, "batch_norm: epsilon must be positive, not {}", epsilon);
    KRAMA_EXPECTS(momentum >= 0.0 && momentum <= 1.0,
                  "batch_norm: momentum must be in [0, 1], found {}", momentum);
    spec("weight", {channels}, Init::ones(), {.decay = false});
    spec("bias", {channels}, Init::zeros(), {.decay = false});
    spec("running_mean", {channels}, Init::zeros(), {.buffer = true});
    spec("running_var", {channels}, Init::ones(), {.buffer = true});
  }
  template <class T>
  void stash(StashSpec& spec, const Shape& /*in*/) const {
    spec.add<accum_t<T>>(2 * channels);  // means, then reciprocal deviations
  }
  template <class T>
  void scratch(ScratchSpec& spec, const Shape& in) const {
    const kernels::ChannelRows n{1, in.size() / channels, channels};
    spec.add<double>(kernels::channel_results(n));
    spec.add<double>(kernels::channel_scratch(n));
    spec.add<accum_t<T>>(3 * channels);
  }

  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 2, D> x, Ref<T, 2, D> y) const {
    using A = accum_t<T>;
    constexpr const char* label = "krama::nn::batch_norm::forward";
    const kernels::ChannelRows n{1, x.extent(0), channels};
    A* mean = ctx.template slot<A, 1>(0, {2 * channels}).data();
    const A* running_mean = ctx.template buffer<1>(2).data();
    const A* running_var = ctx.template buffer<1>(3).data();
    if (ctx.is_training()) {
      auto* moments = ctx.template scratch<double>(0);
      kernels::channel_moments(ctx.exec(), label, n, x.data(), moments,
                               ctx.template scratch<double>(1));
      double count = static_cast<double>(n.rows);
      if (auto* group = group_of(ctx)) {
        count = detail::join_moments<D>(ctx.exec(), *group, ctx.name() + ": batch statistics",
                                        count, {moments, {2 * channels}});
      }
      if (count == 0.0) return;
      // All ranks know the count, so all of them stop here or none.
      KRAMA_EXPECTS(count > 1.0,
                    "batch_norm \"{}\": a channel with {} values in the whole micro-batch has no "
                    "variance; use larger micro-batches, or drop a last one of a single sample",
                    ctx.name(), count);
      kokkos_ext::launch(
          ctx.exec(), label, channels,
          detail::BatchStatistics<A>{moments, running_mean, running_var, mean, mean + channels,
                                     ctx.template next<1>(2).data(), ctx.template next<1>(3).data(),
                                     channels, count, epsilon, momentum});
    } else {
      kokkos_ext::launch(
          ctx.exec(), label, channels,
          detail::RunningStatistics<A>{running_mean, running_var, mean, mean + channels, epsilon});
    }
    kernels::channel_affine(ctx.exec(), label, n, x.data(), ctx.template param<1>(0).data(),
                            ctx.template param<1>(1).data(), mean, mean + channels, y.data());
  }

  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<BatchNorm, D, T>& saved,
                Ref<const T, 2, D> dy, Ref<T, 2, D> dx) const {
    using A = accum_t<T>;
    constexpr const char* label = "krama::nn::batch_norm::backward";
    const kernels::ChannelRows n{1, dy.extent(0), channels};
    const A* mean = ctx.template slot<A, 1>(0, {2 * channels}).data();
    auto* sums = ctx.template scratch<double>(0);
    kernels::channel_sums(ctx.exec(), label, n, saved.x.data(), dy.data(), mean, mean + channels,
                          sums, ctx.template scratch<double>(1));
    // Of this rank alone: the step sums parameters' gradients over the ranks.
    kernels::channel_param_grads<A>(ctx.exec(), label, n, sums, ctx.template grad<1>(0).data(),
                                    ctx.template grad<1>(1).data());
    if (dx.null()) return;
    // In evaluation the statistics are constants: nothing flows back through them.
    double count = 0.0;
    if (ctx.is_training()) {
      count = static_cast<double>(n.rows);
      if (auto* group = group_of(ctx)) {
        count = detail::join_sums<D>(ctx.exec(), *group, ctx.name() + ": batch gradients", count,
                                     {sums, {2 * channels}});
      }
    }
    A* factors = ctx.template scratch<A>(2);
    kokkos_ext::launch(ctx.exec(), label, channels,
                       detail::BatchFactors<T>{sums, ctx.template param<1>(0).data(),
                                               mean + channels, factors, channels, count});
    kernels::channel_backward(ctx.exec(), label, n, saved.x.data(), dy.data(), mean,
                              mean + channels, factors, dx.data());
  }

 private:
  template <Device D, class T>
  [[nodiscard]] Collective* group_of(const Context<D, T>& ctx) const {
    return synchronised ? ctx.group() : nullptr;
  }
};

}  // namespace krama::nn
