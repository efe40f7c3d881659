"""The base of the command: one-line errors, exit codes, signals, and help from the tables.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a bug, with its traceback; or an audit that found a broken claim |
| 2 | bad input, in one line |
| 130, 143 | interrupted by Ctrl-C, or by SIGTERM (SIGHUP, too: a terminal that is closed) |
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_stack
from types import FrameType
from typing import Any, NoReturn, cast

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

# Newer versions of Typer contain a copy of Click, so the base class is found through Typer.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
ARGUMENTS = {
    "data": "A text table (.csv, .tsv, .txt, also .gz), .parquet, .arrow, .feather, .npz, .npy, "
    ".fvecs, .bvecs, .ivecs or .mtx file, a folder of .parquet files, or - for standard input.",
    "model": "A model.skops, or the folder that fit has written.",
    "method": "A method of PrivateKMeans.",
}
DROP = "--missing drop leaves such rows out"
REMEDY = f"{DROP}, --missing mean fills in the mean of the column"
WARNING = "warning: "
WAIT = 0.02  # seconds until the stack is looked at again
MOST = 500  # looks; an import that hangs is interrupted after that
IMPORTING = "<frozen importlib._bootstrap>"


class Terminated(BaseException):
    """The process was asked to end."""


def tables(command: str) -> dict[str, list[Any]]:
    """The tables whose names the options of a command take, by option."""
    if command in ("predict", "demo"):
        return {}
    if command == "anticluster":
        from kvariates.balancing.group_objectives import GROUP_OBJECTIVES

        return {"objective": [GROUP_OBJECTIVES]}
    if command == "audit":
        from kvariates.private_methods.methods import PRIVATE_METHODS
        from kvariates.tables import Table

        # Without an assertion about the data, a method that needs one is always refused.
        whole = {name: entry for name, entry in PRIVATE_METHODS.items() if entry.lost is None}
        return {"method": [Table("method", whole)]}
    from kvariates.data.metrics import METRICS
    from kvariates.objectives.objective import OBJECTIVES
    from kvariates.refining.refinements import REFINEMENTS
    from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS
    from kvariates.seeding.seedings import HOST_SEEDINGS

    if command == "compare":
        return {"init": [HOST_SEEDINGS]}
    init, metric = [HOST_SEEDINGS, MEDOID_SEEDINGS], [OBJECTIVES, METRICS]
    return {"init": init, "metric": metric, "algorithm": [REFINEMENTS]}


class TableOptions(TyperCommand):
    """A command whose help lists the entries that the tables have when it is called."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        known = tables(str(self.name))
        titles = ("means", "median")
        listed: list[Any] = list(self.params)  # their type depends on the version of Typer
        for option in listed:  # some versions of Typer and Click lose the help of arguments
            option.help = option.help or ARGUMENTS.get(option.name, "")
        for option in listed:
            for title, table in zip(titles, known.get(option.name, []), strict=False):
                words = f"For {title}:" if len(known[option.name]) > 1 else "One of these:"
                entries = (f'"{n}": {entry.help}' for n, entry in table.items())
                option.help = " ".join([option.help or "", words, *entries])
        super().format_help(ctx, formatter)


def check_name(option: str, name: str | None, table: Any, hint: str = "") -> None:
    """Raise ValueError unless the table has the name, or none is given."""
    if name is not None and name not in table:
        where = "" if option in ARGUMENTS else f"--{option}: "
        raise ValueError(f"{where}{name!r} is not one of {table.names}{hint}.")


class OneLineErrors(TyperGroup):
    """A command group that prints an error as one line; the words of the line are `context.obj`."""

    def main(self, *args: Any, **options: Any) -> Any:
        standalone = options.pop("standalone_mode", True)
        given = options.get("args", args[0] if args else None)
        options |= {"standalone_mode": False, "obj": sys.argv[1:] if given is None else given}
        try:
            code = super().main(*args, **options)
        except UsageError as error:
            words = error.format_message()  # type: ignore[attr-defined]
            say(re.sub(r"( Did you mean [^?]*\?)\1", r"\1", words))  # some versions say it twice
            code = 2
        return sys.exit(code or 0) if standalone else code


