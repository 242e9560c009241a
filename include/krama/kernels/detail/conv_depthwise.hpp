// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/kernels/column_sums.hpp>
#include <krama/kernels/detail/conv_sizes.hpp>

/// Depthwise convolutions: output channel o reads input channel o / m alone, m = out / in channels.
/// Weights are first turned to (taps, out_channels), so that loops run over neighbouring channels.
namespace krama::kernels::detail {

template <class T>
struct TurnWeights {
  const T* w;  ///< (channels, taps)
  T* turned;   ///< (taps, channels)
  std::int64_t channels;
  std::int64_t taps;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t tap = i / channels;
    turned[i] = w[(i - tap * channels) * taps + tap];
  }
};

template <class T, int Width>
struct DepthwiseForward {
  using A = accum_t<T>;
  ConvSizes s;
  const T* x;
  const T* w;  ///< (taps, out_channels)
  const T* bias;
  T* y;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const ChannelRun run = ChannelRun::of<Width>(item, s.out_channels);
    const Place at = Place::of(run.pixel, s.window.out_h, s.window.out_w);
    const std::int64_t m = s.group_out();
    A sum[static_cast<std::size_t>(Width)] = {};
    s.window.for_each_pixel(at, [&](std::int64_t tap, const Place& pixel) {
      const T* from = x + s.window.in_pixel(pixel) * s.in_channels;
      const T* by = w + tap * s.out_channels + run.begin;
      if (m == 1) {
        const T* in = from + run.begin;
        KRAMA_VECTOR_LOOP
        for (std::int64_t c = 0; c < run.size(); ++c) {
          sum[c] += static_cast<A>(in[c]) * static_cast<A>(by[c]);
        }
      } else {
        for (std::int64_t c = 0; c < run.size(); ++c) {
          sum[c] += static_cast<A>(from[(run.begin + c) / m]) * static_cast<A>(by[c]);
        }
      }
    });
    T* to = y + run.pixel * s.out_channels + run.begin;
    for (std::int64_t c = 0; c < run.size(); ++c) {
      const A b = bias == nullptr ? A{0} : static_cast<A>(bias[run.begin + c]);
      to[c] = static_cast<T>(sum[c] + b);
    }
  }
};

/// dx of a run of channels of one pixel; `bias` serves transposed convolutions.
template <class T, int Width>
struct DepthwiseInput {
  using A = accum_t<T>;
  ConvSizes s;
  const T* dy;
  const T* w;  ///< (taps, out_channels)
  const T* bias;
  T* dx;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const ChannelRun run = ChannelRun::of<Width>(item, s.in_channels);
    const Place at = Place::of(run.pixel, s.window.in_h, s.window.in_w);
    const std::int64_t m = s.group_out();
    A sum[static_cast<std::size_t>(Width)] = {};
    for (std::int64_t c = 0; c < run.size(); ++c) {
      sum[c] = bias == nullptr ? A{0} : static_cast<A>(bias[run.begin + c]);
    }
    s.window.for_each_place(at, [&](std::int64_t tap, const Place& place) {
      const T* up = dy + s.window.out_place(place) * s.out_channels + run.begin * m;
      const T* by = w + tap * s.out_channels + run.begin * m;
      for (std::int64_t j = 0; j < m; ++j) {
        KRAMA_VECTOR_LOOP
        for (std::int64_t c = 0; c < run.size(); ++c) {
          sum[c] += static_cast<A>(up[c * m + j]) * static_cast<A>(by[c * m + j]);
        }
      }
    });
    T* to = dx + run.pixel * s.in_channels + run.begin;
    for (std::int64_t c = 0; c < run.size(); ++c) to[c] = static_cast<T>(sum[c]);
  }
};

