// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/conv_sizes.hpp>
#include <krama/kernels/detail/onednn.hpp>

#if KRAMA_HAS_ONEDNN
#include <array>

/// What a convolution of oneDNN depends on, and one that is ready to run.
namespace krama::kernels::detail {

enum class ConvPass : std::uint8_t { forward, input_grad, weight_grad };

/// Everything that a primitive depends on.
struct DnnlConvKey {
  std::array<std::int64_t, 16> sizes;
  std::int32_t threads;
  dnnl_data_type_t type;
  ConvPass pass;
  bool bias;
  bool operator==(const DnnlConvKey&) const = default;

  static DnnlConvKey of(const ConvSizes& s, int threads, dnnl_data_type_t type, ConvPass pass,
                        bool bias) {
    const auto& w = s.window;
    return {{w.images, w.in_h, w.in_w, w.out_h, w.out_w, w.kernel.h, w.kernel.w, w.stride.h,
             w.stride.w, w.padding.h, w.padding.w, w.dilation.h, w.dilation.w, s.in_channels,
             s.out_channels, s.groups},
            threads,
            type,
            pass,
            bias};
  }
};
struct DnnlConvKeyHash {
  std::size_t operator()(const DnnlConvKey& k) const {
    std::uint64_t h = 0x9E3779B97F4A7C15U;
    const auto mix = [&h](std::int64_t v) {
      h = (h ^ static_cast<std::uint64_t>(v)) * 0xD6E8FEB86659FD93U;
      h ^= h >> 32;
    };
    for (const auto v : k.sizes) mix(v);
    mix(k.threads | static_cast<std::int64_t>(k.type) << 32);
    mix(static_cast<std::int64_t>(k.pass) << 1 | (k.bias ? 1 : 0));
    return static_cast<std::size_t>(h);
  }
};

/// A ready pass. `x`, `w`, `y` stand for the tensors of these names or their gradients.
struct DnnlConv {
  ConvPass pass = ConvPass::forward;
  DnnlPrimitive conv;
  DnnlPrimitive turn;  ///< of weights: before the primitive, of weight_grad after it (and added)
  DnnlMemory x, w, packed, bias, y;

  void run(dnnl_stream_t stream, const void* px, const void* pw, const void* pbias, const void* py,
           void* scratch) const {
    const auto point = [](const DnnlMemory& m, const void* p) {
      if (m) dnnl_memory_set_data_handle(m.get(), const_cast<void*>(p));
    };
    point(x, px);
    point(w, pw);
    point(bias, pbias);
    point(y, py);
    point(packed, turn ? scratch : pw);
    const bool forward = pass == ConvPass::forward;
    const bool to_weights = pass == ConvPass::weight_grad;
    if (turn && !to_weights) execute(turn, stream, w, packed);
    const dnnl_exec_arg_t args[4] = {
        {pass == ConvPass::input_grad ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, x.get()},
        {to_weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, packed.get()},
        {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, y.get()},
        {DNNL_ARG_BIAS, bias.get()}};
    dnnl_check(dnnl_primitive_execute(conv.get(), stream, bias ? 4 : 3, args), "convolution");
    if (turn && to_weights) execute(turn, stream, packed, w);
  }

 private:
  static void execute(const DnnlPrimitive& p, dnnl_stream_t stream, const DnnlMemory& from,
                      const DnnlMemory& to) {
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
    dnnl_check(dnnl_primitive_execute(p.get(), stream, 2, args), "turning weights");
  }
};

}  // namespace krama::kernels::detail
#endif
