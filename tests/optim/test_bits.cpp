// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// Updates on executables that round differently give the same bits (see optim/optimizer.hpp).
#include <krama/comm/mpi/communicator.hpp>
#include <krama/core/random.hpp>
#include <krama/optim/adam.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/optim/schedule.hpp>
#include <krama/optim/sgd.hpp>
#include <krama/tensor/copy.hpp>

#include "support/test_space.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>
#include <vector>

using namespace krama;

namespace {

/// Hash of the values after 50 updates of 4000 parameters, as text.
template <class A, class O>
std::string train(const O& optimizer) {
  using D = TestDevice;
  using M = mem_of<D>;
  const exec_of<D> exec;
  const std::int64_t n = 4000;
  Tensor<A, 1, M> w(exec, "w", {n}), g(exec, "g", {n}), m(exec, "m", {n}), v(exec, "v", {n});
  Tensor<std::uint8_t, 1, M> attributes(exec, "a", {(n + chunk_size - 1) / chunk_size});
  const auto numbers = [&](std::uint32_t stream) {
    std::vector<A> x;
    for (std::int64_t i = 0; i < n; ++i) {
      x.push_back(static_cast<A>(normal({4, stream, 0}, static_cast<std::uint64_t>(i))));
    }
    return x;
  };
  fill(exec, m.ref(), A{0});
  fill(exec, v.ref(), A{0});
  fill(exec, attributes.ref(), std::uint8_t{chunk_decays});
  upload(exec, w.ref(), std::span<const A>(numbers(0)));
  const auto schedule = optim::Schedule::cosine(0.02, 5, 50, 0.001);
  for (std::int64_t t = 1; t <= 50; ++t) {
    upload(exec, g.ref(), std::span<const A>(numbers(static_cast<std::uint32_t>(t))));
    optimizer.template update<D, A>(exec,
                                    {w.ref(), g.cref(), {m.ref(), v.ref()}, attributes.cref()},
                                    {schedule.at(t - 1), 1.0 / 7.0, t});
  }
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const A x : download(exec, w.cref())) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof(A));
    hash = (hash ^ bits) * 0x100000001b3U;
  }
  return std::to_string(hash);
}

template <class A>
std::string all() {
  return train<A>(optim::AdamW{.weight_decay = 0.1}) + " " +
         train<A>(optim::Adam{.weight_decay = 0.1}) + " " +
         train<A>(optim::Sgd{.momentum = 0.9, .nesterov = true, .l2 = 0.01}) + " " +
         train<A>(optim::Sgd{.momentum = 0.9, .decoupled_decay = 0.1});
}

}  // namespace

TEST_CASE("optimizers: unlike executables update to the same bits", "[optim]") {
  auto comm = MpiComm::world();
  const std::string mine = all<float>() + " " + all<double>();
  for (const auto& theirs : comm.gather_text(mine, "values")) CHECK(theirs == mine);
}
