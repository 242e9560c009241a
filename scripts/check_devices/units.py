# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Units: what is compiled together, its text, and the kernels that its object must hold.

`plan` also says what is wrong with the recipes: a header without one, a layer that names no kernel,
a recipe for what is gone.
"""

import dataclasses
import re

import headers as h
import recipes as r

LAYER = ("template void use_layer<nn::{0}, {1}>(const nn::{0}&, const nn::Context<D, {1}>&, In<nn::{0}, {1}>,"
         " InGrad<nn::{0}, {1}>, Out<nn::{0}, {1}>, OutGrad<nn::{0}, {1}>, const nn::SavedOf<nn::{0}, D, {1}>&);")
LOSS = ("template void nn::{0}::operator()<D, {1}>(const E&, Ref<const {1}, 2, D>, Ref<const nn::target_of<nn::{0},"
        " {1}>, 1, D>, Ref<const accum_t<{1}>, 1, D>, Ref<double, 1, D>, Ref<double, 1, D>, Ref<{1}, 2, D>) const;")
OPTIMIZER = ("template void optim::{0}::update<D, {1}>(const E&, const optim::UpdateRange<{1}, M>&,"
             " const optim::UpdateScalars&) const;")
TYPES = ("double", "float", "bf16", "f16")
PROGRAM_HEADERS = ("comm/self.hpp", "nn/losses/cross_entropy.hpp", "nn/losses/mean_squared_error.hpp",
                   "optim/adam.hpp", "optim/adamw.hpp", "optim/sgd.hpp")
PER_UNIT = 4


@dataclasses.dataclass
class Unit:
    name: str
    headers: list
    lines: list
    kernels: list
    library: dict = dataclasses.field(default_factory=dict)  # of recipes.LIBRARIES


def lines_of(header, serial):
    """C++ that instantiates what a header defines."""
    if header.path in r.PROGRAMS:
        return list(r.PROGRAMS[header.path])
    if header.kind == "layers":
        return [LAYER.format(s, t) for s in header.subjects for t in TYPES]
    if header.kind == "losses":
        return [LOSS.format(s, t) for s in header.subjects for t in TYPES]
    if header.kind == "optimizers":
        return [OPTIMIZER.format(s, t) for s in header.subjects for t in TYPES[:2]]
    return lines_from(r.KERNELS.get(header.path, []), serial)


def lines_from(recipe, serial):
    """A template and its instantiations for each "T:" and "A:"; other lines as they are."""
    lines = []
    for n, line in enumerate(recipe):
        if line[:3] not in ("T: ", "A: "):
            lines.append(line)
            continue
        kind, call = line.split(": ", 1)
        name = f"use_{serial}_{n}"
        lines.append(f"template <class {kind}> void {name}(const Any& any) {{ {call} }}")
        lines += [f"template void {name}<{t}>(const Any&);" for t in (TYPES if kind == "T" else TYPES[:2])]
    return lines


def own_kernels(path, all_headers):
    """Kernels of a header and of the details that it includes, directly or through each other."""
    found, todo, seen = [], [path], set()
    while todo:
        one = todo.pop()
        if one in seen or one not in all_headers:
            continue
        seen.add(one)
        found += all_headers[one].kernels
        todo += [i for i in all_headers[one].includes if "/detail/" in i]
    return [k for k in found if k.name not in r.HOST_ONLY], seen


def expected(header, all_headers, library=False):
    by_name = {k.name: k for one in all_headers.values() for k in one.kernels}
    kernels = [k for k in own_kernels(header.path, all_headers)[0] if library or k.name not in r.LIBRARY_ONLY]
    for name in r.PROGRAM_KERNELS.get(header.path, []):
        kernels.append(h.Kernel(name, ()))
    for subject in header.subjects:
        kernels += [by_name[n] for n in r.LAYER_KERNELS.get(subject, []) if n in by_name]
        if header.kind == "losses":
            kernels.append(h.Kernel(f"{subject}Row", h.SCALARS))
    if header.path == "kernels/vector_math.hpp":
        kernels.append(h.Kernel("Math", h.SCALARS[:2]))
    if header.path == "kernels/row_reduce.hpp":
        kernels.append(h.Kernel("Rows", h.SCALARS[:2]))
    return kernels


def faults_of(all_headers):
    faults, covered = [], set()
    for path, header in all_headers.items():
        if not header.kind or "/detail/" in path or path in r.NOTHING_FOR_DEVICES:
            continue
        covered |= own_kernels(path, all_headers)[1]
        if header.kind == "kernels":
            if path not in r.KERNELS:
                faults.append(f"{path}: no instantiation in KERNELS of scripts/check_devices/recipes.py")
        elif not header.subjects:
            faults.append(f"{path}: no struct with a type_name is found to instantiate;"
                          " name the header in scripts/check_devices/recipes.py")
        elif not expected(header, all_headers):
            faults.append(f"{path}: launches no kernel of its own; name those of {', '.join(header.subjects)}"
                          " in LAYER_KERNELS of scripts/check_devices/recipes.py")
    covered |= set(r.NOTHING_FOR_DEVICES) | set(r.KERNELS)
    for path, header in all_headers.items():
        left = [k.name for k in header.kernels if k.name not in r.HOST_ONLY]
        if left and path not in covered:
            faults.append(f"{path}: no recipe leads to its kernels {', '.join(left)}")
    for path in [*r.KERNELS, *r.NOTHING_FOR_DEVICES, *r.PROGRAMS, *r.LIBRARIES]:
        if path not in all_headers:
            faults.append(f"{path}: has a recipe, but is not there")
    names = {k.name for one in all_headers.values() for k in one.kernels}
    for name in [*r.HOST_ONLY, *r.LIBRARY_ONLY, *(n for v in r.LAYER_KERNELS.values() for n in v)]:
        if name not in names:
            faults.append(f"{name}: named in recipes.py, but no header defines such a kernel")
    return faults


def plan(all_headers):
    """Units (at most PER_UNIT headers of one kind in each) and faults."""
    wanted = [x for p, x in all_headers.items() if "/detail/" not in p and p not in r.NOTHING_FOR_DEVICES and
              (x.kind or p in r.KERNELS or p in r.PROGRAMS)]
    kind = lambda x: x.kind or ("programs" if x.path in r.PROGRAMS else "kernels")
    units = []
    for name in ("kernels", "layers", "losses", "optimizers", "programs"):
        group = [x for x in wanted if kind(x) == name]
        size = 1 if name == "programs" else PER_UNIT
        for at in range(0, len(group), size):
            part = group[at:at + size]
            stems = ", ".join(re.sub(r".*/|\.hpp", "", x.path) for x in part)
            includes = [x.path for x in part] + (list(PROGRAM_HEADERS) if name == "programs" else [])
            units.append(Unit(f"{name}: {stems}", includes,
                              [line for n, x in enumerate(part) for line in lines_of(x, n)],
                              [k for x in part for k in expected(x, all_headers)]))
    for path, library in r.LIBRARIES.items():
        if path in all_headers:
            stem = re.sub(r".*/|\.hpp", "", path)
            if "lines" in library:
                stem = path.split("/")[-2]
                units.append(Unit(f"libraries: {stem}", ["program/executor.hpp", *PROGRAM_HEADERS, path],
                                  lines_from(library["lines"], 0), [h.Kernel("UpdateElement", ())], library))
                continue
            units.append(Unit(f"libraries: {stem}", [path], lines_of(all_headers[path], 0),
                              expected(all_headers[path], all_headers, True), library))
    return units, faults_of(all_headers)


def text_of(unit, backend):
    includes = "\n".join(f"#include <krama/{p}>" for p in
                         dict.fromkeys(["nn/layer.hpp", "kernels/row_reduce.hpp", *unit.headers]))
    if unit.library:
        macro = unit.library[backend.name][1]
        includes = f"#include <krama/config.hpp>\n#undef {macro}\n#define {macro} 1\n{MPI_WHERE_FOUND}" + includes
    return PRELUDE.replace("@includes@", includes).replace("@space@", backend.space) + "\n".join(unit.lines) + "\n"


# Communicators of vendors' libraries agree over MPI. Where that is not, over the one rank's stand-in: it has
# one rank for certain, so compilers drop the calls and the unit fails.
MPI_WHERE_FOUND = """\
#if __has_include(<mpi.h>)
#undef KRAMA_ENABLE_MPI
#define KRAMA_ENABLE_MPI 1
#define MPICH_SKIP_MPICXX
#endif
"""
PRELUDE = """\
@includes@

