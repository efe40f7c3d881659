"""Transports for tests: one records all messages, one carries them as bytes."""

import numpy as np
from api import (
    VERTICAL_DTYPES,
    Envelope,
    InProcessParties,
    Question,
    VerticalParty,
    decode_envelope,
    decode_reply,
    encode_envelope,
    encode_reply,
)


def ask(party, name, arguments):
    """The answer of a party to one question."""
    return party.answer(Envelope(0, 0, Question(name, arguments)))


class RecordedParties(InProcessParties):
    """`answers[question]`: one list for each time it was asked, with the answer of each party."""

    def __init__(self, parties):
        super().__init__(parties)
        object.__setattr__(self, "answers", {})

    def __len__(self):
        return len(self.parties)

    def send(self, envelopes):
        replies = super().send(envelopes)
        asked = next(iter(envelopes.values()))
        for question in asked.log:
            self.answers.setdefault(question.name, []).append([{}] * len(envelopes))
        copies = [{name: np.copy(a) for name, a in one.items()} for one in replies.values()]
        self.answers.setdefault(asked.question.name, []).append(copies)
        return replies

    def masked(self, question, party):
        """What this party sent, one row a round: the rounds with the most values."""
        sent = [answers[party]["masked"].ravel() for answers in self.answers[question]]
        size = max(map(len, sent))
        return np.array([s for s in sent if len(s) == size])


class WireParties(InProcessParties):
    """Messages travel as bytes; a message of other types than those of any network fails."""

    def send(self, envelopes):
        there = {
            name: decode_envelope(encode_envelope(own), dtypes=VERTICAL_DTYPES)
            for name, own in envelopes.items()
        }
        return {
            name: decode_reply(encode_reply(answer), dtypes=VERTICAL_DTYPES)
            for name, answer in super().send(there).items()
        }


def parties_of(X, cuts, ids=None):
    """Parties that hold the columns of X, cut at `cuts`."""
    return [VerticalParty(own, ids) for own in np.split(X, cuts, axis=1)]
