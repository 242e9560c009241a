// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include <krama/core/random.hpp>
#include <krama/kernels/conv.hpp>

#if KRAMA_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

/// Convolutions as the benchmark sees them, the naive sums for checks, and oneDNN called directly.
namespace krama::bench {

enum class Pass { forward, input_grad, weight_grad };

struct ConvProblem {
  std::string name;
  kernels::ConvSizes sizes;
  Pass pass = Pass::forward;

  [[nodiscard]] std::int64_t x_size() const { return sizes.window.in_pixels() * sizes.in_channels; }
  [[nodiscard]] std::int64_t y_size() const { return sizes.window.places() * sizes.out_channels; }
  [[nodiscard]] std::int64_t w_size() const { return sizes.out_channels * sizes.depth(); }
  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(y_size()) * static_cast<double>(sizes.depth());
  }
};

/// Tensors with channels innermost; whichever the pass makes is overwritten.
struct ConvData {
  explicit ConvData(const ConvProblem& p) {
    const auto fill = [](std::vector<float>& v, std::int64_t size, std::uint32_t stream) {
      v.resize(static_cast<std::size_t>(size));
      for (std::size_t i = 0; i < v.size(); ++i) v[i] = 2.0F * uniform({1, stream, 0}, i) - 1.0F;
    };
    fill(x, p.x_size(), 1);
    fill(w, p.w_size(), 2);
    fill(y, p.y_size(), 3);
    scratch.resize(static_cast<std::size_t>(
        kernels::conv_scratch<Kokkos::DefaultHostExecutionSpace, float>(p.sizes) + 1));
  }
  std::vector<float>& made(Pass pass) {
    return pass == Pass::forward ? y : (pass == Pass::input_grad ? x : w);
  }
  std::vector<float> x, w, y, scratch;
};

/// Largest error over the sum of magnitudes behind an element, of some hundred elements; gradients of
/// weights were added to 1.
inline double error_of(const ConvProblem& p, const ConvData& d) {
  const auto& s = p.sizes;
  const auto& k = s.window;
  const std::int64_t elements = p.pass == Pass::forward      ? p.y_size()
                                : p.pass == Pass::input_grad ? p.x_size()
                                                             : p.w_size();
  const std::int64_t step = elements / 200 * 2 + 1;
  double worst = 0;
  for (std::int64_t e = 0; e < elements; e += step) {
    double want = p.pass == Pass::weight_grad ? 1.0 : 0.0;
    double magnitude = want;
    const auto add = [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t o,
                         std::int64_t kh, std::int64_t kw, std::int64_t c) {
      const std::int64_t ih = k.in_row(oh, kh);
      const std::int64_t iw = k.in_column(ow, kw);
      if (ih < 0 || ih >= k.in_h || iw < 0 || iw >= k.in_w) return;
      const auto xi =
          ((n * k.in_h + ih) * k.in_w + iw) * s.in_channels + o / s.group_out() * s.group_in() + c;
      const auto yi = ((n * k.out_h + oh) * k.out_w + ow) * s.out_channels + o;
      const auto wi = ((o * k.kernel.h + kh) * k.kernel.w + kw) * s.group_in() + c;
      const auto at = [](const std::vector<float>& v, std::int64_t i) {
        return static_cast<double>(v[static_cast<std::size_t>(i)]);
      };
      const double product = p.pass == Pass::forward      ? at(d.x, xi) * at(d.w, wi)
                             : p.pass == Pass::input_grad ? at(d.y, yi) * at(d.w, wi)
                                                          : at(d.y, yi) * at(d.x, xi);
      want += product;
      magnitude += std::abs(product);
    };
    float got = 0;
    if (p.pass == Pass::weight_grad) {
      const std::int64_t c = e % s.group_in();
      const std::int64_t kw = e / s.group_in() % k.kernel.w;
      const std::int64_t kh = e / s.group_in() / k.kernel.w % k.kernel.h;
      for (std::int64_t q = 0; q < k.places(); ++q) {
        add(q / k.out_w / k.out_h, q / k.out_w % k.out_h, q % k.out_w, e / s.depth(), kh, kw, c);
      }
      got = d.w[static_cast<std::size_t>(e)];
    } else {
      const bool forward = p.pass == Pass::forward;
      const std::int64_t channels = forward ? s.out_channels : s.in_channels;
      const std::int64_t width = forward ? k.out_w : k.in_w;
      const std::int64_t height = forward ? k.out_h : k.in_h;
      const std::int64_t q = e / channels;
      const std::int64_t n = q / width / height;
      for (std::int64_t kh = 0; kh < k.kernel.h; ++kh) {
        for (std::int64_t kw = 0; kw < k.kernel.w; ++kw) {
          if (forward) {
            for (std::int64_t c = 0; c < s.group_in(); ++c) {
              add(n, q / width % height, q % width, e % channels, kh, kw, c);
            }
            continue;
          }
          const std::int64_t oh = k.out_row(q / width % height, kh);
          const std::int64_t ow = k.out_column(q % width, kw);
          if (oh < 0 || ow < 0) continue;
          const std::int64_t g = e % channels / s.group_in();
          for (std::int64_t o = g * s.group_out(); o < (g + 1) * s.group_out(); ++o) {
            add(n, oh, ow, o, kh, kw, e % channels % s.group_in());
          }
        }
      }
      got = forward ? d.y[static_cast<std::size_t>(e)] : d.x[static_cast<std::size_t>(e)];
    }
    const double error = std::abs(static_cast<double>(got) - want) / std::max(magnitude, 1e-3);
    worst = std::isnan(error) ? error : std::max(worst, error);
    if (std::isnan(worst)) break;
  }
  return worst;
}

