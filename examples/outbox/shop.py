"""The transactions of a shop: `python3 shop.py | psql --quiet shop`.

1,000 orders, each with a message about it in the same transaction; one in ten is rolled back.
"""

import json
import random

ORDERS = 1_000


def main():
    chance = random.Random(370)
    for number in range(ORDERS):
        order = {
            "order_id": f"ord-{number:04}",
            "item": chance.choice(["chair", "lamp", "table"]),
            "quantity": chance.randrange(1, 9),
        }
        values = "'{order_id}', '{item}', {quantity}".format(**order)
        print("BEGIN;")
        print(f"INSERT INTO public.orders (order_id, item, quantity) VALUES ({values});")
        print(
            "INSERT INTO semel_outbox (stream, order_key, payload) "
            f"VALUES ('orders', '{order['item']}', convert_to('{json.dumps(order)}', 'UTF8'));"
        )
        is_declined = number % 10 == 7
        print("ROLLBACK;" if is_declined else "COMMIT;")


main()
