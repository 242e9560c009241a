// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/onednn_conv.hpp>

#if KRAMA_HAS_ONEDNN
#include <algorithm>
#include <string_view>
#include <unordered_map>
#endif

/// oneDNN's convolutions behind the door. Images stay as they are (channels innermost); weights are
/// turned to the layout that the primitive asks for and back, in the layer's scratch. Primitives are
/// made once per problem and kept per host thread; their own scratch memory is oneDNN's, one piece
/// for all primitives of a thread.
namespace krama::kernels::detail {

/// oneDNN takes f32 and the half types.
template <class T>
inline constexpr bool conv_onednn_takes =
#if KRAMA_HAS_ONEDNN
    !std::is_same_v<T, double>;
#else
    false;
#endif

/// Elements of accum_t<T> for weights in the layout of a library, with channels (or groups) filled up
/// to the widest blocks in use. Does not depend on the batch.
inline std::int64_t packed_weights(const ConvSizes& s) {
  constexpr std::int64_t block = 64;
  const auto up = [](std::int64_t n) { return (n + block - 1) / block * block; };
  const std::int64_t channels =
      s.depthwise()
          ? checked_product(up(s.groups), s.group_out())
          : checked_product(s.groups, checked_product(up(s.group_out()), up(s.group_in())));
  return checked_product(s.window.taps(), channels);
}

#if KRAMA_HAS_ONEDNN

/// One host thread's convolutions.
class DnnlConvCache {
 public:
  /// Null when oneDNN has no fast implementation.
  DnnlConv* find(const DnnlConvKey& key, const ConvSizes& s) {
    const auto [at, is_new] = convs_.try_emplace(key);
    if (is_new) at->second = make(key, s);
    return at->second.get();
  }
  [[nodiscard]] dnnl_stream_t stream() const { return engine_.stream(); }

 private:
  static DnnlDesc desc(std::initializer_list<std::int64_t> extents, dnnl_data_type_t type,
                       dnnl_format_tag_t tag) {
    dnnl_dims_t dims = {};
    std::copy(extents.begin(), extents.end(), dims);
    dnnl_memory_desc_t d = nullptr;
    dnnl_check(
        dnnl_memory_desc_create_with_tag(&d, static_cast<int>(extents.size()), dims, type, tag),
        "describing a tensor");
    return DnnlDesc(d);
  }
  static DnnlDesc weights(const ConvSizes& s, dnnl_data_type_t type, bool any) {
    const auto& k = s.window.kernel;
    if (s.groups == 1) {
      return desc({s.out_channels, s.in_channels, k.h, k.w}, type,
                  any ? dnnl_format_tag_any : dnnl_ohwi);
    }
    return desc({s.groups, s.group_out(), s.group_in(), k.h, k.w}, type,
                any ? dnnl_format_tag_any : dnnl_gohwi);
  }

  /// Null where there is none.
  [[nodiscard]] DnnlPd describe(const DnnlConvKey& key, const ConvSizes& s,
                                const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t bias,
                                const_dnnl_memory_desc_t y) const {
    const auto& k = s.window;
    const dnnl_dims_t stride = {k.stride.h, k.stride.w};
    const dnnl_dims_t between = {k.dilation.h - 1, k.dilation.w - 1};
    const dnnl_dims_t padding = {k.padding.h, k.padding.w};
    const DnnlAttr attr = DnnlEngine::strict_attributes();
    const auto direct = dnnl_convolution_direct;
    const bool forward = key.pass == ConvPass::forward;
    const DnnlDesc w = weights(s, key.type, true);
    dnnl_primitive_desc_t raw = nullptr;
    dnnl_status_t status = dnnl_convolution_forward_primitive_desc_create(
        &raw, engine_.get(), forward ? dnnl_forward_inference : dnnl_forward_training, direct, x,
        w.get(), bias, y, stride, between, padding, padding, attr.get());
    if (status == dnnl_success && !forward) {
      const DnnlPd hint(raw);
      raw = nullptr;
      if (key.pass == ConvPass::input_grad) {
        status = dnnl_convolution_backward_data_primitive_desc_create(
            &raw, engine_.get(), direct, x, w.get(), y, stride, between, padding, padding,
            hint.get(), attr.get());
      } else {
        const DnnlDesc dw = weights(s, dnnl_f32, true);
        status = dnnl_convolution_backward_weights_primitive_desc_create(
            &raw, engine_.get(), direct, x, dw.get(), nullptr, y, stride, between, padding, padding,
            hint.get(), attr.get());
      }
    }
    if (status == dnnl_unimplemented) return nullptr;
    dnnl_check(status, "describing a convolution");
    return DnnlPd(raw);
  }
  static bool is_slow(const DnnlPd& pd) {
    const char* name = "";
    dnnl_check(dnnl_primitive_desc_query(pd.get(), dnnl_query_impl_info_str, 0, &name),
               "asking for an implementation's name");
    return std::string_view(name).starts_with("ref");
  }

