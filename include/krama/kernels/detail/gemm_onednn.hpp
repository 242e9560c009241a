// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/detail/gemm_args.hpp>
#include <krama/kernels/detail/onednn.hpp>

#if KRAMA_HAS_ONEDNN
#include <bit>
#include <unordered_map>
#endif

/// oneDNN's matmul behind the door. Primitives are made once per shape and kept per host thread.
namespace krama::kernels::detail {

/// oneDNN takes f32, bf16 and f16; C may also be the accumulator's type.
template <class TA, class TB, class TC>
inline constexpr bool onednn_takes =
#if KRAMA_HAS_ONEDNN
    std::is_same_v<TA, TB> && !std::is_same_v<TA, double> &&
    (std::is_same_v<TC, TA> || std::is_same_v<TC, float>);
#else
    false;
#endif

#if KRAMA_HAS_ONEDNN

/// Everything that a primitive depends on.
struct DnnlKey {
  std::int64_t m, n, k, lda, ldb, ldc;
  std::uint32_t alpha, beta;  // bits
  std::int32_t threads;
  std::int8_t ta, tb, type_in, type_out, bias;
  bool operator==(const DnnlKey&) const = default;
};
struct DnnlKeyHash {
  std::size_t operator()(const DnnlKey& k) const {
    std::uint64_t h = 0x9E3779B97F4A7C15U;
    const auto mix = [&h](std::int64_t v) {
      h = (h ^ static_cast<std::uint64_t>(v)) * 0xD6E8FEB86659FD93U;
      h ^= h >> 32;
    };
    mix(k.m | (k.n << 32));
    mix(k.k | (std::int64_t{k.alpha ^ (k.beta << 1)} << 32));
    mix(k.lda | (k.ldb << 32));
    mix(k.ldc | (std::int64_t{k.threads} << 32));
    mix(k.ta | k.tb << 1 | k.bias << 2 | k.type_in << 3 | k.type_out << 8);
    return static_cast<std::size_t>(h);
  }
};

/// A ready product: the primitive and memory objects whose addresses are set before each run.
struct DnnlMatmul {
  DnnlPrimitive primitive;
  DnnlMemory a, b, c, bias;

  void run(dnnl_stream_t stream, const void* pa, const void* pb, const void* pbias, void* pc) {
    dnnl_memory_set_data_handle(a.get(), const_cast<void*>(pa));
    dnnl_memory_set_data_handle(b.get(), const_cast<void*>(pb));
    dnnl_memory_set_data_handle(c.get(), pc);
    dnnl_exec_arg_t args[4] = {{DNNL_ARG_SRC, a.get()},
                               {DNNL_ARG_WEIGHTS, b.get()},
                               {DNNL_ARG_DST, c.get()},
                               {DNNL_ARG_BIAS, bias.get()}};
    if (bias) dnnl_memory_set_data_handle(bias.get(), const_cast<void*>(pbias));
    dnnl_check(dnnl_primitive_execute(primitive.get(), stream, bias ? 4 : 3, args), "matmul");
  }
};

/// One host thread's primitives.
class DnnlMatmuls {
 public:
  /// Null when oneDNN has no implementation (half types on older processors).
  DnnlMatmul* find(const DnnlKey& key) {
    const auto [at, is_new] = matmuls_.try_emplace(key);
    if (is_new) at->second = make(key);
    return at->second.get();
  }
  [[nodiscard]] dnnl_stream_t stream() const { return engine_.stream(); }

