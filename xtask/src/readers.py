"""Reads a saved run with readers that share no code with Hairpin: DuckDB and Python's HdrHistogram.

usage: readers.py RUN_FOLDER. Prints a summary, or all faults and exits with 1.
"""

import json
import pathlib
import sys

import duckdb
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

LONGEST_NS = 3_600_000_000_000
# Three significant digits: a bucket's width is at most 1/1024 of its value, and the reported value is its upper end.
HISTOGRAM_ERROR = 0.002


def measured_rounds(folder):
    """Yields the flows of all measured rounds in rounds.jsonl, each with the round's number and its case."""
    for line in (folder / "rounds.jsonl").read_text().splitlines():
        record = json.loads(line)
        outcome = record["outcome"]
        if outcome["kind"] == "measured" and not outcome.get("interrupted", False):
            for flow in outcome["flows"]:
                yield record["number"], record["case_id"], flow


def samples_faults(folder, number, flow):
    """Compares the raw samples of a flow with the flow's record in rounds.jsonl."""
    name = flow["samples_file"]
    path = str(folder / name)
    place = f"round {number}, flow {flow['id']} ({name})"
    columns = {row[0] for row in duckdb.execute("describe select * from read_parquet(?)", [path]).fetchall()}
    of_round = "from read_parquet(?) where round = ? and flow = ?"
    if "flow" not in columns:
        return [f"{place}: no column flow"]
    of_flow = [path, number, flow["id"]]
    rows = duckdb.execute(f"select count(*) {of_round}", of_flow).fetchone()[0]
    if rows != flow["samples_kept"]:
        return [f"{place}: {rows} rows, {flow['samples_kept']} samples kept"]
    lacking = {"label", "sequence", "due_ns", "sent_ns", "received_ns", "fate"} - columns
    if lacking:
        return [f"{place}: no column {', '.join(sorted(lacking))}"]
    # The warm-up is first, and has sequence numbers too.
    warm_up = rows - flow["ledger"]["sent"]
    if warm_up < 0:
        return []
    answered = f"{of_round} and received_ns > 0 and sequence >= ?"
    read = duckdb.execute(f"select count(*) {answered}", [*of_flow, warm_up]).fetchone()[0]
    samples = flow["figures"]["samples"]
    faults = []
    if read != samples:
        faults.append(f"{place}: {read} answered messages, {samples} samples in rounds.jsonl")
    # All definitions of a percentile give a value between the neighbours of the rank.
    for share, figure in ((0.5, "p50"), (0.9, "p90")):
        around = [max(share - 1 / max(read, 1), 0), min(share + 1 / max(read, 1), 1)]
        query = f"select quantile_disc(received_ns - due_ns, {around}) {answered}"
        low, high = duckdb.execute(query, [*of_flow, warm_up]).fetchone()[0]
        said = flow["figures"]["latency_ns"][figure]
        if not low * (1 - HISTOGRAM_ERROR) - 1 <= said <= high * (1 + HISTOGRAM_ERROR) + 1:
            faults.append(f"{place}: {figure} is {said} ns in rounds.jsonl, {low} to {high} ns in the samples")
    return faults


def logged_total(path):
    """Returns the number of samples in an HdrHistogram log, and the number of its histograms."""
    reader = HistogramLogReader(str(path), HdrHistogram(1, LONGEST_NS, 3))
    total = count = 0
    while (histogram := reader.get_next_interval_histogram()) is not None:
        total += histogram.get_total_count()
        count += 1
    return total, count


def main(folder):
    run = json.loads((folder / "run.json").read_text())
    faults, by_flow, with_samples = [], {}, 0
    for number, case, flow in measured_rounds(folder):
        by_flow[case, flow["id"]] = by_flow.get((case, flow["id"]), 0) + flow["figures"]["samples"]
        if flow["samples_file"] is not None:
            with_samples += 1
            faults += samples_faults(folder, number, flow)
    flows = {(case["id"], flow["id"]): flow["samples"] for case in run["cases"] for flow in case["flows"]}
    for (case, flow), told in flows.items():
        if by_flow.get((case, flow), 0) != told:
            faults.append(f"flow {flow} of case {case}: {told} samples in run.json, {by_flow.get((case, flow))} in its rounds")
    samples = sum(flows.values())
    total, histograms = logged_total(folder / "latency.hlog")
    if total != samples:
        faults.append(f"latency.hlog: {total} samples in {histograms} histograms, {samples} in run.json")
    if with_samples == 0:
        faults.append("no round has raw samples")
    print("\n".join(faults) if faults else f"samples of {with_samples} flows of rounds and {histograms} histograms, {samples} samples")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
