"""Writes oracle.json: what SciPy and exact enumeration say of made-up values, for oracle.rs to compare with.

By hand, from this folder, in a Python with SciPy 1.17: python3 oracle.py >oracle.json
"""

import itertools
import json
import math
import random

import numpy
from scipy import stats

random.seed(1)


def values(length):
    return [round(random.uniform(1.0, 1e6), 3) for _ in range(length)]


def t_interval(sample):
    """Student's 95 % interval of the mean."""
    low, high = stats.ttest_1samp(sample, 0.0).confidence_interval(0.95)
    return [low, high]


def expanded_tail(rounds):
    """Hesterberg 2015: the tail that stands for 2.5 %."""
    return stats.norm.cdf(-math.sqrt(rounds / (rounds - 1)) * stats.t.ppf(0.975, rounds - 1))


def resampled_medians(sample):
    """Every median that a resample of the ascending sample can have, with its chance, exactly."""
    n = len(sample)
    lower = (n - 1) // 2
    upper = n // 2
    chances = {}

    def cumulative(a, b):
        """The chance that order statistic `lower` is at most sample[a] and `upper` at most sample[b], a <= b."""
        if a < 0 or b < 0:
            return 0.0
        p, q = (a + 1) / n, (b - a) / n
        total = 0.0
        for below in range(lower + 1, n + 1):
            for between in range(max(0, upper + 1 - below), n - below + 1):
                ways = math.comb(n, below) * math.comb(n - below, between)
                total += ways * p**below * q**between * max(0.0, 1 - p - q) ** (n - below - between)
        return total

    table = {(a, b): cumulative(a, b) for a in range(n) for b in range(a, n)}
    at = lambda a, b: 0.0 if a < 0 or b < 0 else table[(min(a, b), b)]
    for a, b in itertools.combinations_with_replacement(range(n), 2):
        chance = at(a, b) - at(a - 1, b) - at(a, b - 1) + at(a - 1, b - 1)
        median = (sample[a] + sample[b]) / 2
        chances[median] = chances.get(median, 0.0) + chance
    assert abs(sum(chances.values()) - 1) < 1e-9
    return sorted(chances.items())


def quantile(distribution, share):
    total = 0.0
    for value, chance in distribution:
        total += chance
        if total >= share:
            return value
    return distribution[-1][0]


def bootstrap(rounds):
    """Between which values the bounds of a bootstrap of 2000 resamples lie, but for once in 15 000 times (4 SD)."""
    sample = [100.0 + k * k for k in range(rounds)]
    distribution = resampled_medians(sample)
    tail = expanded_tail(rounds)
    slack = 4 * math.sqrt(tail * (1 - tail) / 2000)
    low = [quantile(distribution, max(0.0, tail - slack)), quantile(distribution, tail + slack)]
    high = [quantile(distribution, 1 - tail - slack), quantile(distribution, min(1.0, 1 - tail + slack))]
    return {"values": sample, "median": float(numpy.median(sample)), "low": low, "high": high}


def shift():
    one, other = values(random.randrange(6, 16)), values(random.randrange(6, 16))
    differences = [b - a for a in one for b in other]
    return {"one": one, "other": other, "shift": float(numpy.median(differences))}


def trend(length):
    """Theil and Sen's slope, and the p of Kendall's test: exact to 30 values, then normal with continuity correction."""
    sample = values(length)
    times = list(range(length))
    if length <= 30:
        p = stats.kendalltau(times, sample, method="exact").pvalue
    else:
        s = sum((b > a) - (b < a) for a, b in itertools.combinations(sample, 2))
        z = max(abs(s) - 1, 0) / math.sqrt(length * (length - 1) * (2 * length + 5) / 18)
        p = 2 * stats.norm.sf(z)
    return {"values": sample, "slope": float(stats.theilslopes(sample, times).slope), "p": float(p)}


few = [values(length) for length in [3, 3, 3, 4, 4, 4, 5, 5, 5]]
print(
    json.dumps(
        {
            "medians": [{"values": v, "median": float(numpy.median(v))} for v in map(values, range(1, 50, 4))],
            "student_quantiles": [float(stats.t.ppf(0.975, degrees)) for degrees in range(1, 61)],
            "few_differences": [
                {"values": v, "median": float(numpy.median(v)), "interval": t_interval(v)} for v in few
            ],
            "shifts": [shift() for _ in range(20)],
            "trends": [trend(length) for length in [3, 4, 5, 8, 12, 20, 30, 31, 40, 50, 60]],
            "bootstraps": [bootstrap(rounds) for rounds in [6, 10, 15, 30]],
        },
        indent=1,
    )
)
