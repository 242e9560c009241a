# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Back ends: compilers, options and the Kokkos configuration that turns one on.

Kokkos' headers hold every back end; only its generated configuration selects. A folder of changed
copies of that configuration, before Kokkos' own on the include path, gives real device code. The
objects can be neither linked nor run, for Kokkos' library lacks the back end.
"""

import dataclasses
import pathlib
import re
import shutil

KOKKOS = [pathlib.Path("/usr/include/kokkos"), pathlib.Path("/usr/local/include/kokkos")]


@dataclasses.dataclass(frozen=True)
class Backend:
    name: str
    space: str  # of Kokkos
    folder: str  # word in Kokkos' file names
    compiler: str
    places: tuple
    defines: dict  # architecture -> macros
    options: tuple
    default: tuple
    full: tuple

    def find(self):
        found = shutil.which(self.compiler)
        for place in self.places:
            if not found and pathlib.Path(place, self.compiler).exists():
                found = str(pathlib.Path(place, self.compiler))
        return found

    def lacks(self, compiler, headers):
        """Those of a vendor's headers that are not where its compiler looks."""
        top = pathlib.Path(compiler).resolve().parents[1]
        places = [top / "include", *top.glob("targets/*/include"), pathlib.Path("/usr/include"),
                  pathlib.Path("/usr/local/include"), pathlib.Path("/opt/rocm/include")]
        return [h for h in headers if not any((p / h).exists() for p in places)]

    def command(self, compiler, arch, include, config, unit, target, library=False):
        flag = "-arch=" if self.name == "cuda" else "--offload-arch="
        return [compiler, *self.options, flag + arch, "-I", str(include), "-isystem", str(config),
                "-isystem", str(kokkos()), *(mpi() if library else ()), "-c", str(unit), "-o", str(target)]


CUDA = Backend(
    "cuda", "Cuda", "CUDA", "nvcc", ("/usr/local/cuda/bin",),
    {"sm_90": ("ARCH_HOPPER", "ARCH_HOPPER90"), "sm_80": ("ARCH_AMPERE", "ARCH_AMPERE80")},
    ("-x", "cu", "-std=c++20", "--extended-lambda", "--expt-relaxed-constexpr", "--no-compress",
     "--Werror", "all-warnings", "-Xptxas", "-v", "-Xcompiler", "-fopenmp,-Wall,-Wextra,-Werror"),
    ("sm_90",), ("sm_90", "sm_80"))
HIP = Backend(
    "hip", "HIP", "HIP", "hipcc", ("/opt/rocm/bin",),
    {"gfx90a": ("ARCH_AMD_GFX90A",), "gfx942": ("ARCH_AMD_GFX942",)},
    ("-x", "hip", "-std=c++20", "-fopenmp", "-Wall", "-Wextra", "-Werror",
     "-Rpass-analysis=kernel-resource-usage", "-fno-caret-diagnostics"),
    ("gfx90a",), ("gfx90a", "gfx942"))
BACKENDS = {"cuda": CUDA, "hip": HIP}


def mpi():
    """Where MPI's header is, if it is not where compilers look."""
    found = sorted(pathlib.Path("/usr/lib").glob("*/mpich/include/mpi.h"))
    return ("-isystem", str(found[0].parent)) if found else ()


def kokkos():
    return next((p for p in KOKKOS if (p / "KokkosCore_config.h").exists()), None)


def define(text, name, value=""):
    line = f"#define {name}{' ' + value if value else ''}"
    changed, n = re.subn(rf"^/\* #undef {name} \*/$", line, text, flags=re.M)
    if n != 1:
        raise SystemExit(f"check-devices: {name} is not among the choices of this Kokkos' configuration")
    return changed


def write_config(backend, arch, folder):
    """Makes the folder of overriding configuration headers."""
    source = kokkos()
    (folder / "desul" / "atomics").mkdir(parents=True, exist_ok=True)
    word, mixed = backend.folder, {"CUDA": "Cuda", "HIP": "HIP"}[backend.folder]

    text = (source / "KokkosCore_config.h").read_text()
    text = define(text, f"KOKKOS_ENABLE_{word}")
    for name in backend.defines[arch]:
        text = define(text, f"KOKKOS_{name}")
    if word == "CUDA":
        text = define(text, "KOKKOS_ENABLE_CUDA_CONSTEXPR") + "\n#define KOKKOS_ENABLE_CUDA_LAMBDA\n"
    else:
        text = define(text, "KOKKOS_ARCH_AMD_GPU", f'"{arch}"')
    (folder / "KokkosCore_config.h").write_text(text)

    # The host's part first; the other order does not compile.
    for part, place in (("Declare", "decl"), ("Fwd", "fwd")):
        name = f"KokkosCore_Config_{part}Backend.hpp"
        text = (source / name).read_text()
        host = rf"(#include <{place}/Kokkos_{part}_OPENMP.hpp>)"
        (folder / name).write_text(re.sub(host, rf"\1\n#include <{place}/Kokkos_{part}_{word}.hpp>", text))
    name = "KokkosCore_Config_SetupBackend.hpp"
    text = (source / name).read_text()
    (folder / name).write_text(text.replace(
        "#define KOKKOS_SETUP_HPP_", f"#define KOKKOS_SETUP_HPP_\n#include <setup/Kokkos_Setup_{mixed}.hpp>"))
    # Without the host's atomics: with them HIP does not compile and CUDA emits no atomics.
    text = (source / "desul" / "atomics" / "Config.hpp").read_text()
    (folder / "desul" / "atomics" / "Config.hpp").write_text(define(text, f"DESUL_ATOMICS_ENABLE_{word}"))


def write_krama_config(template, folder):
    """Krama's own generated header, everything optional off: devices use no host libraries."""
    text = re.sub(r"#cmakedefine01 (\w+)", r"#define \1 0", template.read_text())
    (folder / "krama").mkdir(exist_ok=True)
    (folder / "krama" / "config.hpp").write_text(re.sub(r"@\w+@", "0", text))
