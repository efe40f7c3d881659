"""Sections about what is known of a fit: guarantee, certificate, stream, transcript of peers."""

from __future__ import annotations

from typing import Any

from kvariates.guarantees import how_to_measure
from kvariates.peers.vertical_session import VerticalTranscript

from .figures import Fact, facts
from .option_words import as_options
from .page import Section, number, paragraph, promise_box, table, text
from .run import FitRun

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def guarantee_section(run: FitRun) -> Section:
    """The theorem that holds for the fit, or why none does, and the certificate."""
    record, parts = run.record, []
    certificate = record.certificate
    if certificate is not None:
        words = _spoken(run, certificate.explain())
        parts.append(f"<h3>Certificate: {text(certificate)}</h3>{promise_box(words)}")
    if record.guarantee is not None:
        parts.append(f"<h3>Guarantee</h3>{promise_box(_spoken(run, record.guarantee.explain()))}")
    elif record.lost is not None:
        if certificate is None and record.certifiable:
            parts.append(paragraph(_spoken(run, how_to_measure(certifiable=True))))
        words = f"No theorem bounds the cost of this fit in numbers: {record.lost}"
        parts.append(paragraph(_spoken(run, words)))
    return Section("guarantee", "What is proved", "".join(parts))


def _spoken(run: FitRun, words: str) -> str:
    """A text of the library; in the words of the command if that made the page."""
    return as_options(words) if run.of_shell else words


def stream_section(run: FitRun) -> Section:
    """Rows seen, synopses kept, and what they lose."""
    record, synopses = run.record, run.record.synopses
    if synopses is None:
        return Section("stream", "Stream", "")
    items = [
        Fact("rows seen", f"{record.rows_seen or 0:,}"),
        Fact("synopses", f"{len(synopses):,}"),
        Fact("memory of the synopses", n_bytes(synopses.nbytes + record.synopsis_weights.nbytes)),
    ]
    if record.rows_dropped:
        items.append(Fact("rows dropped", f"{record.rows_dropped:,}"))
    words = (
        "The rows were read once for the centres: k-means ran on weighted points, the synopses, "
        "that stand for them."
    )
    words += " They were read again for the labels, the sizes and the cost." * run.of_shell
    spread = record.spread
    if spread is not None:
        error = f" ± {number(spread.standard_error, 3)}" if spread.standard_error else ""
        items.append(Fact("spread", f"{number(spread.value)}{error}"))
        words += " The spread is the sum of the rows' squared distances to their nearest synopses"
        words += "; what follows ± is the standard error of its estimate." if error else "."
    return Section("stream", "Stream", facts(items) + paragraph(words))


def n_bytes(value: float) -> str:
    """A number of bytes in words."""
    for unit in UNITS[:-1]:
        if value < 1000:
            return f"{number(value, 3)} {unit}"
        value /= 1000
    return f"{number(value, 3)} {UNITS[-1]}"


def transcript_section(run: FitRun) -> Section:
    """What a coordinator and its peers, or parties, sent to each other."""
    transcript = run.record.transcript
    if transcript is None:
        return Section("transcript", "Transcript", "")
    items = [Fact("rounds", f"{transcript.rounds:,}"), Fact("messages", f"{transcript.messages:,}")]
    if isinstance(transcript, VerticalTranscript):
        items.append(Fact("bytes in all messages", n_bytes(transcript.bytes)))
        details = _questions(transcript)
    else:
        items += [
            Fact("sent to peers", n_bytes(transcript.bytes_sent)),
            Fact("received", n_bytes(transcript.bytes_received)),
            Fact("rows revealed", f"{transcript.points_revealed:,}"),
        ]
        details = _peers(transcript)
    words = paragraph("What was sent between the coordinator and those who hold the data.")
    return Section("transcript", "Transcript", words + facts(items) + details)


def _peers(transcript: Any) -> str:
    parts = []
    if transcript.dropped:
        rows = [(d.peer, str(d.round), d.reason) for d in transcript.dropped]
        parts.append("<h3>Peers that left</h3>" + table(["peer", "round", "reason"], rows))
    if transcript.joined:
        parts.append(paragraph("Joined later: " + ", ".join(map(str, transcript.joined)) + "."))
    if transcript.fingerprints:
        parts.append("<h3>Fingerprints of the public keys</h3>")
        parts += [f"<pre>{text(words)}</pre>" for words in transcript.fingerprints]
    return "".join(parts)


def _questions(transcript: Any) -> str:
    traffic = transcript.by_question
    rows = [[name, *(f"{value:,}" for value in one)] for name, one in traffic.items()]
    names = [name.replace("_", " ") for name in next(iter(traffic.values()))._fields]
    parts = [table(["question", *names], rows)]
    for side, learned in transcript.revealed.items():
        items = "".join(f"<li>{text(words)}</li>" for words in learned)
        parts.append(f'<div class="box"><h3>What {text(side)} learns</h3><ul>{items}</ul></div>')
    parts.append(paragraph(f"Fingerprint of the public keys: {transcript.fingerprint}", "note"))
    return "".join(parts)
