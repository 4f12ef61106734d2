"""A payment provider with bad days: declines some cards, loses some answers, and is down while ./run says so."""
import json, os, sys, time

for line in sys.stdin:
    request = json.loads(line)
    amount = request["payload"]["amount"]
    answer = {"id": request["id"], "status": "done", "result": {"charged": amount}}
    if os.path.exists(os.environ["PROVIDER_IS_DOWN"]):
        answer = {"id": request["id"], "status": "retry", "error": "the provider is down"}
    elif amount % 89 == 0:
        answer = {"id": request["id"], "status": "dead", "error": "the card is declined"}
    elif amount % 151 == 0:
        answer = {"id": request["id"], "status": "unknown", "error": "the answer was lost"}
    else:
        time.sleep(0.002)
    print(json.dumps(answer), flush=True)
