"""A small set of cases in which every two factors meet in every pair of values that any case
has."""

from itertools import combinations


def pairs_of(case):
    """case: a tuple with one value for each factor."""
    return {((i, case[i]), (j, case[j])) for i, j in combinations(range(len(case)), 2)}


def covering(cases):
    """Greedy: always the case that brings most pairs that are still missing, the first of equals.
    Deterministic."""
    missing = set().union(*(pairs_of(case) for case in cases))
    chosen = []
    while missing:
        best = max(cases, key=lambda case: len(pairs_of(case) & missing))
        chosen.append(best)
        missing -= pairs_of(best)
    return chosen