#if KRAMA_HAS_ONEDNN
/// oneDNN as a user calls it who has all tensors in the layouts that it likes best: nothing is turned
/// while it is timed. `take` and `give` copy between these and ConvData.
class DirectConv {
 public:
  DirectConv(const ConvProblem& p, ConvData& d)
      : pass_(p.pass), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    const auto& s = p.sizes;
    const auto& k = s.window;
    const auto f32 = memory::data_type::f32;
    const memory::dims x = {k.images, s.in_channels, k.in_h, k.in_w};
    const memory::dims y = {k.images, s.out_channels, k.out_h, k.out_w};
    const bool one = s.groups == 1;
    const memory::dims w =
        one ? memory::dims{s.out_channels, s.in_channels, k.kernel.h, k.kernel.w}
            : memory::dims{s.groups, s.group_out(), s.group_in(), k.kernel.h, k.kernel.w};
    const auto plain_w = one ? memory::format_tag::ohwi : memory::format_tag::gohwi;
    user_[0] = memory({x, f32, memory::format_tag::nhwc}, engine_, d.x.data());
    user_[1] = memory({w, f32, plain_w}, engine_, d.w.data());
    user_[2] = memory({y, f32, memory::format_tag::nhwc}, engine_, d.y.data());
    const auto any = [](const memory::dims& dims) {
      return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    };
    const memory::dims stride = {k.stride.h, k.stride.w};
    const memory::dims between = {k.dilation.h - 1, k.dilation.w - 1};
    const memory::dims padding = {k.padding.h, k.padding.w};
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto kind = pass_ == Pass::forward ? dnnl::prop_kind::forward_inference
                                             : dnnl::prop_kind::forward_training;
    const dnnl::convolution_forward::primitive_desc hint(engine_, kind, direct, any(x), any(w),
                                                         any(y), stride, between, padding, padding);
    if (pass_ == Pass::forward) {
      primitive_ = dnnl::convolution_forward(hint);
      best(hint.src_desc(), hint.weights_desc(), hint.dst_desc());
    } else if (pass_ == Pass::input_grad) {
      const dnnl::convolution_backward_data::primitive_desc pd(
          engine_, direct, any(x), any(w), any(y), stride, between, padding, padding, hint);
      primitive_ = dnnl::convolution_backward_data(pd);
      best(pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc());
    } else {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          engine_, direct, any(x), any(w), any(y), stride, between, padding, padding, hint);
      primitive_ = dnnl::convolution_backward_weights(pd);
      best(pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc());
    }
    const bool to_x = pass_ == Pass::input_grad;
    const bool to_w = pass_ == Pass::weight_grad;
    args_ = {{to_x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, best_[0]},
             {to_w ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, best_[1]},
             {pass_ == Pass::forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, best_[2]}};
    for (std::size_t i = 0; i < 3; ++i) turn(user_[i], best_[i]);
  }
  void operator()() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }
  /// What was made, to ConvData.
  void give() {
    const std::size_t i = pass_ == Pass::forward ? 2 : (pass_ == Pass::input_grad ? 0 : 1);
    turn(best_[i], user_[i]);
  }

 private:
  void best(const dnnl::memory::desc& x, const dnnl::memory::desc& w, const dnnl::memory::desc& y) {
    best_[0] = dnnl::memory(x, engine_);
    best_[1] = dnnl::memory(w, engine_);
    best_[2] = dnnl::memory(y, engine_);
  }
  void turn(dnnl::memory& from, dnnl::memory& to) {
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
  }
  Pass pass_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  dnnl::memory user_[3], best_[3];
  std::unordered_map<int, dnnl::memory> args_;
};
#endif

}  // namespace krama::bench
