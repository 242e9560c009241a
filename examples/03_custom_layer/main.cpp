// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors

// A layer of one's own, checked like Krama's own layers, then trained.

#include <krama/models/mlp.hpp>
#include <krama/nn/losses/mean_squared_error.hpp>
#include <krama/optim/adamw.hpp>
#include <krama/runtime/run.hpp>
#include <krama/testing/check_layer.hpp>
#include <krama/train/trainer.hpp>

#include <cstdio>

namespace {

// layer begins
/// y_j = a_j x_j^2 over the last extent; dx = 2 a x dy, da += sum over rows of x^2 dy.
struct ScaledSquare {
  std::int64_t features = 0;

  static constexpr std::string_view type_name = "scaled_square";
  static constexpr krama::nn::Saves saves = krama::nn::Saves::input;
  static constexpr int rank = 2;

  void params(krama::ParamSpec& spec) const {
    spec("scale", {features}, krama::Init::ones(), {.decay = false});
  }

  template <krama::Device D, class T>
  void forward(const krama::nn::Context<D, T>& ctx, krama::Ref<const T, 2, D> x,
               krama::Ref<T, 2, D> y) const {
    const auto a = ctx.template param<1>(0);
    krama::kokkos_ext::launch(
        ctx.exec(), "krama::example::scaled_square::forward", x.extent(0),
        KOKKOS_LAMBDA(std::int64_t i) {
          for (std::int64_t j = 0; j < x.extent(1); ++j) y(i, j) = a(j) * x(i, j) * x(i, j);
        });
  }

  template <krama::Device D, class T>
  void backward(const krama::nn::Context<D, T>& ctx,
                const krama::nn::SavedOf<ScaledSquare, D, T>& saved, krama::Ref<const T, 2, D> dy,
                krama::Ref<T, 2, D> dx) const {
    const auto a = ctx.template param<1>(0);
    const auto x = saved.x;
    const auto da = ctx.template grad<1>(0);
    if (!da.null()) {
      krama::kokkos_ext::launch(
          ctx.exec(), "krama::example::scaled_square::scale_gradient", da.extent(0),
          KOKKOS_LAMBDA(std::int64_t j) {
            krama::accum_t<T> sum = 0;
            for (std::int64_t i = 0; i < x.extent(0); ++i) sum += x(i, j) * x(i, j) * dy(i, j);
            da(j) += sum;
          });
    }
    if (dx.null()) return;
    krama::kokkos_ext::launch(
        ctx.exec(), "krama::example::scaled_square::backward", x.extent(0),
        KOKKOS_LAMBDA(std::int64_t i) {
          for (std::int64_t j = 0; j < x.extent(1); ++j) {
            dx(i, j) = T(2) * a(j) * x(i, j) * dy(i, j);
          }
        });
  }
};
// layer ends

/// Learn y = x0^2 + x1^2.
struct Parabola {
  using input_type = double;
  using target_type = double;
  static std::int64_t size() { return 1000; }
  static krama::Shape input_shape() { return {2}; }
  static std::int64_t targets_per_sample() { return 1; }
  static std::int64_t rows_per_sample() { return 1; }
  static void fetch(std::span<const std::int64_t> ids, std::span<double> x, std::span<double> y,
                    std::span<float> weights) {
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const auto id = static_cast<std::uint64_t>(ids[k]);
      const double a = krama::uniform({4, 0, 0}, 2 * id);
      const double b = krama::uniform({4, 0, 0}, 2 * id + 1);
      x[2 * k] = a;
      x[2 * k + 1] = b;
      y[k] = a * a + b * b;
      weights[k] = 1.0F;
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  return krama::run(argc, argv, [](krama::World& world) {
    using D = krama::DefaultDevice;
    // check begins
    const auto report = krama::testing::check_layer<D, double>(ScaledSquare{5}, {7, 5});
    if (!report.ok()) {
      std::fputs(report.text().c_str(), stderr);
      return 1;
    }
    // check ends

    using namespace krama::nn;
    const krama::exec_of<D> exec;
    Model<D, double> model;
    const ValueId x = model.input("x", {2});
    model.block("net", chain(ScaledSquare{2}, Linear{.in_features = 2, .out_features = 1}), x);
    auto parameters = model.make_store(exec, 1);
    krama::train::Trainer trainer(
        exec, model, parameters, MeanSquaredError{}, krama::optim::AdamW{},
        krama::optim::Schedule::constant(0.02), world,
        {.global_batch = 50, .steps = 500, .executor = {.micro_batch = 50}});
    const Parabola source;
    trainer.fit(source);
    const double loss = trainer.evaluate(source);
    if (world.rank() == 0) std::printf("loss %.6f\n", loss);
    return loss < 1e-2 ? 0 : 1;
  });
}
