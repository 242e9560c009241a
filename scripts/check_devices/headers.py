# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""What the headers define: layers, losses and optimizers, and the kernels that devices must get.

Read from the text, so that nothing new can be forgotten: whatever stands in these folders is either
understood here, or named in recipes.py, or a fault.
"""

import dataclasses
import pathlib
import re

FOLDERS = {"kernels": "kernels", "nn/layers": "layers", "nn/losses": "losses", "optim": "optimizers"}
FUNCTOR = re.compile(r"KOKKOS_FUNCTION void operator\(\)\(")
STRUCT = re.compile(r"^(?:template <(?P<params>[^>]*)>\n(?:  requires .*\n)?)?(?:struct|class) (?P<name>\w+)\b[^;{]*\{", re.M)
FUNCTION = re.compile(r"^ *(?:\[\[nodiscard\]\] )?[\w:<>]+ (?P<name>\w+)\((?:const )?\w[\w:<>, ]*[&> ]", re.M)
SCALARS = ("double", "float", "krama::bf16", "krama::f16")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A name that must show in the demangled device functions, with each of `types`."""

    name: str
    types: tuple

    def missing(self, functions):
        """The types for which no function of the list carries the name."""
        if not self.types:
            return [] if any(re.search(rf"\b{self.name}\b", f) for f in functions) else ["any type"]
        return [t for t in self.types
                if not any(re.search(rf"\b{self.name}<[^()]*?(?<![\w:]){t}(?!\w)", f) for f in functions)]


@dataclasses.dataclass
class Header:
    path: str  # below include/krama
    kind: str
    subjects: list  # layers, losses, optimizers
    kernels: list
    includes: list


def types_of(params):
    """Element types with which a template must be met, from its first type parameter."""
    names = re.findall(r"class (\w+)", params or "")
    if any(n in ("T", "TA", "TB") for n in names):
        return SCALARS
    return SCALARS[:2] if "A" in names else ()


def kernels_of(text, subjects):
    found = {}
    structs = [(m.start(), m["name"], m["params"]) for m in STRUCT.finditer(text)]
    for m in FUNCTOR.finditer(text):
        _, name, params = [s for s in structs if s[0] < m.start()][-1]
        found[name] = Kernel(name, types_of(params))
    for m in re.finditer(r"\bKOKKOS_LAMBDA\(", text):
        function = [f["name"] for f in FUNCTION.finditer(text, 0, m.start()) if f["name"] not in ("if", "for")][-1]
        owner = [s for s in structs if s[0] < m.start() and s[1] in subjects]
        name = f"{owner[-1][1]}::{function}" if owner else function
        found[name] = Kernel(name, SCALARS)
    return list(found.values())


def read(path, root):
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"//.*", "", text)
    name = str(path.relative_to(root / "include" / "krama"))
    kind = next((k for f, k in FOLDERS.items() if name.startswith(f + "/")), "")
    subjects = []
    for m in STRUCT.finditer(text):
        body = text[m.end():text.find("\n};", m.end())]
        if "static constexpr std::string_view type_name" in body and not m["params"]:
            subjects.append(m["name"])
    return Header(name, kind, subjects, kernels_of(text, subjects),
                  re.findall(r"#include <krama/([^>]+)>", text))


def read_all(root):
    """Headers by path; test tools are left out."""
    base = pathlib.Path(root) / "include" / "krama"
    files = sorted(p for p in base.rglob("*.hpp") if "testing" not in p.parts)
    return {h.path: h for h in (read(p, pathlib.Path(root)) for p in files)}
