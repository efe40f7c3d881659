"""Files that must outlive a loss of power: first the file is synced, then it gets its name, then
the folder is synced."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from api import Ledger, write_aside

from kvariates import StreamingKMeans


def save_model(path):
    StreamingKMeans(2).partial_fit(np.arange(20.0).reshape(10, 2)).save(path)


WRITERS = {
    "bytes": lambda path: write_aside(path, b"some"),
    "a ledger": lambda path: Ledger("add-remove", (), (1.0, 0.0)).save(path),
    "a model": save_model,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_the_file_and_its_folder_are_on_the_disk(tmp_path, monkeypatch, write):
    done, sync, replace = [], os.fsync, Path.replace

    def synced(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        return sync(handle)

    def replaced(self, target):
        done.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write(tmp_path / "new" / "written")
    assert done == ["file", "replace", "folder"]
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["written"]


def test_an_error_names_the_file(tmp_path):
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    with pytest.raises(OSError, match=r"file/written"):
        write_aside(tmp_path / "file" / "written", b"")


def test_others_may_not_read_it_unless_asked(tmp_path):
    for mode in (0o600, 0o644):
        write_aside(tmp_path / "written", b"", mode)
        assert stat.S_IMODE((tmp_path / "written").stat().st_mode) == mode
