#!/usr/bin/env python3
"""Sends the deliveries of deliver.py over HTTP, signed as GitHub does, to `semel run http.toml`, which it starts and
stops. Each is sent until it is answered with success. What the run says of it goes into summary.jsonl."""

import hashlib
import hmac
import http.client
import json
import os
import signal
import subprocess
import sys
import time

SECRET = b"It's a Secret to Everybody"
QUEUES = ["issues", "pull_requests", "comments", "pushes", "checks", "jobs"]


def send(queue, line):
    """Sends one delivery until it is taken; returns the status of the answer."""
    body = json.dumps(line["payload"], separators=(",", ":")).encode()
    headers = {
        "X-GitHub-Delivery": line["delivery"],
        "X-GitHub-Event": line["event"],
        "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest(),
    }
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", 8282, timeout=60)
            connection.request("POST", "/" + queue, body, headers)
            status = connection.getresponse().status
            connection.close()
            if status < 300:
                return status
            if status != 503:
                sys.exit(f"{queue}: answered {status}")
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"{queue}: no answer with success")


def main():
    with open(os.open("secret", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(SECRET)
    with open("summary.jsonl", "wb") as summary:
        worker = subprocess.Popen(
            ["semel", "run", "http.toml", "--output", "json"], stdout=summary, stderr=subprocess.DEVNULL
        )
    statuses = {}
    for queue in QUEUES:
        with open(f"deliveries/{queue}.ndjson", encoding="utf-8") as file:
            for line in file:
                status = send(queue, json.loads(line))
                statuses[status] = statuses.get(status, 0) + 1
    worker.send_signal(signal.SIGTERM)
    if worker.wait() != 0:
        sys.exit("the worker failed")
    print(", ".join(f"{count} answered {status}" for status, count in sorted(statuses.items())))


if __name__ == "__main__":
    main()
