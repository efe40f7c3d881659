"""A graphics card: its memory, copies to and from it, and kernels.

Kernels are C++ files in `kernels/`. NVRTC compiles them when they are first used, and cuda.core
keeps the result on disk. Their parameters are pointers and 64-bit integers only: so a test can run
the same sources on a processor (tests/cuda/on_host.py), with another class in place of `Card`.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kvariates.extras import needed

USE_CPU = "use device='cpu'"
FORKED = (
    "the GPU was opened before this process was forked, and cannot be used in the child. Start "
    "processes by 'spawn' (multiprocessing), or open it in the child only."
)
FOLDER = "kvariates.cuda"
SMALL_COPY = 2**16  # bytes up to which a copy to the card is not waited for
READ_ONLY = 8  # CU_MEMHOSTREGISTER_READ_ONLY


class CardError(RuntimeError):
    """A card cannot be used. The message is one line: why, and what to do."""


@cache
def source_of(file: str) -> str:
    """The text of a kernel file, with the files that it includes in their places."""
    text = (files(FOLDER) / "kernels" / file).read_text("utf-8")
    lines = []
    for line in text.splitlines():
        included = line.startswith('#include "')
        lines.append(source_of(line.split('"')[1]) if included else line)
    return "\n".join(lines) + "\n"


def source_with(file: str, defines: dict[str, Any]) -> str:
    """The same, after one definition for each name."""
    return "".join(f"#define {k} {v}\n" for k, v in sorted(defines.items())) + source_of(file)


@dataclass(frozen=True, eq=False)
class CardArray:
    """An array on a card, in C order. `owner` keeps its memory."""

    card: Any
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    owner: Any

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def get(self) -> NDArray[Any]:
        """A copy in host memory."""
        out = np.empty(self.shape, self.dtype)
        self.card.copy_out(self, out)
        return out

    def put(self, values: NDArray[Any]) -> None:
        """Overwrite it. Pre: `values` have its shape and dtype."""
        self.card.copy_in(np.ascontiguousarray(values), self)

    def part(self, first: int, stop: int) -> CardArray:
        """Some rows of it, without a copy."""
        step = self.nbytes // len(self) if len(self) else 0
        shape = (stop - first, *self.shape[1:])
        return CardArray(self.card, self.pointer + first * step, shape, self.dtype, self.owner)


class Card:
    """One GPU, with a stream of its own. Everything is in the order of the calls."""

    def __init__(self, number: int = 0) -> None:
        self.number, self._process = number, os.getpid()
        self._core = needed("cuda.core", "cuda", "device='cuda'")
        self._driver = needed("cuda.bindings.driver", "cuda", "device='cuda'")
        needed("cuda.bindings.nvrtc", "cuda", "device='cuda'")
        try:
            self._device = self._core.Device(number)
            self._device.set_current()
            self._stream = self._device.create_stream()
        except Exception as error:
            raise CardError(_why_no_card(error)) from None
        major, minor = self._device.compute_capability
        if major < 8:
            raise CardError(
                f"device='cuda' needs a GPU of compute capability 8.0 or newer; {self.name} has "
                f"{major}.{minor}. Otherwise {USE_CPU}."
            )
        self.capability = 10 * int(major) + int(minor)
        self.processors = int(self._device.properties.multiprocessor_count)
        self._kernels: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        return str(self._device.name)

    # -- memory ------------------------------------------------------------------------------------

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> CardArray:
        """An array of any values; MemoryError, which says how much is free, if there is no room."""
        self._enter()
        shape, of = (shape,) if isinstance(shape, int) else shape, np.dtype(dtype)
        size = max(prod(shape) * of.itemsize, 16)
        try:
            buffer = self._device.allocate(size, stream=self._stream)
        except Exception as error:
            raise self._no_room(size, error) from None
        return CardArray(self, int(buffer.handle), shape, of, buffer)

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> CardArray:
        out = self.empty(shape, dtype)
        self.clear(out)
        return out

    def clear(self, array: CardArray) -> None:
        """Set all bytes to zero."""
        self._do("cuMemsetD8Async", array.pointer, 0, array.nbytes, self._stream.handle)

    def put(self, values: NDArray[Any]) -> CardArray:
        """A copy of a host array."""
        values = np.ascontiguousarray(values)
        out = self.empty(values.shape, values.dtype)
        self.copy_in(values, out)
        return out

    def copy_in(self, values: NDArray[Any], out: CardArray) -> None:
        # The driver copies memory that is not locked before it returns. A copy is not locked.
        small = values.copy() if values.nbytes <= SMALL_COPY else values
        self._do(
            "cuMemcpyHtoDAsync", out.pointer, small.ctypes.data, out.nbytes, self._stream.handle
        )
        if small is values:
            self.wait()  # `values` may change when this has returned

    def copy_out(self, array: CardArray, out: NDArray[Any]) -> None:
        self._do(
            "cuMemcpyDtoHAsync", out.ctypes.data, array.pointer, array.nbytes, self._stream.handle
        )
        self.wait()

    def copy(self, array: CardArray, out: CardArray) -> None:
        """From the card to the card."""
        self._do("cuMemcpyDtoDAsync", out.pointer, array.pointer, array.nbytes, self._stream.handle)

    # -- host memory that is copied beside the kernels ---------------------------------------------

    def pinned(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Host memory of any values, which a `Copier` copies while the host does something else."""
        size = max(prod(shape) * np.dtype(dtype).itemsize, 1)
        pointer = int(self._do("cuMemHostAlloc", size, 0))
        memory: Any = (ctypes.c_char * size).from_address(pointer)
        self._at_end_of(memory, "cuMemFreeHost", pointer)
        return np.ndarray(shape, dtype, memory)

    def lock(self, values: NDArray[Any]) -> LockedMemory:
        """Make the memory of an array pinned as long as the result is kept.

        The driver may refuse. Copies from such memory are slower, and take the host's time.
        """
        self._enter()
        locked = LockedMemory(values)
        for flags in (0, READ_ONLY):
            pointer = values.ctypes.data
            (status,) = self._driver.cuMemHostRegister(pointer, values.nbytes, flags)
            if int(status) == 0:
                self._at_end_of(locked, "cuMemHostUnregister", pointer)
                break
        return locked

    def copier(self) -> Copier:
        return Copier(self)

    def _at_end_of(self, owner: Any, call: str, pointer: int) -> None:
        """Give host memory back when nobody uses `owner` any more, and no copy does."""

        def end() -> None:
            with suppress(Exception):  # after an error of the card nothing can be given back
                self._do("cuCtxSynchronize")
                self._do(call, pointer)

        weakref.finalize(owner, end).atexit = False  # the driver may have gone by then

    def free(self) -> tuple[int, int]:
        """Bytes that are free, and all of them."""
        free, total = self._do("cuMemGetInfo")
        return int(free), int(total)

    def view(self, X: Any) -> CardArray:
        """The memory of another library's array on this card, without a copy.

        Pre: it has `__dlpack__` or `__cuda_array_interface__`, and is in C order.
        """
        self._enter()
        views = self._core.utils.StridedMemoryView
        view = views.from_any_interface(X, stream_ptr=int(self._stream.handle))
        return CardArray(self, int(view.ptr), tuple(view.shape), np.dtype(view.dtype), (X, view))

    # -- kernels -----------------------------------------------------------------------------------

    def run(
        self, file: str, name: str, grid: int, block: int, *args: Any, shared: int = 0,
        defines: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Start a kernel. `args`: arrays, None and integers; `shared`: bytes of dynamic memory."""
        if grid <= 0:
            return
        self._enter()
        try:
            kernel = self._kernel(file, name, defines or {})
            config = self._core.LaunchConfig(grid=grid, block=block, shmem_size=shared)
            self._core.launch(self._stream, config, kernel, *map(_argument, args))
        except CardError:
            raise
        except Exception as error:
            raise self._no_kernel(name, shared, error) from error

    def _kernel(self, file: str, name: str, defines: dict[str, Any]) -> Any:
        key = file, tuple(sorted(defines.items()))
        module = self._kernels.get(key)
        if module is None:
            module = self._kernels[key] = self._compiled(file, defines)
        kernel = self._kernels.get((*key, name))
        if kernel is None:
            kernel = module.get_kernel(name)
            self._allow_shared_memory(kernel)
            self._kernels[(*key, name)] = kernel
        return kernel

    @property
    def shared_memory(self) -> int:
        """The most bytes of shared memory that a block may ask for."""
        return int(self._device.properties.max_shared_memory_per_block_optin)

    def _allow_shared_memory(self, kernel: Any) -> None:
        """Let a kernel have as much dynamic memory as there is beside its static memory."""
        attributes = self._driver.CUfunction_attribute
        function = self._do("cuKernelGetFunction", kernel.handle)
        fixed = attributes.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
        most = self.shared_memory - int(self._do("cuFuncGetAttribute", fixed, function))
        kind = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._do("cuFuncSetAttribute", function, kind, most)

    def _compiled(self, file: str, defines: dict[str, Any]) -> Any:
        arch = f"sm_{self.capability}" + ("a" if self.capability in (90, 100, 103) else "")
        options = self._core.ProgramOptions(
            name=file, arch=arch, std="c++17", fma=False, device_int128=True
        )
        source = source_with(file, defines)
        program = self._core.Program(source, "c++", options)
        cache = _kept_programs(self._core)
        if cache is None:
            return program.compile("cubin")
        key = self._core.utils.make_program_cache_key(
            code=source, code_type="c++", options=options, target_type="cubin"
        )
        with suppress(OSError):
            known = cache.get(key)
            if known is not None:
                return self._core.ObjectCode.from_cubin(known)
        compiled = program.compile("cubin")
        with suppress(OSError):  # a full or read-only disk: it is compiled again next time
            cache[key] = compiled
        return compiled

    # -- the order of things -----------------------------------------------------------------------

    def wait(self) -> None:
        """Until everything that was started is done."""
        self._do("cuStreamSynchronize", self._stream.handle)

    def _enter(self) -> None:
        if os.getpid() != self._process:
            raise CardError(FORKED)
        self._device.set_current()

    def _do(self, call: str, *args: Any) -> Any:
        self._enter()
        status, *values = getattr(self._driver, call)(*args)
        if int(status) != 0:
            raise CardError(f"{self.name}: {call} failed ({status.name}). Otherwise {USE_CPU}.")
        return values[0] if len(values) == 1 else values

    def _no_kernel(self, name: str, shared: int, error: Exception) -> Exception:
        if "OUT_OF_MEMORY" in str(error):
            return self._no_room(shared, error)
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return CardError(f"{self.name}: {name} cannot be started ({reason}). Otherwise {USE_CPU}.")

    def _no_room(self, size: int, error: Exception) -> Exception:
        if "OUT_OF_MEMORY" not in str(error):
            return CardError(f"{self.name}: {error}")
        free, total = self.free()
        return MemoryError(
            f"{self.name} has {free / 1e9:.1f} of {total / 1e9:.1f} GB free, and {size / 1e9:.1f} "
            f"GB more are needed. Fit fewer rows or features, or {USE_CPU}."
        )


@dataclass(frozen=True, eq=False)
class LockedMemory:
    """Keeps the memory of an array pinned."""

    values: NDArray[Any]


class Copier:
    """Copies to a card beside its kernels, in a stream of their own and in their order."""

    def __init__(self, card: Card) -> None:
        self._card, self._stream = card, card._device.create_stream()

    def start(self, values: NDArray[Any], out: CardArray) -> Copy:
        """Begin when all that the card was asked for so far is done.

        Pre: `values` are in C order. They and `out` must not be used before the copy is done.
        """
        card = self._card
        card._enter()
        self._stream.wait(card._stream)
        pointer, to = values.ctypes.data, out.pointer
        card._do("cuMemcpyHtoDAsync", to, pointer, out.nbytes, self._stream.handle)
        return Copy(card, self._stream.record())


@dataclass(frozen=True, eq=False)
class Copy:
    """A copy that was started."""

    card: Card
    event: Any

    def join(self) -> None:
        """Let all that the card is asked for from now on begin when the copy is done."""
        self.card._stream.wait(self.event)

    def wait(self) -> None:
        """Until it is done: the values may be overwritten then."""
        self.event.sync()


def _argument(value: Any) -> Any:
    if value is None:
        return 0
    return value.pointer if isinstance(value, CardArray) else int(value)


@cache
def _kept_programs(core: Any) -> Any:
    """The compiled kernels on disk; None if there is no place for them."""
    try:
        return core.utils.FileStreamProgramCache()
    except OSError:
        return None


def _why_no_card(error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    if "NOT_INITIALIZED" in reason:  # whatever opened it: this library or another one
        return FORKED
    return (
        f"device='cuda' found no usable NVIDIA GPU ({reason}). It needs a driver for CUDA 13 "
        f"(580 or newer). Otherwise {USE_CPU}."
    )


_cards: dict[tuple[int, int], Any] = {}
open_card: Callable[[int], Any] = Card  # tests put a class here that runs kernels on the processor


def card_of(number: int = 0) -> Any:
    """The card of this number, opened once a process."""
    key = os.getpid(), number
    if key not in _cards:
        _cards[key] = open_card(number)
    return _cards[key]
