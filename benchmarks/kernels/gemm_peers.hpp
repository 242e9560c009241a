// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include <krama/core/random.hpp>
#include <krama/kernels/gemm.hpp>

#if KRAMA_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif
#if KRAMA_HAS_OPENBLAS
#include <cblas.h>
#endif

/// Products as the benchmark sees them, the naive sum for checks, and the libraries called directly.
namespace krama::bench {

using kernels::Op;

/// `batch` products C (m,n) = op(A) op(B) + beta C, all matrices packed.
struct Problem {
  std::string name;
  Op ta = Op::none;
  Op tb = Op::none;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  float beta = 0;
  std::int64_t batch = 1;

  [[nodiscard]] std::int64_t lda() const { return ta == Op::none ? k : m; }
  [[nodiscard]] std::int64_t ldb() const { return tb == Op::none ? n : k; }
  [[nodiscard]] double operations() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

template <class T>
struct Data {
  explicit Data(const Problem& p) {
    const auto fill = [](std::vector<T>& v, std::int64_t size, std::uint32_t stream) {
      v.resize(static_cast<std::size_t>(size));
      for (std::size_t i = 0; i < v.size(); ++i) {
        v[i] = static_cast<T>(2.0F * uniform({1, stream, 0}, i) - 1.0F);
      }
    };
    fill(a, p.batch * p.m * p.k, 1);
    fill(b, p.batch * p.n * p.k, 2);
    c.assign(static_cast<std::size_t>(p.batch * p.m * p.n), 1.0F);
  }
  std::vector<T> a, b;
  std::vector<float> c;
};

/// Largest error of C over the sum of magnitudes behind an element, for C of all ones before one
/// product: all elements of small problems, some two thousand spread over large ones.
template <class T>
double error_of(const Problem& p, const Data<T>& d) {
  const std::int64_t elements = p.batch * p.m * p.n;
  const std::int64_t step = p.operations() < 2e7 ? 1 : elements / 2000 * 2 + 1;
  double worst = 0;
  for (std::int64_t e = 0; e < elements; e += step) {
    const std::int64_t s = e / (p.m * p.n);
    const std::int64_t i = e / p.n % p.m;
    const std::int64_t j = e % p.n;
    const T* a = d.a.data() + s * p.m * p.k;
    const T* b = d.b.data() + s * p.n * p.k;
    double want = static_cast<double>(p.beta);
    double magnitude = want;
    for (std::int64_t q = 0; q < p.k; ++q) {
      const double x = static_cast<float>(a[p.ta == Op::none ? i * p.k + q : q * p.m + i]);
      const double y = static_cast<float>(b[p.tb == Op::none ? q * p.n + j : j * p.k + q]);
      want += x * y;
      magnitude += std::abs(x * y);
    }
    const double error = std::abs(static_cast<double>(d.c[static_cast<std::size_t>(e)]) - want);
    worst = std::isnan(error) ? error : std::max(worst, error / magnitude);
    if (std::isnan(worst)) break;
  }
  return worst;
}

#if KRAMA_HAS_ONEDNN
/// oneDNN's matmul as its own users call it: a primitive made once, then executed on fixed memory.
template <class T>
class DirectOnednn {
 public:
  DirectOnednn(const Problem& p, Data<T>& d)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    constexpr auto in = std::is_same_v<T, float> ? memory::data_type::f32 : memory::data_type::bf16;
    const auto strides = [](std::int64_t rows, std::int64_t cols, bool transposed) {
      return memory::dims{rows * cols, transposed ? 1 : cols, transposed ? rows : 1};
    };
    const memory::desc a({p.batch, p.m, p.k}, in, strides(p.m, p.k, p.ta == Op::transpose));
    const memory::desc b({p.batch, p.k, p.n}, in, strides(p.k, p.n, p.tb == Op::transpose));
    const memory::desc c({p.batch, p.m, p.n}, memory::data_type::f32, strides(p.m, p.n, false));
    dnnl::primitive_attr attr;
    if (p.beta != 0) {
      dnnl::post_ops ops;
      ops.append_sum(p.beta);
      attr.set_post_ops(ops);
    }
    // Two dimensions where there is no batch: the form with the least overhead.
    if (p.batch == 1) {
      const auto flat = [](const memory::desc& x) {
        return memory::desc({x.get_dims()[1], x.get_dims()[2]}, x.get_data_type(),
                            memory::dims{x.get_strides()[1], x.get_strides()[2]});
      };
      make(flat(a), flat(b), flat(c), attr, d);
    } else {
      make(a, b, c, attr, d);
    }
  }
  void operator()() {
    matmul_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  void make(const dnnl::memory::desc& a, const dnnl::memory::desc& b, const dnnl::memory::desc& c,
            const dnnl::primitive_attr& attr, Data<T>& d) {
    matmul_ = dnnl::matmul(dnnl::matmul::primitive_desc(engine_, a, b, c, attr));
    args_ = {{DNNL_ARG_SRC, dnnl::memory(a, engine_, d.a.data())},
             {DNNL_ARG_WEIGHTS, dnnl::memory(b, engine_, d.b.data())},
             {DNNL_ARG_DST, dnnl::memory(c, engine_, d.c.data())}};
  }
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> args_;
};
#endif

#if KRAMA_HAS_OPENBLAS
inline void direct_openblas(const Problem& p, Data<float>& d) {
  const auto op = [](Op o) { return o == Op::none ? CblasNoTrans : CblasTrans; };
  for (std::int64_t s = 0; s < p.batch; ++s) {
    cblas_sgemm(CblasRowMajor, op(p.ta), op(p.tb), static_cast<int>(p.m), static_cast<int>(p.n),
                static_cast<int>(p.k), 1.0F, d.a.data() + s * p.m * p.k, static_cast<int>(p.lda()),
                d.b.data() + s * p.n * p.k, static_cast<int>(p.ldb()), p.beta,
                d.c.data() + s * p.m * p.n, static_cast<int>(p.n));
  }
}
#endif

}  // namespace krama::bench
