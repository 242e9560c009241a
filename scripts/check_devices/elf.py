# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""Device code inside an object file: the ELF images of its fat binary, read without vendor tools."""

import pathlib
import struct
import subprocess

MACHINES = {190: "cuda", 224: "hip"}
SHT_SYMTAB, STT_FUNC = 2, 2


def sections(image):
    """(name, type, offset, size, link) of a 64-bit ELF image, or [] where it is none."""
    if image[:5] != b"\x7fELF\x02":
        return []
    table, = struct.unpack_from("<Q", image, 40)
    size, count, names = struct.unpack_from("<HHH", image, 58)
    raw = [struct.unpack_from("<IIQQQQI", image, table + i * size) for i in range(count)]
    start = raw[names][4]

    def name(at):
        return image[start + at:image.index(b"\0", start + at)].decode()

    return [(name(s[0]), s[1], s[4], s[5], s[6]) for s in raw]


def functions_of_image(image):
    """Mangled names of the functions that hold code in one device image."""
    found = set()
    parts = sections(image)
    for _, kind, offset, size, link in parts:
        if kind != SHT_SYMTAB:
            continue
        strings = parts[link][2]
        for at in range(offset, offset + size, 24):
            name, info, _, index, _, length = struct.unpack_from("<IBBHQQ", image, at)
            if info & 15 == STT_FUNC and length > 0 and 0 < index < 0xff00:
                begin = strings + name
                found.add(image[begin:image.index(b"\0", begin)].decode())
    return found


def called_functions(path):
    """Names that a host object leaves to other objects and libraries."""
    data = path.read_bytes()
    parts, found = sections(data), set()
    for _, kind, offset, size, link in parts:
        if kind != SHT_SYMTAB:
            continue
        strings = parts[link][2]
        for at in range(offset, offset + size, 24):
            name, _, _, index = struct.unpack_from("<IBBH", data, at)
            if index == 0 and name:
                begin = strings + name
                found.add(data[begin:data.index(b"\0", begin)].decode())
    return sorted(found)


def images(data):
    """Device images that lie in the fat binary sections of a host object."""
    for name, _, offset, size, _ in sections(data):
        if "fatbin" not in name:
            continue
        part = data[offset:offset + size]
        at = part.find(b"\x7fELF\x02")
        while at >= 0:
            machine, = struct.unpack_from("<H", part, at + 18)
            if machine in MACHINES:
                yield part[at:]
            at = part.find(b"\x7fELF\x02", at + 4)


def filtered(tool, names):
    run = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, run.stdout.splitlines()))


def demangle(names):
    """Mangled -> readable. clang writes constraints into names, which only LLVM's tool reads."""
    result = filtered("c++filt", names) if names else {}
    tools = sorted(pathlib.Path("/usr/lib").glob("llvm-*/bin/llvm-cxxfilt"))
    left = [n for n, readable in result.items() if readable.startswith("_Z")]
    if left and tools:
        result.update(filtered(str(tools[-1]), left))
    return result


def device_functions(path):
    """Mangled name -> readable name of every device function in an object file."""
    data = path.read_bytes()
    found = set()
    for image in images(data):
        found |= functions_of_image(image)
    return demangle(sorted(found))
