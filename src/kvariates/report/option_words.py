"""Texts for users of Python, in the words of the command."""

from __future__ import annotations

import re
import shlex

OPTIONS = ("init", "algorithm", "metric", "n_init", "size_min", "size_max", "certify", "missing")
PARAMETER = re.compile(rf"\b({'|'.join(OPTIONS)})=(?:'([^']*)'|(True)\b|(\d+))")
REFUSED = re.compile(r"The '(\w+)' parameter of \w+ must be")  # of scikit-learn
OTHERS = (
    (r"\bk_range\b", "-k"),
    (r"\bgroup_sizes\b", "--group-sizes"),
    (r"\b(must|cannot)_link\b", r"--\1-link"),
    (r"\bn_clusters=(?=\d)", "-k "),
    (r"\bn_clusters\b", "-k"),
    (r"\brandom_state\b", "--seed"),
    (r"\bsize_(min|max)\b", r"--size-\1"),
    (r"\binertia_", "the inertia"),
    (r"\bits the inertia", "its inertia"),
    (r"\bcertificate_", "the certificate"),
)


def as_options(words: str) -> str:
    """Replace parameters, such as init='d2', by options of the command, such as --init d2."""
    words = PARAMETER.sub(_option, REFUSED.sub(_refused, words))
    for pattern, other in OTHERS:
        words = re.sub(pattern, other, words)
    return words


def _refused(found: re.Match[str]) -> str:
    name = {"n_clusters": "-k", "n_groups": "-g", "random_state": "--seed"}.get(found[1])
    return f"{name or '--' + found[1].replace('_', '-')} must be"


def _option(found: re.Match[str]) -> str:
    name, word, true, digits = found.groups()
    option = f"--{name.replace('_', '-')}"
    return option if true else f"{option} {digits or shlex.quote(word)}"
