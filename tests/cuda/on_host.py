"""`HostCard`: a card (kvariates.cuda.card.Card) that runs the same kernels on the processor.

A C++ compiler translates a kernel file behind `on_host.hpp`; `on_host.cpp` runs its blocks one
after the other, and the threads of a block in turns. So a kernel gives the same bits as on a GPU,
only slowly. It also notices what a GPU may not: arrays and shared memory contain garbage at first;
an address outside of all arrays, threads that wait for ever, wrong arguments and (mostly) writes
next to an array are errors that name the kernel. Blocks and threads run in another order in each
launch, which is the same in every process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from api import CardArray, LockedMemory, source_of, source_with

HERE = Path(__file__).parent
KEPT = HERE.parents[1] / "build" / "on_host"
ARGUMENTS, THREADS, SHARED = 16, 1024, 227 * 1024
FAR = 1 << 20  # bytes from an array: the address has nothing to do with it
CHECKS = "alignment,bounds,shift-exponent,integer-divide-by-zero,signed-integer-overflow"
FLAGS = [
    "-O1", "-std=c++17", "-DON_HOST", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno",
    "-fno-strict-aliasing", "-fstack-clash-protection", "-Wno-unknown-pragmas", "-Wno-attributes",
]  # fmt: skip


BOUNDS = r"(?:__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)\s*)?"
DECLARED = re.compile(rf"\bKERNEL\s+{BOUNDS}(\w+)\s*\(([^()]*)\)")


class KernelError(RuntimeError):
    """A kernel does what it must not do on a card, or cannot be compiled."""


def compiler() -> str | None:
    names = [os.environ.get("CXX"), "g++", "c++", "clang++"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


# ---- sources to libraries ------------------------------------------------------------------------


@cache
def _folder() -> Path:
    try:
        KEPT.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp())
    return KEPT


def _compiled(before: str, text: str, name: str, flags: list[str]) -> Path:
    """A shared library of the file `name`, which is compiled only once for each text."""
    command = [compiler() or "g++", *FLAGS, *flags]
    key = hashlib.sha256("\0".join([*command, before, text]).encode()).hexdigest()[:24]
    out = _folder() / f"{key}.so"
    if out.exists():
        return out
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        Path(folder, "source.cpp").write_text(f'{before}\n#include "{name}"\n', encoding="utf-8")
        Path(folder, name).write_text(text, encoding="utf-8")
        done = subprocess.run(
            [*command, "source.cpp", "-o", "made.so"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise KernelError(f"{name} does not compile:\n{done.stderr[:6000]}")
        Path(folder, "made.so").replace(out)  # another process may have made the same
    return out


@cache
def _runtime() -> Any:
    library = _compiled("", (HERE / "on_host.cpp").read_text("utf-8"), "on_host.cpp", [])
    runtime = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    word, pointer = ctypes.c_longlong, ctypes.c_void_p
    runtime.on_host_launch.argtypes = [
        pointer, word, word, word, ctypes.POINTER(word), pointer, word, word,
        ctypes.c_char_p, word, ctypes.POINTER(word),
    ]  # fmt: skip
    runtime.on_host_allocate.argtypes, runtime.on_host_allocate.restype = [word], pointer
    runtime.on_host_untouched.argtypes = [pointer, word]
    runtime.on_host_release.argtypes = [pointer, word]
    return runtime


class _Library:
    """A compiled source, its kernels and their numbers of parameters."""

    def __init__(self, text: str, name: str) -> None:
        _runtime()
        prelude = (HERE / "on_host.hpp").read_text("utf-8")
        flags = [f"-fsanitize={CHECKS}"]
        if sys.platform == "darwin":
            flags += ["-undefined", "dynamic_lookup"]
        self._library = ctypes.CDLL(str(_compiled(prelude, text, name, flags)))
        self._name, self._lines = name, text.splitlines()
        self.parameters = {
            kernel: _parameters(name, kernel, listed) for kernel, listed in DECLARED.findall(text)
        }
        static = self._library.on_host_static_shared, self._library.on_host_static_size
        static[0].restype, static[1].restype = ctypes.c_void_p, ctypes.c_longlong
        self.static_shared, self.static_size = static[0](), static[1]()

    def with_lines(self, said: str) -> str:
        """A message about lines by their numbers, and what they contain."""
        numbers = dict.fromkeys(int(n) for n in re.findall(r"\blines? (\d+)", said))
        numbers |= dict.fromkeys(int(n) for n in re.findall(r"\blines \d+ and (\d+)", said))
        shown = [f"\n{n}: {self._lines[n - 1]}" for n in numbers if 0 < n <= len(self._lines)]
        return said + "".join(shown)

    def kernel(self, name: str) -> int:
        try:
            return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0
        except AttributeError:
            known = ", ".join(self.parameters)
            raise KernelError(f"{self._name} has no kernel {name!r}; it has: {known}") from None


def _parameters(file: str, kernel: str, listed: str) -> int:
    """How many there are. Pre: only pointers and 64-bit integers."""
    listed = re.sub(r"//[^\n]*|/\*.*?\*/", "", listed)
    each = [parameter.strip() for parameter in listed.split(",") if parameter.strip()]
    for parameter in each:
        if "*" not in parameter and not re.match(r"(const )?(index_t|long long)\b", parameter):
            raise KernelError(f"{file}: {kernel} takes {parameter!r}, no pointer and no long long")
    if len(each) > ARGUMENTS:
        raise KernelError(f"{file}: {kernel} takes {len(each)} arguments, more than {ARGUMENTS}")
    return len(each)


@cache
def _library_of(file: str, defines: tuple[tuple[str, Any], ...]) -> _Library:
    return _Library(source_with(file, dict(defines)), file)


@cache
def _library_of_text(text: str, defines: tuple[tuple[str, Any], ...]) -> _Library:
    lines = [
        source_of(line.split('"')[1]) if line.startswith('#include "') else line
        for line in text.splitlines()
    ]
    return _Library("\n".join([*(f"#define {k} {v}" for k, v in defines), *lines]), "text.cu")


# ---- memory --------------------------------------------------------------------------------------


class _Memory:
    """Some bytes between memory that faults; all are 0xFF (NaN, or -1) at first."""

    def __init__(self, card: HostCard, size: int) -> None:
        self.pointer = _runtime().on_host_allocate(size)
        if not self.pointer:
            raise MemoryError(f"no room for {size} bytes")
        self.size = size
        card._used += size
        self._release = weakref.finalize(self, _release, card, self.pointer, size)
        self._release.atexit = False

    @property
    def untouched(self) -> bool:
        """Whether nothing was written next to it."""
        return bool(_runtime().on_host_untouched(self.pointer, self.size))


def _release(card: HostCard, pointer: int, size: int) -> None:
    card._used -= size
    _runtime().on_host_release(pointer, size)


class HostCard:
    """See the top of this file.

    Parameters
    ----------
    memory : bytes; MemoryError if arrays need more.
    late : whether a `Copier` copies as late as it may; otherwise as early as it may.
    seed : of the order in which blocks and threads run; 0: by their numbers.
    """

    shared_memory = SHARED
    name = "the processor"
    stream = 0
    _lock = threading.Lock()  # on_host.cpp runs one kernel at a time

    def __init__(
        self, number: int = 0, *, capability: int = 90, processors: int = 4,
        memory: int = 16 << 30, late: bool = False, seed: int = 1,
    ) -> None:  # fmt: skip
        self.late = late
        self.locks = True  # whether arrays can be locked
        self.joined: list[HostCopy] = []  # copies that the next wait for the card waits for
        self.pinned_bytes: dict[int, int] = {}  # of host memory, by address
        self.number, self.capability, self.processors = number, capability, processors
        self._seed, self._memory, self._used = seed, memory, 0
        self._arrays: weakref.WeakValueDictionary[int, _Memory] = weakref.WeakValueDictionary()
        self.variants: set[tuple[str, tuple[tuple[str, Any], ...]]] = set()  # that were used
        self.launches: list[str] = []  # names of the kernels that ran; tests may clear it

    # -- memory ------------------------------------------------------------------------------------

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> CardArray:
        shape, of = (shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype)
        size = prod(shape) * of.itemsize
        free, total = self.free()
        if size > free:
            raise MemoryError(
                f"{self.name} has {free / 1e9:.1f} of {total / 1e9:.1f} GB free, and "
                f"{size / 1e9:.1f} GB more are needed."
            )
        memory = _Memory(self, size)
        self._arrays[memory.pointer] = memory
        return CardArray(self, memory.pointer, shape, of, memory)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> CardArray:
        out = self.empty(shape, dtype)
        self.clear(out)
        return out

    def clear(self, array: CardArray) -> None:
        ctypes.memset(array.pointer, 0, array.nbytes)

    def put(self, values: Any) -> CardArray:
        values = np.ascontiguousarray(values)
        out = self.empty(values.shape, values.dtype)
        self.copy_in(values, out)
        return out

    def copy_in(self, values: Any, out: CardArray) -> None:
        self.wait()
        _check_copy(values.nbytes, values.dtype, out)
        assert values.flags.c_contiguous
        ctypes.memmove(out.pointer, values.ctypes.data, out.nbytes)

    def copy_out(self, array: CardArray, out: Any) -> None:
        self.wait()
        _check_copy(out.nbytes, out.dtype, array)
        assert out.flags.c_contiguous
        ctypes.memmove(out.ctypes.data, array.pointer, array.nbytes)

    def copy(self, array: CardArray, out: CardArray) -> None:
        _check_copy(array.nbytes, array.dtype, out)
        ctypes.memmove(out.pointer, array.pointer, array.nbytes)

    def pinned(self, shape: tuple[int, ...], dtype: Any) -> Any:
        memory = np.full(max(prod(shape) * np.dtype(dtype).itemsize, 1), 0xFF, np.uint8)
        self._pin(memory, memory)
        return np.ndarray(shape, dtype, memory)

    def lock(self, values: Any) -> LockedMemory:
        locked = LockedMemory(values)
        if self.locks:
            self._pin(values, locked)
        return locked

    def _pin(self, values: Any, owner: Any) -> None:
        self.pinned_bytes[values.ctypes.data] = values.nbytes
        weakref.finalize(owner, self.pinned_bytes.pop, values.ctypes.data).atexit = False

    def copier(self) -> HostCopier:
        return HostCopier(self)

    def free(self) -> tuple[int, int]:
        return self._memory - self._used, self._memory

    def view(self, X: Any) -> CardArray:
        """Of a NumPy array, or of what has `__dlpack__` or (with host memory)
        `__cuda_array_interface__`.
        """
        if not isinstance(X, np.ndarray) and hasattr(X, "__cuda_array_interface__"):
            known = X.__cuda_array_interface__
            pointer, shape, of = known["data"][0], known["shape"], np.dtype(known["typestr"])
            return CardArray(self, int(pointer), tuple(shape), of, X)
        array = X if isinstance(X, np.ndarray) else np.from_dlpack(X)
        if not array.flags.c_contiguous:
            raise ValueError("an array that is not in C order")
        return CardArray(self, array.ctypes.data, array.shape, array.dtype, (X, array))

    # -- kernels -----------------------------------------------------------------------------------

    def run(
        self, file: str, name: str, grid: int, block: int, *args: Any, shared: int = 0,
        defines: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        variant = file, tuple(sorted((defines or {}).items()))
        self.variants.add(variant)
        library = _library_of(*variant)
        self._launch(library, f"{file}: {name}", name, int(grid), int(block), args, int(shared))

    def run_text(
        self, text: str, name: str, grid: int, block: int, *args: Any, shared: int = 0,
        defines: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """The same with the text of a kernel file."""
        library = _library_of_text(text, tuple(sorted((defines or {}).items())))
        self._launch(library, name, name, int(grid), int(block), args, int(shared))

    def _launch(
        self, library: _Library, title: str, name: str, grid: int, block: int, args: Any,
        shared: int,
    ) -> None:  # fmt: skip
        function = library.kernel(name)
        _check_launch(title, library.parameters.get(name), block, args, shared, self.shared_memory)
        if grid <= 0:
            return
        self.launches.append(name)
        values = [_argument(title, value) for value in args]
        words = (ctypes.c_longlong * ARGUMENTS)(*values)
        said, address = ctypes.create_string_buffer(1000), ctypes.c_longlong()
        seed = self._seed and self._seed * 1_000_003 + len(self.launches)
        with self._lock:
            failed = _runtime().on_host_launch(
                function, grid, block, shared, words, library.static_shared, library.static_size,
                seed, said, len(said), ctypes.byref(address),
            )  # fmt: skip
        if failed == 1:
            raise KernelError(f"{title}: {library.with_lines(said.value.decode())}")
        if failed == 2:
            raise KernelError(f"{title}: {said.value.decode()} {self._place(address.value, args)}")
        for i, value in enumerate(args):
            owner = value.owner if isinstance(value, CardArray) else None
            if isinstance(owner, _Memory) and not owner.untouched:
                raise KernelError(f"{title}: it writes next to the array of argument {i}")

    def _place(self, address: int, args: tuple[Any, ...]) -> str:
        """Where an address is that is not memory, in words."""
        if 0 <= address < 1 << 16:
            return "uses a null pointer"
        owners = [getattr(value, "owner", None) for value in args]
        near = []
        for memory in self._arrays.values():
            named = [f"the array of argument {i}" for i, of in enumerate(owners) if of is memory]
            what = f"{(named or ['an array'])[0]} ({memory.size} bytes)"
            behind = address - memory.pointer - memory.size
            if behind >= 0:
                near.append((behind, f"{behind} bytes behind the end of {what}"))
            else:
                before = memory.pointer - address
                near.append((before, f"{before} bytes before {what}"))
        distance, what = min(near, default=(FAR, ""))
        return f"uses what is {what}" if distance < FAR else f"uses the address {address:#x}"

    # -- the order of things -----------------------------------------------------------------------

    def wait(self) -> None:
        while self.joined:
            self.joined.pop().wait()


class HostCopier:
    """Copies at once or, with `HostCard.late`, when somebody waits for them."""

    def __init__(self, card: HostCard) -> None:
        self._card = card
        self._started: list[HostCopy] = []  # that the host has not waited for

    def start(self, values: Any, out: CardArray) -> HostCopy:
        _check_copy(values.nbytes, values.dtype, out)
        assert values.flags.c_contiguous
        self._check_pinned(values)
        copy = HostCopy(self._card, self, values, out)
        self._started.append(copy)
        if not self._card.late:
            copy.copy()
        return copy

    def _check_pinned(self, values: Any) -> None:
        first, pinned = values.ctypes.data, self._card.pinned_bytes.items()
        within = any(at <= first and first + values.nbytes <= at + size for at, size in pinned)
        if not within and self._card.locks:
            raise KernelError("a copy beside the kernels is from memory that is not pinned")

    def up_to(self, copy: HostCopy) -> list[HostCopy]:
        """They are done in their order."""
        count = self._started.index(copy) + 1 if copy in self._started else 0
        return self._started[:count]

    def forget(self, copy: HostCopy) -> None:
        self._started.remove(copy)


class HostCopy:
    def __init__(self, card: HostCard, copier: HostCopier, values: Any, out: CardArray) -> None:
        self._card, self._copier, self._values, self._out = card, copier, values, out
        self._bytes, self._done = values.tobytes(), False

    def join(self) -> None:
        for each in self._copier.up_to(self):
            each.copy()
        self._card.joined.append(self)

    def wait(self) -> None:
        """KernelError if values have changed since `start`, as a GPU might copy these."""
        for each in self._copier.up_to(self):
            each.copy()
            self._copier.forget(each)
            if each._values.tobytes() != each._bytes:
                raise KernelError("host memory was overwritten before its copy was done")

    def copy(self) -> None:
        if not self._done:
            ctypes.memmove(self._out.pointer, self._values.ctypes.data, self._out.nbytes)
            self._done = True


def _check_copy(nbytes: int, dtype: np.dtype[Any], array: CardArray) -> None:
    if nbytes != array.nbytes or dtype.itemsize != array.dtype.itemsize:
        raise ValueError(
            f"a copy of {nbytes} bytes ({dtype}) and an array of {array.nbytes} ({array.dtype})"
        )


def _check_launch(
    title: str, expected: int | None, block: int, args: tuple[Any, ...], shared: int, most: int
) -> None:
    if expected is not None and len(args) != expected:
        raise KernelError(f"{title}: {expected} arguments are expected, {len(args)} were given")
    if not 1 <= block <= THREADS:
        raise KernelError(f"{title}: a block of {block} threads")
    if not 0 <= shared <= most:
        raise KernelError(f"{title}: {shared} bytes of shared memory")


def _argument(title: str, value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, CardArray):
        return value.pointer
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise KernelError(f"{title}: {type(value).__name__} is no argument of a kernel")
