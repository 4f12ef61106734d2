import semel

client = semel.Semel()  # the variable SEMEL_URL names the server


def charge(op):
    # Pass op.idempotency_key on to the provider: it is the same on every attempt.
    return {"charged": 4200}


for _ in range(2):
    receipt = client.once("charge", "payment-python", charge, fingerprint={"amount": 4200})
    print(receipt.outcome, "replayed" if receipt.replayed else "ran")
