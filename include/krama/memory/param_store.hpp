// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <krama/core/random.hpp>
#include <krama/definitions.hpp>
#include <krama/memory/flat_array.hpp>
#include <krama/memory/param_spec.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/tensor/tensor.hpp>

namespace krama {

/// The unit in which parameters are cut among ranks: shards begin at multiples of it.
inline constexpr std::int64_t chunk_size = 256;

/// What an optimizer may know of a chunk; one byte a chunk.
enum ChunkAttribute : std::uint8_t { chunk_decays = 1, chunk_frozen = 2 };

/// A parameter's place in the flat arrays.
struct Segment {
  std::string name;
  Shape extents;
  Init init;
  std::int64_t offset = 0;  ///< in elements, a multiple of `chunk_size`
  std::int64_t size = 0;
  bool decay = true;
  bool frozen = false;
  bool buffer = false;
};

/// FNV-1a, 64 bits: for names and layouts, where a collision costs a wrong check, not wrong numbers.
std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325U);

/// All parameters of a model: flat arrays of values and gradients in `accum_t<T>`, cut into chunks
/// of 256 elements so that no chunk belongs to two tensors (tails are padded with zeros that stay
/// zero). Where T is narrower than accum_t<T>, `working` is the copy that layers compute with.
/// Buffers lie behind all parameters; where a parameter has its gradient, a buffer has the value that
/// the step will commit.
///
/// A far store has its values, gradients and working copy in far memory of the host. Host code finds
/// them as it finds those of a near store; layers compute with copies (program/weight_window.hpp).
template <Scalar T, MemorySpace M>
class ParamStore {
 public:
  using accum = accum_t<T>;
  static constexpr bool has_working_copy = !std::is_same_v<T, accum>;

  ParamStore() = default;

  /// Lays out `infos`; tied parameters share the segment of their target. `far`: a far store.
  /// \throws TierError when there is no room for a far store, Error where devices want one
  template <ExecutionSpace E>
  ParamStore(const E& exec, const std::vector<ParamInfo>& infos,
             const std::optional<TierOptions>& far = {})
      : far_(far) {
    segment_index_.resize(infos.size());
    for (const bool buffers : {false, true}) {
      for (std::size_t i = 0; i < infos.size(); ++i) {
        if (infos[i].options.buffer == buffers) segment_index_[i] = place(infos[i]);
      }
      if (!buffers) buffers_begin_ = size_;
    }
    values_ = FlatArray<accum, M>(exec, "krama::params::values", size_, far);
    grads_ = FlatArray<accum, M>(exec, "krama::params::grads", size_, far);
    attributes_ = Tensor<std::uint8_t, 1, M>(exec, "krama::params::attributes", {chunks()});
    fill(exec, values_.ref(), accum{0});
    fill(exec, grads_.ref(), accum{0});
    if constexpr (has_working_copy) {
      working_ = FlatArray<T, M>(exec, "krama::params::working", size_, far);
    }
    std::vector<std::uint8_t> attributes(static_cast<std::size_t>(chunks()));
    for (const auto& s : segments_) {
      const auto byte =
          static_cast<std::uint8_t>((s.decay ? chunk_decays : 0) | (s.frozen ? chunk_frozen : 0));
      for (std::int64_t c = s.offset / chunk_size; c * chunk_size < s.offset + s.size; ++c) {
        attributes[static_cast<std::size_t>(c)] = byte;
      }
    }
    upload(exec, attributes_.ref(), std::span<const std::uint8_t>(attributes));
    refresh_working(exec);
    kokkos_ext::fence(exec, "krama::params::made");
  }

  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  /// Segment of the i-th declared parameter (several for a tied one).
  [[nodiscard]] const Segment& segment_of(std::int64_t param) const {
    return segments_[static_cast<std::size_t>(segment_index_[static_cast<std::size_t>(param)])];
  }
  [[nodiscard]] std::int64_t declared() const {
    return static_cast<std::int64_t>(segment_index_.size());
  }
  /// Elements of the flat arrays, padding included; a multiple of `chunk_size`.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t chunks() const { return size_ / chunk_size; }
  /// Where the buffers begin in the flat arrays; `size()` when there are none.
  [[nodiscard]] std::int64_t buffers_begin() const { return buffers_begin_; }
  [[nodiscard]] bool has_buffers() const { return buffers_begin_ < size_; }
  /// Number of parameters in the sense of papers: without padding and buffers, tied ones once.
  [[nodiscard]] std::int64_t parameter_count() const {
    std::int64_t n = 0;
    for (const auto& s : segments_) n += s.buffer ? 0 : s.size;
    return n;
  }

  [[nodiscard]] TensorRef<accum, 1, M> values() const { return values_.ref(); }
  [[nodiscard]] TensorRef<accum, 1, M> grads() const { return grads_.ref(); }
  [[nodiscard]] TensorRef<std::uint8_t, 1, M> attributes() const { return attributes_.ref(); }
  /// What layers read: the working copy, or the values themselves.
  [[nodiscard]] const T* working() const {
    if constexpr (has_working_copy) {
      return working_.data();
    } else {
      return values_.data();
    }
  }

  /// Where further arrays of the same residence are made; nothing: in near memory.
  [[nodiscard]] const std::optional<TierOptions>& far() const { return far_; }
  /// The files of a far store, for the link; null for a near one.
  [[nodiscard]] const FileTier* working_file() const {
    if constexpr (has_working_copy) {
      return working_.file();
    } else {
      return values_.file();
    }
  }
  [[nodiscard]] const FileTier* grads_file() const { return grads_.file(); }