 private:
  static DnnlDesc desc(dnnl_data_type_t type, std::int64_t rows, std::int64_t cols,
                       std::int64_t row_stride, std::int64_t col_stride) {
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {row_stride, col_stride};
    dnnl_memory_desc_t d = nullptr;
    dnnl_check(dnnl_memory_desc_create_with_strides(&d, 2, dims, type, strides),
               "describing a matrix");
    return DnnlDesc(d);
  }
  std::unique_ptr<DnnlMatmul> make(const DnnlKey& key) const {
    const auto in = static_cast<dnnl_data_type_t>(key.type_in);
    const auto out = static_cast<dnnl_data_type_t>(key.type_out);
    const bool ta = key.ta != 0;
    const bool tb = key.tb != 0;
    const DnnlDesc a = desc(in, key.m, key.k, ta ? 1 : key.lda, ta ? key.lda : 1);
    const DnnlDesc b = desc(in, key.k, key.n, tb ? 1 : key.ldb, tb ? key.ldb : 1);
    const DnnlDesc c = desc(out, key.m, key.n, key.ldc, 1);
    const DnnlDesc bias = key.bias != 0 ? desc(in, 1, key.n, key.n, 1) : nullptr;

    const auto alpha = std::bit_cast<float>(key.alpha);
    const auto beta = std::bit_cast<float>(key.beta);
    const DnnlAttr attr = DnnlEngine::strict_attributes();
    const DnnlPostOps ops = DnnlEngine::post_ops();
    if (alpha != 1.0F) {
      dnnl_check(dnnl_post_ops_append_eltwise(ops.get(), dnnl_eltwise_linear, alpha, 0.0F),
                 "appending alpha");
    }
    if (beta != 0.0F) {
      dnnl_check(dnnl_post_ops_append_sum(ops.get(), beta, 0, dnnl_data_type_undef),
                 "appending beta");
    }
    dnnl_check(dnnl_primitive_attr_set_post_ops(attr.get(), ops.get()), "setting post-ops");

    dnnl_primitive_desc_t raw_pd = nullptr;
    const dnnl_status_t status = dnnl_matmul_primitive_desc_create(
        &raw_pd, engine_.get(), a.get(), b.get(), bias.get(), c.get(), attr.get());
    if (status == dnnl_unimplemented) return nullptr;
    dnnl_check(status, "describing a matmul");
    const DnnlPd pd(raw_pd);
    auto result = std::make_unique<DnnlMatmul>();
    result->primitive = DnnlEngine::primitive(pd, "making a matmul");
    result->a = engine_.memory(a.get());
    result->b = engine_.memory(b.get());
    result->c = engine_.memory(c.get());
    if (bias) result->bias = engine_.memory(bias.get());
    return result;
  }

  DnnlEngine engine_;
  std::unordered_map<DnnlKey, std::unique_ptr<DnnlMatmul>, DnnlKeyHash> matmuls_;
};

/// False when oneDNN cannot do it on this processor. `threads` is what oneDNN will find at run time.
template <class T, class TC>
bool gemm_onednn(const GemmArgs<T, T, TC>& g, int threads) {
  const DnnlKey key{g.m,
                    g.n,
                    g.k,
                    g.lda,
                    g.ldb,
                    g.ldc,
                    std::bit_cast<std::uint32_t>(static_cast<float>(g.alpha)),
                    std::bit_cast<std::uint32_t>(static_cast<float>(g.beta)),
                    threads,
                    static_cast<std::int8_t>(g.ta),
                    static_cast<std::int8_t>(g.tb),
                    static_cast<std::int8_t>(dnnl_type<T>),
                    static_cast<std::int8_t>(dnnl_type<TC>),
                    static_cast<std::int8_t>(g.bias != nullptr)};
  // Where an extent is 1, oneDNN 3.7 takes some strides for those of a packed matrix and reads or
  // writes the wrong elements.
  const bool thin = g.m == 1 || g.n == 1 || g.k == 1;
  const bool packed = g.lda == (g.ta == Op::none ? g.k : g.m) &&
                      g.ldb == (g.tb == Op::none ? g.n : g.k) && g.ldc == g.n;
  if (thin && !packed) return false;
  DnnlMatmuls& cache = DnnlCaches<DnnlMatmuls>::of_this_thread();
  DnnlMatmul* matmul = cache.find(key);
  if (matmul == nullptr) return false;
  matmul->run(cache.stream(), g.a, g.b, g.bias, g.c);
  return true;
}

#endif

}  // namespace krama::kernels::detail