  std::unique_ptr<DnnlConv> make(const DnnlConvKey& key, const ConvSizes& s) const {
    const auto& k = s.window;
    const bool to_weights = key.pass == ConvPass::weight_grad;
    const DnnlDesc x = desc({k.images, s.in_channels, k.in_h, k.in_w}, key.type, dnnl_nhwc);
    const DnnlDesc y = desc({k.images, s.out_channels, k.out_h, k.out_w}, key.type, dnnl_nhwc);
    const DnnlDesc w = weights(s, to_weights ? dnnl_f32 : key.type, false);
    const DnnlDesc bias = key.bias ? desc({s.out_channels}, key.type, dnnl_a) : nullptr;
    const DnnlPd pd = describe(key, s, x.get(), bias.get(), y.get());
    if (!pd || is_slow(pd)) return nullptr;
    const const_dnnl_memory_desc_t best = dnnl_primitive_desc_query_md(
        pd.get(), to_weights ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    const auto room = static_cast<std::size_t>(packed_weights(s)) * sizeof(float);
    if (dnnl_memory_desc_get_size(best) > room) return nullptr;

    auto result = std::make_unique<DnnlConv>();
    result->pass = key.pass;
    result->conv = DnnlEngine::primitive(pd, "making a convolution");
    result->x = engine_.memory(x.get());
    result->y = engine_.memory(y.get());
    result->w = engine_.memory(w.get());
    result->packed = engine_.memory(best);
    if (bias) result->bias = engine_.memory(bias.get());
    if (to_weights) {
      result->turn = turn(best, w.get(), true);
    } else if (dnnl_memory_desc_equal(best, w.get()) == 0) {
      result->turn = turn(w.get(), best, false);
    }
    return result;
  }

  [[nodiscard]] DnnlPrimitive turn(const_dnnl_memory_desc_t from, const_dnnl_memory_desc_t to,
                                   bool add) const {
    const DnnlAttr attr = DnnlEngine::strict_attributes();
    const DnnlPostOps ops = DnnlEngine::post_ops();
    if (add) {
      dnnl_check(dnnl_post_ops_append_sum(ops.get(), 1.0F, 0, dnnl_data_type_undef),
                 "appending a sum");
    }
    dnnl_check(dnnl_primitive_attr_set_post_ops(attr.get(), ops.get()), "setting post-ops");
    dnnl_primitive_desc_t raw = nullptr;
    dnnl_check(dnnl_reorder_primitive_desc_create(&raw, from, engine_.get(), to, engine_.get(),
                                                  attr.get()),
               "describing a reorder");
    const DnnlPd pd(raw);
    return DnnlEngine::primitive(pd, "making a reorder");
  }

  DnnlEngine engine_;
  std::unordered_map<DnnlConvKey, std::unique_ptr<DnnlConv>, DnnlConvKeyHash> convs_;
};

/// One pass; false when oneDNN cannot do it well on this processor. `threads` is what oneDNN will
/// find at run time. `scratch` holds `packed_weights` elements.
template <class T>
bool conv_onednn(ConvPass pass, const ConvSizes& s, const T* x, const void* w, const T* bias,
                 const T* y, void* scratch, int threads) {
  DnnlConvCache& cache = DnnlCaches<DnnlConvCache>::of_this_thread();
  const DnnlConv* conv =
      cache.find(DnnlConvKey::of(s, threads, dnnl_type<T>, pass, bias != nullptr), s);
  if (conv == nullptr) return false;
  conv->run(cache.stream(), x, w, bias, y, scratch);
  return true;
}

#endif

}  // namespace krama::kernels::detail
