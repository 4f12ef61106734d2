import { Semel } from "semel";

const semel = new Semel(); // the variable SEMEL_URL names the server

// Pass op.idempotencyKey on to the provider: it is the same on every attempt.
const charge = async (op) => ({ charged: 4200 });

for (let call = 0; call < 2; call += 1) {
  const receipt = await semel.once("charge", "payment-node", charge, { fingerprint: { amount: 4200 } });
  console.log(receipt.outcome, receipt.replayed ? "replayed" : "ran");
}