/// One block of places' part of dw for one tap and a run of channels: partial (blocks, channels,
/// taps).
template <class T, int Width>
struct DepthwiseWeights {
  using A = accum_t<T>;
  ConvSizes s;
  RowBlocks blocks;
  const T* x;
  const T* dy;
  A* partial;

  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const ChannelRun run = ChannelRun::of<Width>(item, s.out_channels);
    const std::int64_t taps = s.window.taps();
    const std::int64_t block = run.pixel / taps;
    const std::int64_t tap = run.pixel - block * taps;
    const std::int64_t kh = tap / s.window.kernel.w;
    const std::int64_t kw = tap - kh * s.window.kernel.w;
    const std::int64_t m = s.group_out();
    A sum[static_cast<std::size_t>(Width)] = {};
    for (std::int64_t p = blocks.begin(block); p < blocks.end(block); ++p) {
      const Place at = Place::of(p, s.window.out_h, s.window.out_w);
      const std::int64_t ih = s.window.in_row(at.row, kh);
      const std::int64_t iw = s.window.in_column(at.column, kw);
      if (ih < 0 || ih >= s.window.in_h || iw < 0 || iw >= s.window.in_w) continue;
      const T* from = x + s.window.in_pixel({at.image, ih, iw}) * s.in_channels;
      const T* up = dy + p * s.out_channels + run.begin;
      if (m == 1) {
        const T* in = from + run.begin;
        KRAMA_VECTOR_LOOP
        for (std::int64_t c = 0; c < run.size(); ++c) {
          sum[c] += static_cast<A>(up[c]) * static_cast<A>(in[c]);
        }
      } else {
        for (std::int64_t c = 0; c < run.size(); ++c) {
          sum[c] += static_cast<A>(up[c]) * static_cast<A>(from[(run.begin + c) / m]);
        }
      }
    }
    for (std::int64_t c = 0; c < run.size(); ++c) {
      partial[(block * s.out_channels + run.begin + c) * taps + tap] = sum[c];
    }
  }
};

/// Elements of accum_t<T> that depthwise convolutions want: turned weights or partial sums.
inline std::int64_t depthwise_scratch(const ConvSizes& s) {
  const std::int64_t weights = s.out_channels * s.window.taps();
  return checked_product(RowBlocks::of(s.window.places()).count, weights);
}

template <ExecutionSpace E, class T>
const T* turned_weights(const E& exec, const ConvSizes& s, const T* w, accum_t<T>* scratch) {
  T* turned = reinterpret_cast<T*>(scratch);
  const std::int64_t taps = s.window.taps();
  kokkos_ext::launch(exec, "krama::kernels::conv::turn_weights", taps * s.out_channels,
                     TurnWeights<T>{w, turned, s.out_channels, taps});
  return turned;
}

template <ExecutionSpace E, class T>
void depthwise_forward(const E& exec, const ConvSizes& s, const T* x, const T* w, const T* bias,
                       T* y, accum_t<T>* scratch) {
  constexpr int width = channel_run<E>;
  const T* turned = turned_weights(exec, s, w, scratch);
  kokkos_ext::launch(exec, "krama::kernels::conv::depthwise",
                     s.window.places() * ChannelRun::runs<width>(s.out_channels),
                     DepthwiseForward<T, width>{s, x, turned, bias, y});
}

template <ExecutionSpace E, class T>
void depthwise_input_grad(const E& exec, const ConvSizes& s, const T* dy, const T* w, const T* bias,
                          T* dx, accum_t<T>* scratch) {
  constexpr int width = channel_run<E>;
  const T* turned = turned_weights(exec, s, w, scratch);
  kokkos_ext::launch(exec, "krama::kernels::conv::depthwise_input",
                     s.window.in_pixels() * ChannelRun::runs<width>(s.in_channels),
                     DepthwiseInput<T, width>{s, dy, turned, bias, dx});
}

template <ExecutionSpace E, class T>
void depthwise_weight_grad(const E& exec, const ConvSizes& s, const T* x, const T* dy,
                           accum_t<T>* dw, accum_t<T>* scratch) {
  constexpr int width = channel_run<E>;
  const RowBlocks blocks = RowBlocks::of(s.window.places());
  const std::int64_t taps = s.window.taps();
  kokkos_ext::launch(exec, "krama::kernels::conv::depthwise_weights",
                     blocks.count * taps * ChannelRun::runs<width>(s.out_channels),
                     DepthwiseWeights<T, width>{s, blocks, x, dy, scratch});
  join_blocks(exec, "krama::kernels::conv::depthwise_weights",
              static_cast<const accum_t<T>*>(scratch), dw, blocks.count, taps * s.out_channels);
}

}  // namespace krama::kernels::detail
