"""A mistake that `experiments.mutants` plants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutant:
    name: str
    module: str  # below kvariates
    before: str  # occurs once in the module
    after: str
    tests: str  # below tests/, separated by spaces

    @property
    def path(self) -> Path:
        return ROOT / "src" / "kvariates" / (self.module.replace(".", "/") + ".py")

    def plant(self, source: str) -> str:
        if source.count(self.before) != 1:
            raise ValueError(f"{self.name}: {self.before!r} is not in {self.path} once.")
        return source.replace(self.before, self.after)
