# One request per line comes in, one answer per line goes out; docs/spec/jsonl.md has the details.
import json
import os
import sys

handled = set()
if os.path.exists("handled.txt"):
    with open("handled.txt") as file:
        handled = {line.split()[0] for line in file}

for line in sys.stdin:
    request = json.loads(line)
    # The same on every attempt. Whatever you call should refuse to do the same key twice, as this does.
    key = request["idempotency_key"]
    if key not in handled:
        handled.add(key)
        with open("handled.txt", "a") as file:
            print(key, json.dumps(request["payload"]), file=file)
    # Or "retry" with an "error", "dead" with an "error", or "unknown".
    print(json.dumps({"id": request["id"], "status": "done", "result": {"handled": True}}), flush=True)
