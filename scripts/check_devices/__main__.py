# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Compiles every kernel, layer, loss and optimizer, and whole programs, for devices.

check_devices [cuda|hip] [--full] [--list] [--root FOLDER] [--only WORD] [--docs]

Units are made from what the headers define; a header without an instantiation fails by name. An object
that lacks device code for a kernel that its unit names has failed. Nothing is run: no GPU is needed.
Exit code: 0 passed, 1 failed, 77 nothing compiled because no compiler is there.
"""

import argparse
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import backends  # noqa: E402
import compile_unit  # noqa: E402
import headers  # noqa: E402
import resources  # noqa: E402
import units  # noqa: E402

MOST_UNITS = 40
NOISE = ("ptxas info", "bytes stack frame", " remark: ", "In file included from", "                 from ")
LAUNCHED = "_parallel_launch_"  # in the names of Kokkos' entry functions; the rest is called by them


def skipped(unit, backend, compiler):
    """Why a door to a vendor's library cannot be compiled here; else empty."""
    lacking = backend.lacks(compiler, unit.library[backend.name][0]) if unit.library else []
    return f"{unit.name}: there is no {' and no '.join(lacking)} here" if lacking else ""


def check_unit(unit, backend, compiler, arch, root, cache):
    """Prints a line of the table; returns (passed, result)."""
    result = compile_unit.compile_unit(backend, compiler, arch, root / "include", units.text_of(unit, backend), cache,
                                       bool(unit.library))
    names = [n for n in result["functions"].values() if LAUNCHED in n]
    missing = [f"{k.name} ({', '.join(m)})" for k in unit.kernels if (m := k.missing(names))] if result["ok"] else []
    if unit.library and result["ok"]:
        missing += [f"{f} (never called)" for f in unit.library[backend.name][2] if f not in result["calls"]]
    passed = result["ok"] and not missing
    seconds = "kept" if result["cached"] else f"{result['seconds']:.1f}"
    print(f"{unit.name:52} {backend.name} {arch:7} {seconds:>7} {len(names):>7}  {'ok' if passed else 'FAILED'}",
          flush=True)
    if not result["ok"]:
        lines = [x for x in result["log"].splitlines() if not any(n in x for n in NOISE)]
        print("\n".join("    " + x[:400] for x in lines[:30]), flush=True)
    if missing:
        print("    not in the object: " + "; ".join(dict.fromkeys(missing)), flush=True)
    return passed, result


def check_backend(backend, archs, todo, root, cache):
    """"passed", "FAILED" or "SKIPPED", and results by architecture."""
    compiler = backend.find()
    if compiler is None or backends.kokkos() is None:
        lack = backend.compiler if compiler is None else "Kokkos' headers"
        print(f"\n*** {backend.name}: SKIPPED, nothing was compiled: there is no {lack} here ***\n")
        return "SKIPPED", {}
    good, results, left_out = True, {}, []
    for arch in archs:
        for unit in todo:
            if why := skipped(unit, backend, compiler):
                print(f"\n*** {backend.name} {arch}: SKIPPED {why} ***\n", flush=True)
                left_out.append(unit.name)
                continue
            passed, result = check_unit(unit, backend, compiler, arch, root, cache)
            good = good and passed
            results.setdefault(arch, []).append(result)
    if not results:
        return "SKIPPED", {}
    names = ", ".join(dict.fromkeys(left_out))
    return ("passed" if good else "FAILED") + (f" but for {names} SKIPPED" if names else ""), results


def write_docs(root, all_results):
    """Replaces the sections of what was compiled now; the others stay."""
    page = root / "docs" / "device_resources.md"
    head = ("# Resources of the device kernels\n\nWritten by `./toolbox check-devices --docs` from the compilers'"
            " reports: compiled, not run.\n")
    old = page.read_text(encoding="utf-8") if page.exists() else head
    sections = dict(s.split("\n", 1) for s in old.split("\n## ")[1:])
    for name, (title, results) in all_results.items():
        spill_unit = "bytes" if name.startswith("cuda") else "registers"
        sections[name] = f"\n{title}\n\n{resources.table(results, spill_unit)}\n"
    page.write_text(head + "".join(f"\n## {n}\n{t.rstrip()}\n" for n, t in sorted(sections.items())), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(prog="check-devices", description=__doc__.splitlines()[0])
    parser.add_argument("backend", nargs="?", choices=sorted(backends.BACKENDS))
    parser.add_argument("--full", action="store_true", help="further architectures")
    parser.add_argument("--list", action="store_true", help="only check that the recipes are complete")
    parser.add_argument("--only", default="", help="units whose name holds this word")
    parser.add_argument("--docs", action="store_true", help="write docs/device_resources.md")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()

    todo, faults = units.plan(headers.read_all(options.root))
    if len(todo) > MOST_UNITS:
        faults.append(f"{len(todo)} units are more than {MOST_UNITS}; raise PER_UNIT in units.py")
    for fault in faults:
        print(f"check-devices: {fault}")
    if options.list or faults:
        print(f"{len(todo)} units, {sum(len(u.kernels) for u in todo)} kernels named, {len(faults)} faults")
        return 1 if faults else 0

    todo = [u for u in todo if options.only in u.name]
    cache = pathlib.Path(os.environ.get("KRAMA_CACHE", pathlib.Path.home() / ".cache" / "krama")) / "devices"
    cache.mkdir(parents=True, exist_ok=True)
    print(f"{'unit':52} back end     seconds kernels")
    ends, docs = {}, {}
    for name in [options.backend] if options.backend else list(backends.BACKENDS):
        backend = backends.BACKENDS[name]
        ends[name], results = check_backend(backend, backend.full if options.full else backend.default, todo,
                                            options.root, cache)
        for arch, of_arch in results.items():
            docs[f"{name} {arch}"] = (f"{compile_unit.release_of(backend.find())}; the largest of all instantiations.",
                                      of_arch)
    if options.docs and docs and not options.only:
        write_docs(options.root, docs)
    print("check-devices: " + ", ".join(f"{n} {e}" for n, e in ends.items()))
    if any(e.startswith("FAILED") for e in ends.values()):
        return 1
    return 0 if any(e.startswith("passed") for e in ends.values()) else 77


if __name__ == "__main__":
    sys.exit(main())
