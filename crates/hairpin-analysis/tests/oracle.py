"""Writes oracle.json: results of SciPy and exact enumeration for made-up values, which oracle.rs compares with ours.

Run by hand, in this folder, with SciPy 1.17: python3 oracle.py >oracle.json
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


def interval(sample, span_s):
    """The interval of METHODOLOGY.md, or the reason why the sample has none."""
    logarithms = numpy.log(sample)
    count = 8 if len(sample) >= 16 else 5
    edges = [k * len(sample) // count for k in range(count + 1)]
    batches = [float(numpy.median(logarithms[low:high])) for low, high in itertools.pairwise(edges)]
    result = {"values": sample, "span_s": span_s, "median": float(numpy.median(sample))}
    if stats.kendalltau(range(count), batches, method="exact").pvalue < 0.01:
        return result | {"why": "trend"}
    centred = numpy.array(batches) - numpy.mean(batches)
    if float(sum(centred[1:] * centred[:-1]) / sum(centred**2)) > 0.4:
        return result | {"why": "slow-variation"}
    slow = min(1.0, 0.13 * math.sqrt(10 / span_s))
    error = stats.t.ppf(0.975, count - 1) * numpy.std(batches, ddof=1) / math.sqrt(count)
    floor = stats.norm.ppf(0.975) * math.sqrt(slow) * numpy.std(logarithms, ddof=1)
    half = math.hypot(error, floor)
    centre = float(numpy.median(logarithms))
    return result | {"low": math.exp(centre - half), "high": math.exp(centre + half)}


def drawn_interval():
    length = random.choice([5, 8, 15, 16, 17, 40, 100])
    slope = random.choice([0.0, 0.0, 0.0, 0.02])
    wave = random.choice([0.0, 0.0, 0.2])
    noise = [random.gauss(0, 0.05) + slope * k + wave * math.sin(2 * math.pi * k / length) for k in range(length)]
    return interval([round(1e4 * math.exp(x), 3) for x in noise], random.choice([0.5, 2.0, 10.0, 60.0]))


def welch():
    one, other = ([round(random.gauss(centre, 0.1), 6) for _ in range(random.randrange(3, 8))] for centre in (1.0, 1.1))
    a, b = (numpy.var(side, ddof=1) / len(side) for side in (one, other))
    degrees = (a + b) ** 2 / (a**2 / (len(one) - 1) + b**2 / (len(other) - 1))
    half = stats.t.ppf(0.975, math.floor(degrees)) * math.sqrt(a + b)
    difference = float(numpy.mean(other) - numpy.mean(one))
    return {"one": one, "other": other, "difference": difference, "half": float(half)}


def holm():
    p_values = [round(random.random() ** 4, 6) for _ in range(random.randrange(1, 12))]
    order = sorted(range(len(p_values)), key=lambda k: p_values[k])
    stands, going = [False] * len(p_values), True
    for rank, place in enumerate(order):
        going = going and p_values[place] * (len(p_values) - rank) <= 0.05
        stands[place] = going
    return {"p_values": p_values, "stands": stands}


def trend(length):
    """Theil-Sen slope, and the p-value of Kendall's test: exact for 30 values, beyond that normal with correction."""
    sample = values(length)
    times = list(range(length))
    if length <= 30:
        p = stats.kendalltau(times, sample, method="exact").pvalue
    else:
        s = sum((b > a) - (b < a) for a, b in itertools.combinations(sample, 2))
        z = max(abs(s) - 1, 0) / math.sqrt(length * (length - 1) * (2 * length + 5) / 18)
        p = 2 * stats.norm.sf(z)
    return {"values": sample, "slope": float(stats.theilslopes(sample, times).slope), "p": float(p)}


print(
    json.dumps(
        {
            "medians": [{"values": v, "median": float(numpy.median(v))} for v in map(values, range(1, 50, 4))],
            "student_quantiles": [float(stats.t.ppf(0.975, degrees)) for degrees in range(1, 61)],
            "normal_quantiles": [
                {"probability": p, "z": float(stats.norm.ppf(p))} for p in [0.75, 0.9, 0.975, 0.9909, 0.9999]
            ],
            "intervals": [drawn_interval() for _ in range(40)],
            "welch": [welch() for _ in range(10)],
            "holm": [holm() for _ in range(20)],
            "trends": [trend(length) for length in [3, 4, 5, 8, 12, 20, 30, 31, 40, 50, 60]],
        },
        indent=1,
    )
)
