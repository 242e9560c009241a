// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copyright (c) the Krama authors
//
// bench_conv [PART [SECONDS [doors]]]: Krama's door for convolutions against oneDNN called directly with every
// tensor in the layout that it likes best, and against Krama's own kernels; all three passes, shapes
// of ResNet-50 (4 images), U-Net (1) and a depthwise network. PART selects problems whose name
// contains it; SECONDS is the time for each (default 0.4). With the third word the door's way to oneDNN
// is timed as well, also where the rule does not take it: what conv_rule is derived from.
//
// Bars: in the geometric mean the door takes at most 5 % longer than oneDNN for y, 10 % for dx and 20 %
// for dw (oneDNN's best for dw has channels in blocks; turning the images costs what that gains), and
// it is never more than 10 % slower than Krama's own kernels.

#include "kernels/conv_peers.hpp"
#include "support/bench.hpp"

using namespace krama;
using namespace krama::bench;
using kernels::ConvDoor;
using kernels::ConvSizes;
using kernels::ForcedConvDoor;

namespace {

constexpr Pass passes[] = {Pass::forward, Pass::input_grad, Pass::weight_grad};

const char* name_of(Pass p) {
  return p == Pass::forward ? "y" : (p == Pass::input_grad ? "dx" : "dw");
}

std::vector<ConvProblem> problems() {
  std::vector<ConvProblem> all;
  const auto conv = [&all](const char* model, std::int64_t images, std::int64_t size,
                           std::int64_t in, std::int64_t out, std::int64_t kernel,
                           std::int64_t stride, std::int64_t groups = 1) {
    const std::int64_t padding = kernel / 2;
    const std::int64_t places = kernels::window_places(size, kernel, stride, padding, 1);
    const ConvSizes s{
        {images, size, size, places, places, kernel, stride, padding, 1}, in, out, groups};
    for (const Pass p : passes) {
      if (in == 3 && p == Pass::input_grad) continue;  // of the pictures themselves
      all.push_back({fmt::format("{} {}^2 {}->{} k{} s{}{} {}", model, size, in, out, kernel,
                                 stride, groups > 1 ? " depthwise" : "", name_of(p)),
                     s, p});
    }
  };
  conv("resnet", 4, 224, 3, 64, 7, 2);
  for (const std::int64_t c : {64, 128, 256, 512}) {
    const std::int64_t size = 56 * 64 / c;
    conv("resnet", 4, size, c, c, 3, 1);
    conv("resnet", 4, size, c, 4 * c, 1, 1);
    conv("resnet", 4, size, 4 * c, c, 1, 1);
    if (c < 512) {
      conv("resnet", 4, size, 2 * c, 2 * c, 3, 2);
      conv("resnet", 4, size, 4 * c, 8 * c, 1, 2);
    }
  }
  for (const std::int64_t c : {64, 128, 256, 512}) conv("unet", 1, 256 * 64 / c, c, c, 3, 1);
  conv("unet", 1, 256, 128, 64, 3, 1);
  conv("mobile", 4, 56, 128, 128, 3, 1, 128);
  conv("mobile", 4, 28, 256, 256, 3, 2, 256);
  return all;
}

void door(const ConvProblem& p, ConvData& d) {
  const Kokkos::DefaultHostExecutionSpace exec;
  using M = Kokkos::DefaultHostExecutionSpace::memory_space;
  const auto& s = p.sizes;
  const auto& k = s.window;
  const Extents<4> in{k.images, k.in_h, k.in_w, s.in_channels};
  const Extents<4> out{k.images, k.out_h, k.out_w, s.out_channels};
  const Extents<4> weights{s.out_channels, k.kernel.h, k.kernel.w, s.group_in()};
  using In = TensorRef<const float, 4, M>;
  const TensorRef<const float, 1, M> none(nullptr, {1});
  if (p.pass == Pass::forward) {
    kernels::conv_forward(exec, s, In(d.x.data(), in), In(d.w.data(), weights), none,
                          TensorRef<float, 4, M>(d.y.data(), out), d.scratch.data());
  } else if (p.pass == Pass::input_grad) {
    kernels::conv_input_grad(exec, s, In(d.y.data(), out), In(d.w.data(), weights), none,
                             TensorRef<float, 4, M>(d.x.data(), in), d.scratch.data());
  } else {
    kernels::conv_weight_grad(exec, s, In(d.x.data(), in), In(d.y.data(), out), d.w.data(),
                              d.scratch.data());
  }
}

/// Sums of logarithms for the geometric means.
struct Mean {
  double log_sum = 0;
  int count = 0;
  void add(double ratio) {
    log_sum += std::log(ratio);
    ++count;
  }
  [[nodiscard]] double value() const { return std::exp(log_sum / count); }
};

void measure(Report& report, const ConvProblem& p, double budget, bool doors, Mean& mean) {
  ConvData d(p);
  const double bound = 1e-6 * (1.0 + 0.05 * std::sqrt(static_cast<double>(p.sizes.depth())));
  const auto check = [&](const std::string& name) {
    report.check(p.name + " " + name, error_of(p, d), bound);
  };
  const auto reset = [&] { std::fill(d.made(p.pass).begin(), d.made(p.pass).end(), 1.0F); };
  std::vector<Variant> variants = {{"door", [&] { door(p, d); }}};
  const auto forced = [&](const char* name, ConvDoor which) {
    variants.push_back({name, [&p, &d, which] {
                          const ForcedConvDoor way(which);
                          door(p, d);
                        }});
  };
  forced("own", ConvDoor::portable);
  if (doors) forced("via oneDNN", ConvDoor::onednn);
  for (const auto& v : variants) {
    reset();
    v.run();
    check(v.name);
  }
#if KRAMA_HAS_ONEDNN
  DirectConv direct(p, d);
  reset();
  direct();
  direct.give();
  // It does not add.
  if (p.pass == Pass::weight_grad) {
    for (auto& w : d.w) w += 1.0F;
  }
  check("oneDNN");
  variants.push_back({"oneDNN", [&] { direct(); }});
#endif
  const Timings t = report.compare(p.name, variants, p.operations(), budget);
  report.bar(p.name + ": door over own kernels", t.ratio(0, 1), 1.10);
#if KRAMA_HAS_ONEDNN
  const std::size_t direct_at = variants.size() - 1;
  mean.add(t.ratio(0, direct_at));
#else
  (void)mean;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  clean_environment(argv);
  setenv("KOKKOS_DISABLE_WARNINGS", "1", 0);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  const std::string part = argc > 1 ? argv[1] : "";
  const double budget = argc > 2 ? std::atof(argv[2]) : 0.4;
  Report report("conv");
  Mean means[3];
  for (const ConvProblem& p : problems()) {
    if (p.name.find(part) == std::string::npos) continue;
    measure(report, p, budget, argc > 3, means[static_cast<int>(p.pass)]);
  }
  for (const Pass p : passes) {
    const Mean& m = means[static_cast<int>(p)];
    if (m.count > 0) {
      const double bound = p == Pass::forward ? 1.05 : (p == Pass::input_grad ? 1.10 : 1.20);
      report.bar(fmt::format("geometric mean of {}: door over oneDNN", name_of(p)), m.value(),
                 bound);
    }
  }
  return report.finish();
}