  /// Rounds the values into the working copy. Asynchronous on `exec`.
  template <ExecutionSpace E>
  void refresh_working(const E& exec) const {
    if constexpr (has_working_copy) cast(exec, working_.ref(), values_.cref());
  }

  /// Begins a step: gradients are zero, and buffers go on as they are unless a layer says otherwise.
  /// Asynchronous on `exec`.
  template <ExecutionSpace E>
  void clear_grads(const E& exec) const {
    const auto part = [&](const FlatArray<accum, M>& t, std::int64_t begin, std::int64_t end) {
      return TensorRef<accum, 1, M>(t.data() + begin, {end - begin});
    };
    fill(exec, part(grads_, 0, buffers_begin_), accum{0});
    copy(exec, part(grads_, buffers_begin_, size_), part(values_, buffers_begin_, size_));
  }

  /// First values of every parameter, a pure function of (seed, name, element). Fences `exec`.
  template <ExecutionSpace E>
  void initialise(const E& exec, std::uint64_t seed) const {
    std::vector<accum> host;  // one tensor at a time: all of them may be more than fits
    for (const auto& s : segments_) {
      const RandomKey key{seed, static_cast<std::uint32_t>(fnv1a(s.name)), 0};
      host.resize(static_cast<std::size_t>(s.size));
      for (std::int64_t i = 0; i < s.size; ++i) {
        host[static_cast<std::size_t>(i)] =
            static_cast<accum>(first_value(s.init, key, static_cast<std::uint64_t>(i)));
      }
      upload(exec, TensorRef<accum, 1, M>(values_.data() + s.offset, {s.size}),
             std::span<const accum>(host));
    }
    refresh_working(exec);
    kokkos_ext::fence(exec, "krama::params::initialised");
  }

  /// Hash of names, extents and types: equal on all ranks that train the same model.
  [[nodiscard]] std::uint64_t layout_fingerprint() const {
    std::uint64_t h = fnv1a(name_of(dtype_of<accum>));
    for (const auto& s : segments_) {
      h = fnv1a(s.name, h);
      h = fnv1a(to_string(s.extents), h);
      h = fnv1a(s.buffer ? "b" : s.frozen ? "f" : s.decay ? "d" : "n", h);
    }
    return h;
  }

  /// Hash of the bits of each segment's values; equal on all replicas. Fences `exec`.
  template <ExecutionSpace E>
  [[nodiscard]] std::vector<std::uint64_t> value_fingerprints(const E& exec) const {
    std::vector<std::uint64_t> hashes;
    hashes.reserve(segments_.size());
    for (const auto& s : segments_) {
      const auto host =
          download(exec, TensorRef<const accum, 1, M>(values_.data() + s.offset, {s.size}));
      std::uint64_t h = 0xcbf29ce484222325U;
      for (std::int64_t i = 0; i < s.size; ++i) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, &host[static_cast<std::size_t>(i)], sizeof(accum));
        h = (h ^ bits) * 0x100000001b3U;
      }
      hashes.push_back(h);
    }
    return hashes;
  }

 private:
  static double first_value(const Init& init, const RandomKey& key, std::uint64_t i) {
    switch (init.kind) {
      case Init::Kind::constant:
        return init.scale;
      case Init::Kind::normal:
        return init.scale * normal(key, i);
      case Init::Kind::uniform:
        return init.scale * (2.0 * static_cast<double>(uniform(key, i)) - 1.0);
    }
    return 0.0;
  }

  /// Index of the segment that holds the parameter.
  std::int64_t place(const ParamInfo& info) {
    if (!info.options.tie.empty()) {
      for (std::size_t i = 0; i < segments_.size(); ++i) {
        if (segments_[i].name != info.options.tie) continue;
        KRAMA_EXPECTS(segments_[i].extents == info.extents,
                      "parameter \"{}\" {} cannot be tied to \"{}\" {}: extents differ", info.name,
                      to_string(info.extents), info.options.tie, to_string(segments_[i].extents));
        return static_cast<std::int64_t>(i);
      }
      KRAMA_EXPECTS(false, "parameter \"{}\" is tied to \"{}\", which no earlier block declares",
                    info.name, info.options.tie);
    }
    for (const auto& s : segments_) {
      KRAMA_EXPECTS(s.name != info.name, "two parameters are called \"{}\"", info.name);
    }
    Segment s{info.name,           info.extents,       info.init,           size_,
              info.extents.size(), info.options.decay, info.options.frozen, info.options.buffer};
    KRAMA_EXPECTS(s.size > 0, "parameter \"{}\" {} has no elements", s.name, to_string(s.extents));
    size_ += (s.size + chunk_size - 1) / chunk_size * chunk_size;
    segments_.push_back(std::move(s));
    return static_cast<std::int64_t>(segments_.size()) - 1;
  }

  std::vector<Segment> segments_;
  std::vector<std::int64_t> segment_index_;
  std::int64_t size_ = 0;
  std::int64_t buffers_begin_ = 0;
  std::optional<TierOptions> far_;
  FlatArray<accum, M> values_;
  FlatArray<accum, M> grads_;
  FlatArray<T, M> working_;
  Tensor<std::uint8_t, 1, M> attributes_;
};

}  // namespace krama

#if KRAMA_DEFINITIONS

namespace krama {

KRAMA_INLINE std::uint64_t fnv1a(std::string_view text, std::uint64_t hash) {
  for (const char c : text) {
    hash ^= static_cast<std::uint8_t>(c);
    hash *= 0x100000001b3U;
  }
  return hash;
}

}  // namespace krama

#endif  // KRAMA_DEFINITIONS
