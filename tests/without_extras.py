"""A process in which no package of an extra can be imported; prints what kvariates says to that.

The result is JSON: the message (or the traceback) for every extra, and the modules that failed.
"""

import contextlib
import importlib
import io
import json
import os
import pkgutil
import sys
import tempfile
import traceback
from pathlib import Path

PACKAGES = sys.argv[1:]
# They are imported by whoever wants them, and need their packages at once.
ROOMS_OF_EXTRAS = {"cli", "dask", "demo", "federated", "plot", "ray", "report", "river"}


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in PACKAGES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())

import numpy as np  # noqa: E402

import kvariates  # noqa: E402

EAGER = sorted({"sklearn", "scipy"} & sys.modules.keys())
X = np.random.default_rng(0).random((200, 2))


def command():
    from api import main

    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.suppress(SystemExit):
        main()
    raise ImportError(said.getvalue())


def save():
    kvariates.StreamingKMeans(2).partial_fit(X).save("never.skops")


def read_csv():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows.csv")
        file.write_text("1,2\n3,4\n", encoding="utf-8")
        os.chdir(folder)
        kvariates.KMeans(2).fit(kvariates.sources.blocks(file.name))


def private():
    budget = kvariates.privacy.Budget(1.0)
    try:
        kvariates.PrivateKMeans(2, epsilon=1.0, bounds=(0.0, 1.0), budget=budget).fit(X)
    finally:
        budget.spend(1.0)  # all of it is left


def accountant():
    from api import Accountant

    Accountant()


def balance():
    groups = kvariates.AntiClustering(2, random_state=0).fit(X)
    groups.balance_.plot()


def card():
    from api import card_of

    card_of()


CALLS = {
    "cli": command,
    "plot": balance,
    "private": private,
    "private (releases)": accountant,
    "private (cryptography)": lambda: kvariates.VerticalKMeans(2).fit([X, X]),
    "cuda": card,
    "dask": lambda: importlib.import_module("kvariates.dask"),
    "ray": lambda: importlib.import_module("kvariates.ray"),
    "federated": lambda: importlib.import_module("kvariates.federated"),
    "files": read_csv,
    "save": save,
    "river": lambda: importlib.import_module("kvariates.river"),
}


def said(call):
    try:
        call()
    except ImportError as error:
        return str(error)
    except BaseException:
        return traceback.format_exc()
    return "no error"


def imported(name):
    return said(lambda: importlib.import_module(name))


modules = [m.name for m in pkgutil.walk_packages(kvariates.__path__, "kvariates.", onerror=len)]
base = [m for m in modules if m.split(".")[1] not in ROOMS_OF_EXTRAS]
failed = {m: line for m in base if (line := imported(m)) != "no error"}
kvariates.KMeans(2).fit(X).predict(X)
lines = {extra: said(call) for extra, call in CALLS.items()}
print(json.dumps({"lines": lines, "failed": failed, "base": base, "eager": EAGER}))
