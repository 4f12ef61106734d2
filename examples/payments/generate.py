#!/usr/bin/env python3
"""Writes payments.ndjson, the sample of this folder, and prints what Semel should make of it.

    python3 generate.py            write the file
    python3 generate.py --check    compare the file with what would be written; exit 1 if they differ

The same file every time: all chance comes from one seeded generator, and only from its `random()`,
which Python keeps the same from version to version.
"""

import json
import os
import random
import sys
from datetime import datetime, timedelta, timezone

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "payments.ndjson")
PAYMENTS = 2000
REDELIVERED = 310
REPUBLISHED = 236
CUSTOMERS = 420
BEGIN = datetime(2026, 3, 2, 6, 0, tzinfo=timezone.utc)
# The first number that a double cannot hold; every second one from here on is lost as a double.
FIRST_LEDGER_ID = 2**53 + 1
PRICES = [499, 799, 999, 1290, 1499, 1999, 2490, 2999, 4900, 5999, 7990, 12900, 24900, 89000]
CURRENCIES = ["EUR"] * 14 + ["USD"] * 4 + ["GBP"] * 2

chance = random.Random(20260302).random


def below(limit):
    return int(chance() * limit)


def token(length):
    return "".join("0123456789abcdefghijklmnopqrstuvwxyz"[below(36)] for _ in range(length))


def line(**members):
    return json.dumps(members, separators=(",", ":"))


def payments():
    """The distinct payments, in the order in which they were made."""
    customers = ["cus_" + token(8) for _ in range(CUSTOMERS)]
    at = BEGIN
    for number in range(PAYMENTS):
        at += timedelta(seconds=5 + below(95))
        yield {
            "payment_intent": "pi_" + token(14),
            "event_id": "evt_" + token(12),
            "created_at": stamp(at),
            "amount": PRICES[below(len(PRICES))] * (1 + below(2)) + below(100) * below(2),
            "currency": CURRENCIES[below(len(CURRENCIES))],
            # Squared, so that some customers come often.
            "customer": customers[int(chance() ** 2 * CUSTOMERS)],
            "ledger_id": FIRST_LEDGER_ID + number,
        }


def stamp(at):
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def published_again(payment, later):
    """The same intent in a new event: a new id and a new time; what is paid stays."""
    at = parse(payment["created_at"]) + timedelta(seconds=later)
    return {**payment, "event_id": "evt_" + token(12), "created_at": stamp(at)}


def broken(payments):
    """Lines that yield no usable key, with the reason that each is quarantined for."""
    whole = [line(**payments[number]) for number in (211, 623, 947, 1180, 1402, 1655, 1871)]
    fresh = [line(**{**json.loads(text), "payment_intent": "pi_" + token(14)}) for text in whole]

    def replaced(text, value):
        return text.replace(json.dumps(json.loads(text)["payment_intent"]), value)

    first = '{"payment_intent":"pi_%s",' % token(14)
    return [
        (fresh[0][:71], "not-json"),
        ("WARN payments-api: retrying publish, attempt 2", "not-json"),
        ("{" + fresh[1].split(",", 1)[1], "key-missing"),
        (replaced(fresh[2], "null"), "key-null"),
        (replaced(fresh[3], "true"), "key-not-scalar"),
        (replaced(fresh[4], '"  "'), "key-blank"),
        (first + fresh[5][1:], "member-duplicated"),
    ]


def generate():
    """The lines of the file and the counts that go with them."""
    distinct = list(payments())
    # (place, line): the first copies stand at 0, 1, 2 …, whatever comes again a while after them.
    placed = [(number, line(**payment)) for number, payment in enumerate(distinct)]
    for _ in range(REDELIVERED):
        number = below(PAYMENTS)
        placed.append((number + 0.5 + below(60), line(**distinct[number])))
    for _ in range(REPUBLISHED):
        number = below(PAYMENTS)
        later = 30 + below(7200)
        again = published_again(distinct[number], later)
        placed.append((number + 0.25 + later / 50, line(**again)))
    reused = published_again(distinct[1233], 600)
    reused["amount"] += 1000
    placed.append((1249.75, line(**reused)))
    unusable = broken(distinct)
    for number, (text, _) in enumerate(unusable):
        placed.append((160.1 + 255 * number, text))
    placed.append((999.9, ""))
    placed.sort(key=lambda item: item[0])
    counts = {
        "lines": len(placed),
        "blank": 1,
        "deliveries": len(placed) - 1,
        "distinct": PAYMENTS,
        "redelivered": REDELIVERED,
        "republished": REPUBLISHED,
        "conflicts": 1,
        "quarantined": len(unusable),
    }
    return [text for _, text in placed], counts


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: generate.py [--check]")
    lines, counts = generate()
    text = "".join(text + "\n" for text in lines).encode()
    if sys.argv[1:]:
        with open(FILE, "rb") as file:
            if file.read() != text:
                sys.exit("payments.ndjson is not what generate.py writes")
    else:
        with open(FILE, "wb") as file:
            file.write(text)
    for name, count in counts.items():
        print(f"{name:<12}{count:>6}")


if __name__ == "__main__":
    main()
