// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <krama/core/dtype.hpp>
#include <krama/kernels/detail/conv_sizes.hpp>
#include <krama/kernels/vector_math.hpp>

/// Patches: row p of the matrix holds what place p of a tile reads, zeros outside the image
/// (Chellapilla, Puri and Simard 2006). Columns are ordered (group, kh, kw, channel of the group).
namespace krama::kernels::detail {

/// Position of place `p` of a tile.
struct TilePlace {
  std::int64_t image;
  std::int64_t oh;
  std::int64_t ow;
  KOKKOS_FUNCTION static TilePlace of(const ConvSizes& s, const ConvTile& t, std::int64_t p) {
    const std::int64_t row = p / s.window.out_w;
    const std::int64_t image = row / t.rows;
    return {t.first_image + image, t.first_row + row - image * t.rows, p - row * s.window.out_w};
  }
};

/// Hosts: a place at a time, in runs of neighbouring memory.
template <class T>
struct PatchRows {
  ConvSizes s;
  ConvTile tile;
  const T* x;
  T* patches;

  KOKKOS_FUNCTION static void zero(T* to, std::int64_t n) {
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(accum_t<T>{0});
  }
  KOKKOS_FUNCTION static void take(T* to, const T* from, std::int64_t n) {
    KRAMA_VECTOR_LOOP
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
  /// One row of taps of one group. `row`: the row of pixels that it lies on.
  KOKKOS_FUNCTION void tap_row(T* to, const T* row, std::int64_t ow) const {
    const std::int64_t taps = s.window.kernel.w;
    const std::int64_t channels = s.group_in();
    const std::int64_t first = s.window.in_column(ow, 0);
    if (s.groups == 1 && s.window.dilation.w == 1) {
      // Neighbouring taps are neighbours in memory.
      const std::int64_t lo = first < 0 ? (-first < taps ? -first : taps) : 0;
      const std::int64_t room = s.window.in_w - first;
      const std::int64_t end = room < taps ? room : taps;
      const std::int64_t hi = end < lo ? lo : end;
      zero(to, lo * channels);
      take(to + lo * channels, row + (first + lo) * channels, (hi - lo) * channels);
      zero(to + hi * channels, (taps - hi) * channels);
      return;
    }
    for (std::int64_t kw = 0; kw < taps; ++kw) {
      const std::int64_t iw = first + kw * s.window.dilation.w;
      if (iw < 0 || iw >= s.window.in_w) {
        zero(to + kw * channels, channels);
      } else {
        take(to + kw * channels, row + iw * s.in_channels, channels);
      }
    }
  }
  KOKKOS_FUNCTION void operator()(std::int64_t p) const {
    const TilePlace at = TilePlace::of(s, tile, p);
    const std::int64_t row_size = s.window.kernel.w * s.group_in();
    const T* image = x + at.image * s.window.in_h * s.window.in_w * s.in_channels;
    T* to = patches + p * s.patch();
    for (std::int64_t g = 0; g < s.groups; ++g) {
      for (std::int64_t kh = 0; kh < s.window.kernel.h; ++kh, to += row_size) {
        const std::int64_t ih = s.window.in_row(at.oh, kh);
        if (ih < 0 || ih >= s.window.in_h) {
          zero(to, row_size);
        } else {
          tap_row(to, image + ih * s.window.in_w * s.in_channels + g * s.group_in(), at.ow);
        }
      }
    }
  }
};

/// Devices: an element at a time; neighbours write neighbours.
template <class T>
struct PatchElements {
  ConvSizes s;
  ConvTile tile;
  const T* x;
  T* patches;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t p = i / s.patch();
    const std::int64_t e = i - p * s.patch();
    const TilePlace at = TilePlace::of(s, tile, p);
    const std::int64_t group = e / s.depth();
    const std::int64_t in_group = e - group * s.depth();
    const std::int64_t tap = in_group / s.group_in();
    const std::int64_t c = in_group - tap * s.group_in();
    const std::int64_t kh = tap / s.window.kernel.w;
    const std::int64_t ih = s.window.in_row(at.oh, kh);
    const std::int64_t iw = s.window.in_column(at.ow, tap - kh * s.window.kernel.w);
    T v = static_cast<T>(accum_t<T>{0});
    if (ih >= 0 && ih < s.window.in_h && iw >= 0 && iw < s.window.in_w) {
      v = x[((at.image * s.window.in_h + ih) * s.window.in_w + iw) * s.in_channels +
            group * s.group_in() + c];
    }
    patches[i] = v;
  }
};

/// The transposed way: every pixel collects from the patches of the tile that hold it, in the order
/// of the taps; no two items write one element. Pixels lie in rows [first_row, first_row + rows) of
/// the tile's images.
template <class T, int Width>
struct CollectPatches {
  using A = accum_t<T>;
  ConvSizes s;
  ConvTile tile;
  const A* patches;
  const T* bias;  ///< null: none
  T* x;
  std::int64_t first_row;
  std::int64_t rows;
  bool add;  ///< to what is in x; else bias or zero