using namespace krama;
using E = Kokkos::@space@;
using D = E::device_type;
using M = E::memory_space;

/// Stands for every argument; nothing of this is run or linked.
struct Any {
  template <class X>
  operator X() const;
};

template <class L, class T> using In = Ref<const nn::input_of<L, T>, nn::detail::rank_in<L>(), D>;
template <class L, class T> using InGrad = Ref<nn::input_of<L, T>, nn::detail::rank_in<L>(), D>;
template <class L, class T> using Out = Ref<T, nn::detail::rank_out<L>(), D>;
template <class L, class T> using OutGrad = Ref<const T, nn::detail::rank_out<L>(), D>;

template <class L, class T>
void use_layer(const L& layer, const nn::Context<D, T>& ctx, In<L, T> x, InGrad<L, T> dx, Out<L, T> y,
               OutGrad<L, T> dy, const nn::SavedOf<L, D, T>& saved) {
  layer.template forward<D, T>(ctx, x, y);
  layer.template backward<D, T>(ctx, saved, dy, dx);
}

template <class T>
struct Plain2d {
  T* p;
  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int64_t column) const { p[row] = p[column]; }
};
template <class A>
struct Math {
  A* p;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    using namespace kernels;
    const A x = p[i];
    p[i] = kernels::exp(x) + kernels::exp_nonpositive(x) + kernels::log(x) + kernels::sigmoid(x) +
           kernels::tanh(x) + kernels::erf(x);
  }
};
template <class A>
struct Rows {
  A* p;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const A* x = p;
    p[i] = kernels::row_sum<A>(i, [x](std::int64_t k) { return x[k]; }) +
           kernels::row_max<A>(i, A{0}, [x](std::int64_t k) { return x[k]; });
  }
};

"""
