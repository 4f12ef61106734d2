#!/usr/bin/env python3
"""Delivers recorded webhooks the way a sender that retries does: several times and in any order.

    SEMEL_WEBHOOK_EXAMPLES=…/webhooks-examples python3 deliver.py

The variable names the folder of the npm package @octokit/webhooks-examples. Each queue becomes a
file deliveries/QUEUE.ndjson of lines {"delivery": ID, "event": NAME, "payload": {…}}; payloads are
as they were recorded. What should come of them is in deliveries/truth.json, worked out here from
the payloads alone. Seeded: the same deliveries every time.
"""

import json
import os
import random
import sys

OUT = "deliveries"

# What each queue carries; the members that make two payloads the same event; the members that must
# agree when an event comes again. The same choices as in semel.toml, on purpose made twice.
QUEUES = {
    "issues": {
        "events": ["issues"],
        "key": ["action", "issue/id", "issue/updated_at"],
        "same": ["label/id", "assignee/id", "milestone/id", "changes"],
    },
    "pull_requests": {
        "events": ["pull_request"],
        "key": ["action", "pull_request/id", "pull_request/updated_at"],
        "same": ["label/id", "assignee/id", "requested_reviewer/id", "changes"],
    },
    "comments": {
        "events": [
            "issue_comment",
            "commit_comment",
            "discussion_comment",
            "pull_request_review_comment",
        ],
        "key": ["action", "comment/id", "comment/updated_at"],
        "same": ["comment/body"],
    },
    "pushes": {
        "events": ["push"],
        "key": ["repository/id", "ref", "before", "after"],
        "same": [],
    },
    "checks": {
        "events": ["check_run"],
        "key": ["action", "check_run/id", "check_run/status"],
        "same": ["check_run/conclusion", "requested_action/identifier"],
    },
    "jobs": {
        "events": ["workflow_job"],
        "key": ["action", "workflow_job/id", "workflow_job/run_attempt"],
        "same": ["workflow_job/conclusion"],
    },
}

MISSING = "(missing)"
chance = random.Random(329).random


def below(limit):
    return int(chance() * limit)


def shuffle(items):
    for last in range(len(items) - 1, 0, -1):
        other = below(last + 1)
        items[last], items[other] = items[other], items[last]


def guid():
    digits = "".join("%x" % below(16) for _ in range(32))
    return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])


def member(payload, path):
    for name in path.split("/"):
        if not isinstance(payload, dict) or name not in payload:
            return MISSING
        payload = payload[name]
    return payload


def deliveries(event, payload):
    """One payload, delivered: two to five times, and now and then published again."""
    copies = []
    for _ in range(1 if chance() < 0.7 else 2):
        delivery = {"delivery": guid(), "event": event, "payload": payload}
        copies += [delivery] * (2 + below(4))
    return copies


def truth(queue, lines):
    """What should come of the lines of a queue, in their order."""
    # Delivery id → event, for deliveries that carry a usable key.
    events = {}
    first = {}
    counts = {"deliveries": len(lines), "applied": 0, "replayed": 0, "conflicts": 0, "quarantined": 0}
    for line in lines:
        parts = [member(line["payload"], path) for path in queue["key"]]
        if MISSING in parts or None in parts:
            counts["quarantined"] += 1
            continue
        key = json.dumps([line["event"], *parts])
        same = json.dumps([member(line["payload"], path) for path in queue["same"]], sort_keys=True)
        events[line["delivery"]] = key
        if key not in first:
            first[key] = same
            counts["applied"] += 1
        else:
            counts["replayed" if first[key] == same else "conflicts"] += 1
    return {**counts, "events": events}


def main():
    folder = os.environ.get("SEMEL_WEBHOOK_EXAMPLES")
    if not folder:
        sys.exit("SEMEL_WEBHOOK_EXAMPLES names no folder; it should hold @octokit/webhooks-examples")
    with open(os.path.join(folder, "api.github.com", "index.json"), encoding="utf-8") as file:
        recorded = {entry["name"]: entry["examples"] for entry in json.load(file)}
    os.makedirs(OUT, exist_ok=True)
    truths = {}
    for number, (name, queue) in enumerate(QUEUES.items()):
        # Whoever sets up a webhook is sent a ping first, whatever the webhook is for.
        pings = recorded["ping"]
        lines = deliveries("ping", pings[number % len(pings)])
        for event in queue["events"]:
            for payload in recorded[event]:
                lines += deliveries(event, payload)
        shuffle(lines)
        with open(os.path.join(OUT, name + ".ndjson"), "w", encoding="utf-8") as file:
            for line in lines:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        truths[name] = truth(queue, lines)
        shown = {count: value for count, value in truths[name].items() if count != "events"}
        print(f"{name:<14}" + "  ".join(f"{value:>4} {count}" for count, value in shown.items()))
    with open(os.path.join(OUT, "truth.json"), "w", encoding="utf-8") as file:
        json.dump(truths, file)
    print(sum(truth["applied"] for truth in truths.values()), "distinct events")


if __name__ == "__main__":
    main()
