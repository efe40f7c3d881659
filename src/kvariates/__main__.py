"""Starts the command `kvariates`, or prints one line if a package that it needs is missing."""

from __future__ import annotations

import gc
import sys

from kvariates.extras import MissingPackageError, needed


def main() -> None:
    """Run the command; the entry point of the installed script."""
    gc.set_threshold(100_000)  # imports make many objects, and few of them are garbage
    try:
        for package in ("typer", "rich"):
            needed(package, "cli", "The command kvariates")
        from kvariates.cli import main as run

        run()
    except MissingPackageError as error:
        sys.stderr.write(f"kvariates: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("kvariates: interrupted\n")
        sys.exit(130)
    finally:
        gc.freeze()  # the process ends: modules need no collection


if __name__ == "__main__":
    main()