  KOKKOS_FUNCTION void start(A* sum, const T* to, const ChannelRun& run) const {
    for (std::int64_t c = 0; c < run.size(); ++c) {
      if (add) {
        sum[c] = static_cast<A>(to[c]);
      } else {
        sum[c] = bias == nullptr ? A{0} : static_cast<A>(bias[run.begin + c]);
      }
    }
  }
  /// sum += one tap of the patch that begins at `patch`.
  KOKKOS_FUNCTION void add_tap(A* sum, const A* patch, std::int64_t tap,
                               const ChannelRun& run) const {
    const std::int64_t channels = s.group_in();
    for (std::int64_t c = run.begin; c < run.end;) {
      const std::int64_t group = c / channels;
      const std::int64_t stop = (group + 1) * channels < run.end ? (group + 1) * channels : run.end;
      const A* from = patch + group * s.depth() + tap * channels + (c - group * channels);
      A* to = sum + (c - run.begin);
      KRAMA_VECTOR_LOOP
      for (std::int64_t k = 0; k < stop - c; ++k) to[k] += from[k];
      c = stop;
    }
  }
  KOKKOS_FUNCTION void operator()(std::int64_t item) const {
    const ChannelRun run = ChannelRun::of<Width>(item, s.in_channels);
    const std::int64_t line = run.pixel / s.window.in_w;
    const std::int64_t iw = run.pixel - line * s.window.in_w;
    const std::int64_t image = line / rows;
    const std::int64_t ih = first_row + line - image * rows;
    T* to =
        x +
        (((tile.first_image + image) * s.window.in_h + ih) * s.window.in_w + iw) * s.in_channels +
        run.begin;
    A sum[static_cast<std::size_t>(Width)];
    start(sum, to, run);
    for (std::int64_t kh = 0; kh < s.window.kernel.h; ++kh) {
      const std::int64_t oh = s.window.out_row(ih, kh) - tile.first_row;
      if (oh < 0 || oh >= tile.rows) continue;
      for (std::int64_t kw = 0; kw < s.window.kernel.w; ++kw) {
        const std::int64_t ow = s.window.out_column(iw, kw);
        if (ow < 0) continue;
        const std::int64_t place = (image * tile.rows + oh) * s.window.out_w + ow;
        add_tap(sum, patches + place * s.patch(), kh * s.window.kernel.w + kw, run);
      }
    }
    for (std::int64_t c = 0; c < run.size(); ++c) to[c] = static_cast<T>(sum[c]);
  }
};

template <ExecutionSpace E, class T>
void make_patches(const E& exec, const ConvSizes& s, const ConvTile& tile, const T* x, T* patches) {
  if constexpr (kokkos_ext::is_host_space<E>) {
    kokkos_ext::launch(exec, "krama::kernels::conv::patches", tile.places(s),
                       PatchRows<T>{s, tile, x, patches});
  } else {
    kokkos_ext::launch(exec, "krama::kernels::conv::patches", tile.places(s) * s.patch(),
                       PatchElements<T>{s, tile, x, patches});
  }
}

/// x = bias + what the tile's patches hold of it; `add`: x += that, within the rows that the tile
/// touches.
template <ExecutionSpace E, class T>
void collect_patches(const E& exec, const ConvSizes& s, const ConvTile& tile,
                     const accum_t<T>* patches, const T* bias, T* x, bool add) {
  constexpr int width = channel_run<E>;
  std::int64_t first = 0;
  std::int64_t end = s.window.in_h;
  if (add) {
    const std::int64_t lo = s.window.in_row(tile.first_row, 0);
    const std::int64_t hi =
        s.window.in_row(tile.first_row + tile.rows - 1, s.window.kernel.h - 1) + 1;
    if (lo > first) first = lo;
    if (hi < end) end = hi;
  }
  if (end <= first) return;
  const std::int64_t rows = end - first;
  kokkos_ext::launch(exec, "krama::kernels::conv::collect",
                     tile.images * rows * s.window.in_w * ChannelRun::runs<width>(s.in_channels),
                     CollectPatches<T, width>{s, tile, patches, bias, x, first, rows, add});
}

}  // namespace krama::kernels::detail
