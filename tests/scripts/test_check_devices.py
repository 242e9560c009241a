# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""scripts/check_devices notices what it is there to notice.

test_check_devices.py         what the recipes leave out (fast, no device compiler)
test_check_devices.py --cuda  also what nvcc must refuse; 77 where there is no nvcc
"""

import contextlib
import importlib.util
import io
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_devices"
HEAD = "#pragma once\n#include <krama/kernels/elementwise.hpp>\n#include <krama/nn/layer.hpp>\n"
LAYER = HEAD + """
namespace krama::nn {
inline float host_only(float x) { return x + 1.0F; }
struct Sample {
  static constexpr std::string_view type_name = "sample";
  static constexpr Saves saves = Saves::none;
  template <Device D, class T>
  void forward(const Context<D, T>& ctx, Ref<const T, 1, D> x, Ref<T, 1, D> y) const {
    run(ctx, x, y);
  }
  template <Device D, class T>
  void backward(const Context<D, T>& ctx, const SavedOf<Sample, D, T>&, Ref<const T, 1, D> dy,
                Ref<T, 1, D> dx) const {
    run(ctx, dy, dx);
  }
@access@
  template <Device D, class T>
  void run(const Context<D, T>& ctx, Ref<const T, 1, D> x, Ref<T, 1, D> y) const {
    const T* in = x.data();
    T* out = y.data();
    kernels::for_each(
        ctx.exec(), "krama::nn::sample", x.size(), KOKKOS_LAMBDA(std::int64_t i) {
          out[i] = static_cast<T>(@function@(static_cast<float>(in[i])));
        });
  }
};
}  // namespace krama::nn
"""
TEMPLATE = HEAD + "namespace krama::nn {\ntemplate <class F>\nstruct LeftOut {\n  F f;\n};\n}  // namespace krama::nn\n"
WRAPPER = TEMPLATE.replace("template <class F>\n", "").replace("  F f;", """\
  static constexpr std::string_view type_name = "left_out";""")
# file below include/krama, its text, what must be said
LISTED = [
    ("kernels/left_out.hpp", HEAD, "kernels/left_out.hpp: no instantiation"),
    ("nn/layers/left_out.hpp", TEMPLATE, "nn/layers/left_out.hpp: no struct with a type_name"),
    ("nn/layers/left_out.hpp", WRAPPER, "name those of LeftOut in LAYER_KERNELS"),
    ("nn/losses/left_out.hpp", HEAD, "nn/losses/left_out.hpp: no struct"),
    ("optim/left_out.hpp", HEAD, "optim/left_out.hpp: no struct"),
    ("memory/left_out.hpp", "struct LeftOut {\n  KOKKOS_FUNCTION void operator()(int) const {}\n};\n",
     "memory/left_out.hpp: no recipe leads to its kernels LeftOut"),
]
# text of nn/layers/sample.hpp, what must be said (None: it passes)
COMPILED = [
    (LAYER.replace("@access@", " public:").replace("@function@", ""), None),
    (LAYER.replace("@access@", " private:").replace("@function@", ""), "private"),
    (LAYER.replace("@access@", " public:").replace("@function@", "host_only"), "host_only"),
    (LAYER.replace("@access@", " public:").replace("@function@", "").replace("    kernels::for_each(",
                                                                            "    if constexpr (sizeof(T) == 1) kernels::for_each("),
     "not in the object: Sample::run"),
]


def run(path, text, *options):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        shutil.copytree(ROOT / "include", root / "include")
        shutil.copytree(ROOT / "cmake", root / "cmake")
        (root / "include" / "krama" / path).write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(SCRIPT), *options, "--root", folder], capture_output=True,
                              text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def library_cases():
    """What is said of a door whose headers are not here, and of one that calls nothing; wrong ones."""
    sys.path.insert(0, str(SCRIPT))
    spec = importlib.util.spec_from_file_location("check", SCRIPT / "__main__.py")
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    hip = check.backends.HIP
    unit = check.units.Unit("libraries: sample", [], [], [],
                            {"hip": (("stdio.h", "no_such.h", "nor/this.h"), "KRAMA_HAS_SAMPLE", ("sampleGemm",))})
    here = check.units.Unit("libraries: here", [], [], [], {"hip": (("stdio.h",), "KRAMA_HAS_SAMPLE", ("sampleGemm",))})
    check.backends.kokkos = lambda: pathlib.Path("/")
    find = check.backends.Backend.find
    check.backends.Backend.find = lambda self: "/usr/bin/hipcc"
    made = {"ok": True, "log": "", "seconds": 1, "cached": False, "functions": {}, "resources": {}}
    wrong = []
    for todo, calls, wanted_end, wanted_text in [
            ([unit], [], "SKIPPED", "no no_such.h and no nor/this.h here"),
            ([unit, here], ["sampleGemm"], "passed but for libraries: sample SKIPPED", "*** hip gfx: SKIPPED"),
            ([here], ["otherGemm"], "FAILED", "sampleGemm (never called)")]:
        check.compile_unit.compile_unit = lambda *_, c=calls: {**made, "calls": c}
        with contextlib.redirect_stdout(io.StringIO()) as said:
            end, _ = check.check_backend(hip, ["gfx"], todo, ROOT, None)
        if end != wanted_end or wanted_text not in said.getvalue():
            wrong.append(f"libraries: wanted {wanted_end!r} and {wanted_text!r}, found {end!r}: {said.getvalue()}")
    check.backends.Backend.find = find
    return 3, wrong


def main():
    cases, wrong = library_cases()
    for path, text, wanted in LISTED:
        code, said = run(path, text, "--list")
        if code != 1 or wanted not in said:
            wrong.append(f"{path}: wanted {wanted!r}, found {code}: {said}")
    code, said = run("nn/layers/sample.hpp", COMPILED[0][0], "--list")
    if "sample" in said:
        wrong.append(f"a new layer of the usual form: wanted nothing, found {code}: {said}")
    cases += len(LISTED) + 1
    if "--cuda" in sys.argv[1:]:
        for text, wanted in COMPILED:
            code, said = run("nn/layers/sample.hpp", text, "cuda", "--only", "sample")
            if code == 77:
                print("SKIPPED: there is no nvcc")
                return 77
            cases += 1
            if (code != 0) if wanted is None else (code != 1 or wanted not in said):
                wrong.append(f"compiled: wanted {wanted!r}, found {code}: {said}")
    print(f"{cases - len(wrong)} of {cases} right", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
