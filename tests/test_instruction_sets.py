"""Code for newer processors stays in the kernels for them: all other code runs on any x86-64."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvariates import _native

ROOT = Path(__file__).resolve().parents[1]
NEWER = re.compile(r"\bkv::v[234]\b")  # the namespaces of the kernels for newer processors
CALL = re.compile(r"^(?:call|jmp)\s+([0-9a-f]+) <")
# AVX and later instructions begin with v; those of BMI and of SSE3 to SSE4.2 are written out.
LATER = re.compile(
    r"^(v(?!err|erw|mm?call)\w+|andn|bextr|bls\w+|mulx|pdep|pext|rorx|s[ah][lr]x|popcnt|crc32\w*"
    r"|p?blend\w+|dpp[sd]|extractps|insertps|h(?:add|sub)p[sd]|ph(?:add|sub)\w+|mov(?:d|sh|sl)dup"
    r"|packusdw|pabs[bdw]|palignr|pcmp(?:eq|gt)q|pcmp[ei]str\w|p(?:extr|insr)[bdq]|pshufb"
    r"|p(?:max|min)(?:s[bd]|u[dw])|pmov[sz]x\w+|pmul(?:dq|ld|hrsw)|psign[bdw]|ptest|round[ps][ds])$"
)
# Code that every machine runs: that of the lowest set, the bindings, and what runs when loading.
BASELINE = re.compile(r"\bkv::(plain|binding)\b|_GLOBAL__sub_I|__static_init")


def functions(text):
    """Functions by address: name, whether any instruction is newer, the addresses that it calls."""
    at, found = None, {}
    for line in text.splitlines():
        if line.endswith(">:") and line[:1] in "0123456789abcdef":
            address, name = line[:-2].split(" <", 1)
            at = int(address, 16)
            found[at] = [name, False, set()]
        elif at is not None and "\t" in line:
            instruction = line.split("\t")[-1]
            found[at][1] |= bool(LATER.match(instruction.split(" ", 1)[0]))
            if call := CALL.search(instruction):
                found[at][2].add(int(call[1], 16))
    return found


def misplaced(found):
    """Baseline functions with newer instructions, or a call of such: pairs of caller and called.

    A function of the standard library may have newer instructions if only newer kernels call it.
    """
    for name, newer, calls in found.values():
        if NEWER.search(name):
            continue
        if newer and BASELINE.search(name):
            yield name, name
        elif not newer:
            called = [found[at] for at in calls if at in found]
            yield from ((name, c[0]) for c in called if c[1] and not NEWER.search(c[0]))


def disassembly():
    if not sys.platform.startswith("linux") or len(_native.instruction_sets()) < 2:
        pytest.skip("there is one set of kernels only")
    if shutil.which("objdump") is None:
        pytest.skip("objdump is missing (binutils): nothing was checked")
    built = [Path(_native.__file__), *ROOT.glob("build/*/_native*.so")]
    for module in built:
        done = subprocess.run(
            ["objdump", "-d", "-C", "--no-show-raw-insn", str(module)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        if "kv::v3" in done.stdout:
            return done.stdout
    pytest.skip(f"no module with symbols among {[*map(str, built)]}: nothing was checked")


@pytest.mark.slow
def test_newer_instructions_are_in_newer_kernels_only():
    found = functions(disassembly())
    newer = [name for name, later, _ in found.values() if later and NEWER.search(name)]
    assert len(newer) > 100, "the disassembly was not understood"
    assert list(misplaced(found)) == []


@pytest.mark.parametrize(
    ("caller", "code"),
    [
        ("kv::plain::assign()", "vaddpd %ymm0,%ymm1,%ymm2"),
        ("kv::plain::costs()", "pmulld %xmm0,%xmm1"),
        ("_GLOBAL__sub_I_loops.cpp", "vmovups %zmm0,(%rax)"),
        ("kv::binding::update()", "call   20 <std::fill()>"),
    ],
)
def test_misplaced_instructions_are_found(caller, code):
    text = (
        f"0000000000000010 <{caller}>:\n  10:\t{code}\n\n"
        "0000000000000020 <std::fill()>:\n  20:\tvaddpd %ymm0,%ymm1,%ymm2\n\n"
        "0000000000000030 <kv::v3::assign()>:\n  30:\tcall   20 <std::fill()>\n"
    )
    assert len(list(misplaced(functions(text)))) == 1
    assert list(misplaced(functions(text.replace(caller, "kv::v4::f()")))) == []
