"""Seedings in plain numpy: a correct one, and wrong ones that the tests of the law must catch.

Each takes (D, k, weights, rng), D the squared distances, and returns k indices. The wrong ones are
mistakes that people have made: in the exponent, in the weights, in an index, in costs that are not
updated in time.
"""

import numpy as np


def make(share=None, first=None, trials=1, best=np.argmin, refresh=1):
    """Return a sampler; the arguments say what it does differently from plain k-means++."""

    def sampler(D, k, weights, rng):
        p = weights if first is None else first(weights)
        chosen = [rng.choice(len(D), p=p / p.sum())]
        closest = D[:, chosen[0]].copy()
        for t in range(1, k):
            p = (weights * closest) if share is None else share(weights, closest)
            candidates = rng.choice(len(D), size=trials, p=p / p.sum())
            left = [weights @ np.minimum(closest, D[:, c]) for c in candidates]
            chosen.append(candidates[best(left)])
            if t % refresh == 0:
                closest = D[:, chosen].min(axis=1)
            closest[chosen] = 0.0
        return chosen

    return sampler


def first_eighth(weights, closest):
    p = weights * closest
    p[max(1, len(p) // 8) :] = 0
    return p if p.sum() else np.ones_like(p)


def shifted(weights, closest):
    return np.roll(weights * closest, 1)


right = make()
right_greedy = make(trials=3)

WRONG_PLAIN = {
    "uniform": make(share=lambda w, d: w),
    "distance instead of its square": make(share=lambda w, d: w * np.sqrt(d)),
    "fourth power": make(share=lambda w, d: w * d * d),
    "weights ignored": make(share=lambda w, d: d, first=np.ones_like),
    "weights ignored by the first draw": make(first=np.ones_like),
    "weights squared": make(share=lambda w, d: w * w * d),
    "only the first eighth": make(share=first_eighth),
    "off by one": make(share=shifted),
    "greedy although plain was asked": make(trials=3),
    "never refreshed": make(refresh=10**6),
    "refreshed every other draw": make(refresh=2),
}
WRONG_GREEDY = {
    "plain": make(),
    "one trial too few": make(trials=2),
    "one trial too many": make(trials=4),
    "the worst candidate": make(trials=3, best=np.argmax),
    "candidates drawn uniformly": make(share=lambda w, d: w * (d > 0), trials=3),
}
