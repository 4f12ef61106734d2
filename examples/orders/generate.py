"""Writes what an order service sees: `python3 generate.py > orders.ndjson`.

1,000 orders; one in five comes again, byte for byte or as a new event with another time.
"""

import json
import random

ORDERS = 1_000


def main():
    chance = random.Random(260)
    events = []
    for number in range(ORDERS):
        order = {
            "event_id": f"evt-{number}",
            "order_id": f"ord-{number:04}",
            "customer": f"cust-{chance.randrange(200)}",
            "amount": chance.randrange(100, 100_000),
            "currency": chance.choice(["EUR", "USD", "GBP"]),
            "sent": number,
        }
        events.append((number, order))
        if chance.random() < 0.2:
            later = number + chance.randrange(1, 300)
            again = dict(order)
            if chance.random() < 0.5:
                again["event_id"] = f"evt-{number}-again"
                again["sent"] = later
            events.append((later, again))
    events.sort(key=lambda event: event[0])
    for _, order in events:
        print(json.dumps(order))


main()
