import json, sys

for line in sys.stdin:
    request = json.loads(line)
    payment = request["payload"]
    # Pass request["idempotency_key"] to whatever you call: it is the same on every attempt.
    answer = {"id": request["id"], "status": "done", "result": {"charged": payment["amount"]}}
    print(json.dumps(answer), flush=True)
