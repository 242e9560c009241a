// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include <krama/core/random.hpp>
#include <krama/kokkos_ext/streams.hpp>
#include <krama/optim/optimizer.hpp>
#include <krama/tensor/copy.hpp>
#include <krama/testing/report.hpp>
#include <krama/testing/tools_probe.hpp>

namespace krama::testing {

namespace detail {

/// Seven chunks and a part of one, with a frozen chunk, one without decay and one of padding.
template <Device D, class A>
class OptimizerRun {
 public:
  using M = mem_of<D>;
  static constexpr std::int64_t size = 7 * chunk_size + 100;
  static constexpr std::int64_t frozen_chunk = 1;
  static constexpr std::int64_t padding_chunk = 3;

  explicit OptimizerRun(const exec_of<D>& exec) : exec_(exec) {
    for (auto* t : {&values_, &grads_, &states_[0], &states_[1]}) {
      *t = Tensor<A, 1, M>(exec, "krama::testing::optimizer", {size});
      fill(exec, t->ref(), A{0});
    }
    std::vector<std::uint8_t> bytes(8, chunk_decays);
    bytes[frozen_chunk] = chunk_decays | chunk_frozen;
    bytes[2] = 0;
    attributes_ = Tensor<std::uint8_t, 1, M>(exec, "krama::testing::attributes", {8});
    upload(exec, attributes_.ref(), std::span<const std::uint8_t>(bytes));
    upload(exec, values_.ref(), std::span<const A>(numbers(0)));
  }

  /// New gradients, the same for every run.
  void gradients(std::int64_t step) {
    upload(exec_, grads_.ref(), std::span<const A>(numbers(static_cast<std::uint32_t>(step))));
  }
  template <class O>
  void update(const O& o, const optim::UpdateScalars& s, std::int64_t begin, std::int64_t end) {
    const auto part = [&](const Tensor<A, 1, M>& t) {
      return TensorRef<A, 1, M>(t.data() + begin, {end - begin});
    };
    optim::UpdateRange<A, M> r;
    r.values = part(values_);
    r.grads = part(grads_);
    r.states = {part(states_[0]), part(states_[1])};
    r.attributes = {attributes_.data() + begin / chunk_size,
                    {(end - begin + chunk_size - 1) / chunk_size}};
    o.template update<D, A>(exec_, r, s);
  }
  /// Values and states, one behind the other.
  [[nodiscard]] std::vector<A> all() const {
    std::vector<A> out;
    for (const auto* t : {&values_, &states_[0], &states_[1]}) {
      const auto part = download(exec_, t->cref());
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

 private:
  static std::vector<A> numbers(std::uint32_t stream) {
    std::vector<A> x;
    for (std::int64_t i = 0; i < size; ++i) {
      const double v = normal({6, stream, 0}, static_cast<std::uint64_t>(i));
      x.push_back(i / chunk_size == padding_chunk ? A{0} : static_cast<A>(v));
    }
    return x;
  }

  exec_of<D> exec_;
  Tensor<A, 1, M> values_, grads_;
  std::array<Tensor<A, 1, M>, 2> states_;
  Tensor<std::uint8_t, 1, M> attributes_;
};

}  // namespace detail

/// Checks the contract of an optimizer (see optim/optimizer.hpp): any cut of the range gives the
/// same bits, frozen chunks and padding stay as they are, everything else moves and stays finite,
/// states beyond the declared ones are left alone, kernels carry labels and run on the given
/// instance, and nothing is allocated. What it computes is for a test of its own. `A` is double or
/// float.
template <Device D, class A, optim::Optimizer O>
Report check_optimizer(const O& optimizer, double lr = 0.01) {
  using Run = detail::OptimizerRun<D, A>;
  Report report;
  const auto fail = [&](std::string text) { report.failures.push_back(std::move(text)); };
  const exec_of<D> exec = kokkos_ext::separate_instance(exec_of<D>{});
  Run whole(exec), cut(exec);
  const std::vector<A> before = whole.all();
  const std::int64_t cuts[] = {0, chunk_size, 2 * chunk_size, 5 * chunk_size, Run::size};
  for (std::int64_t step = 1; step <= 3; ++step) {
    const optim::UpdateScalars s{lr, 1.0 / 3.0, step};
    whole.gradients(step);
    cut.gradients(step);
    whole.update(optimizer, s, 0, Run::size);
    for (int i = 0; i < 4; ++i) cut.update(optimizer, s, cuts[i], cuts[i + 1]);
  }
  const std::vector<A> after = whole.all();
  const std::vector<A> after_cut = cut.all();
  if (std::memcmp(after.data(), after_cut.data(), after.size() * sizeof(A)) != 0) {
    fail("a cut range gives other bits than the whole one");
  }
  bool moves = false;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const auto element = static_cast<std::int64_t>(i) % Run::size;
    const auto array = static_cast<std::size_t>(static_cast<std::int64_t>(i) / Run::size);
    const std::int64_t chunk = element / chunk_size;
    const std::string where = (array == 0 ? "value " : "state of ") + std::to_string(element);
    const bool same = after[i] == before[i];
    if (!std::isfinite(after[i])) return fail(where + " is not finite"), report;
    if (chunk == Run::frozen_chunk && !same) return fail(where + " is frozen, but changed"), report;
    if (chunk == Run::padding_chunk && !same)
      return fail(where + " is padding, but changed"), report;
    if (array > O::states && !same) return fail(where + " was not declared, but changed"), report;
    moves = moves || (array == 0 && !same);
  }
  if (!moves) fail("no value changed");

  ToolsProbe probe;
  whole.update(optimizer, {lr, 1.0, 4}, 0, Run::size);
  kokkos_ext::fence(exec, "krama::testing::check_optimizer");  // a device may not have begun yet
  const auto seen = probe.stop();
  const auto want = Kokkos::Tools::Experimental::device_id(exec);
  if (seen.kernels.empty()) fail("the probe saw no kernel");
  for (const auto& k : seen.kernels) {
    if (k.label.find("::") == std::string::npos) {
      fail("kernel label \"" + k.label + "\" does not say whose it is");
    }
    if (k.device != want) {
      fail("kernel \"" + k.label + "\" ran on another instance than the given one");
    }
  }
  for (const auto& label : seen.allocations) fail("allocation \"" + label + "\" in an update");
  return report;
}

}  // namespace krama::testing
