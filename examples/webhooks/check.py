#!/usr/bin/env python3
"""Compares what took effect (webhooks.db, or the file that is named) and what `semel run --output json`
said of it (summary.jsonl) with the truth (deliveries/truth.json). Exit 1 if they differ."""

import collections
import json
import sqlite3
import sys

COUNTS = ["deliveries", "applied", "replayed", "conflicts", "quarantined"]


def main():
    with open("deliveries/truth.json", encoding="utf-8") as file:
        truths = json.load(file)
    with open("summary.jsonl", encoding="utf-8") as file:
        said = {entry["pipeline"]: entry for entry in map(json.loads, file)}
    database = sys.argv[1] if len(sys.argv) > 1 else "webhooks.db"
    rows = sqlite3.connect(database).execute("select queue, delivery from received")
    effects = collections.defaultdict(list)
    for queue, delivery in rows:
        effects[queue].append(delivery)
    faults = []
    for queue, truth in truths.items():
        times = collections.Counter(truth["events"].get(delivery) for delivery in effects[queue])
        for event in set(truth["events"].values()) | set(times):
            if times[event] != 1 or event is None:
                faults.append(f"{queue}: {event} took effect {times[event]} times")
        for count in COUNTS:
            if said[queue][count] != truth[count]:
                faults.append(f"{queue}: {said[queue][count]} {count}, not {truth[count]}")
    if faults:
        sys.exit("\n".join(faults))
    total = {count: sum(truth[count] for truth in truths.values()) for count in COUNTS}
    print(f"{total['deliveries']} deliveries, {total['applied']} events, each took effect once;")
    print(f"{total['conflicts']} conflicts and {total['quarantined']} lines without a key are in quarantine")


if __name__ == "__main__":
    main()