app = typer.Typer(
    name="kvariates",
    cls=OneLineErrors,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def say(message: str) -> None:
    """Print a message as one line on standard error."""
    typer.echo(f"kvariates: {printable(' '.join(message.split()))}", err=True)


class Notes:
    """What a command says at its end, each once, if it does not fail: an error is one line.

    The files of a fit have them, too. With `quiet`, only warnings are printed.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.lines: tuple[str, ...] = ()
        self._said, self._quiet = 0, quiet

    def add(self, message: str) -> None:
        line = " ".join(message.split())
        if line not in self.lines:
            self.lines += (line,)

    def say(self) -> None:
        """Print those that were not printed yet."""
        for line in self.lines[self._said :]:
            if not self._quiet or line.startswith(WARNING):
                say(line)
        self._said = len(self.lines)


def printable(text: str) -> str:
    """The text with escapes in place of control characters, which could change the terminal."""
    return re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]",
        lambda found: f"\\x{ord(found[0]):02x}",
        text,
    )


def run_command() -> NoReturn:
    """Run the command in this process, in which SIGTERM is an orderly end."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
            signal.signal(number, raise_after_imports(Terminated))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, raise_after_imports(KeyboardInterrupt))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has only ASCII
    Console.on_broken_pipe = _raise_broken_pipe  # type: ignore[method-assign, assignment]
    try:
        code = app()
    except Terminated:
        code = 143
    except BrokenPipeError:  # of the help
        code = 0
        _leave_the_pipe()
    except (KeyboardInterrupt, typer.Abort):  # before the work of a command has begun
        say("interrupted")
        code = 130
    sys.exit(code)


def _raise_broken_pipe(_console: Console) -> NoReturn:
    """Rich would exit with code 1, which means a bug."""
    raise BrokenPipeError


def _leave_the_pipe() -> None:
    """A reader has closed the pipe: what is still to be printed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def tidy_errors(quiet: bool = False) -> Iterator[Notes]:
    """End the command with one line after bad input or a signal; other errors are not caught.

    Yields notes, which are printed at the end.
    """
    notes = Notes(quiet=quiet)
    try:
        yield notes
        notes.say()
    except (KeyboardInterrupt, Terminated) as error:
        terminated = isinstance(error, Terminated)
        say(_with_notes("terminated" if terminated else "interrupted", error))
        raise typer.Exit(143 if terminated else 130) from None
    except MemoryError:
        say("there is not enough memory; fit --stream reads a table in blocks")
        raise typer.Exit(2) from None
    except BrokenPipeError:
        _leave_the_pipe()
        raise typer.Exit(0) from None
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, ImportError) and "pip install" not in str(error):
            raise
        say(os_error_words(error) if isinstance(error, OSError) else str(error))
        raise typer.Exit(2) from error


def _with_notes(words: str, error: BaseException) -> str:
    """The words, and what `moved_into_place` has noted about the files."""
    return "; ".join([words, *getattr(error, "__notes__", [])])


def os_error_words(error: OSError) -> str:
    """An error of the system in plain words."""
    if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        full = error.errno == errno.ENOSPC
        words = "the disk is full" if full else os.strerror(error.errno).lower()
        if hasattr(error, "__notes__"):
            return _with_notes(words, error)
        return f"the result cannot be printed: {words}"  # files are in place
    if error.errno is not None and error.filename is not None:
        return f"{error.filename}: {os.strerror(error.errno)}"
    return str(error) if error.errno is None else os.strerror(error.errno)


def raise_after_imports(error: type[BaseException]) -> Callable[[int, FrameType | None], None]:
    """A handler of a signal that raises `error`, after the import that is going on, if any."""
    looks = 0

    def handle(_: int, frame: FrameType | None) -> None:
        nonlocal looks
        if not is_importing(frame) or looks == MOST or not hasattr(signal, "setitimer"):
            if looks:
                signal.setitimer(signal.ITIMER_REAL, 0)
            raise error
        looks += 1
        signal.signal(signal.SIGALRM, handle)
        # Again and again: a signal just before a system call that waits would be seen after it.
        signal.setitimer(signal.ITIMER_REAL, WAIT, WAIT)

    return handle


def is_importing(frame: FrameType | None) -> bool:
    """Whether a module is imported in this frame, or in one that called it."""
    return any(f.f_code.co_filename == IMPORTING for f, _ in walk_stack(frame))
