// A process that races for every key, in several lanes; each end goes to the parent.

import { randomUUID } from "node:crypto";
import { appendFileSync } from "node:fs";

import { Busy, ClaimLost, InDoubt, Semel, Unavailable, Unrecorded } from "../semel.js";
import { sleep } from "./servers.js";

const { url, booked, beginsAt, keys, eachMs, lanes } = JSON.parse(process.argv[2]);
const semel = new Semel(url, undefined, { timeoutMs: 3000, retryForMs: 8000 });

/** Asks until there is the one answer, or a doubt. */
async function untilItEnds(key, breaks) {
  const nonce = randomUUID();
  const effect = async () => {
    appendFileSync(booked, `${key} ${nonce}\n`);
    await sleep(Math.random() * 300);
    if (breaks) throw new TypeError("the answer of the provider was lost");
    return { by: nonce };
  };
  const options = { lease: "2s", wait: "1s", class: "unkeyed", onDoubt: "park" };
  for (;;) {
    try {
      const { outcome, replayed } = await semel.once("race", key, effect, options);
      return { key, end: "done", by: outcome.by, replayed };
    } catch (error) {
      if (error instanceof InDoubt) return { key, end: "in doubt" };
      const isPassing = [Busy, ClaimLost, Unavailable, Unrecorded, TypeError].some((it) => error instanceof it);
      if (!isPassing) throw error;
      await sleep(Math.min(error.retryAfterMs ?? 50, 200));
    }
  }
}

async function lane() {
  for (let index = 0; index < keys; index += 1) {
    await sleep(Math.max(beginsAt + index * eachMs - Date.now(), 0));
    process.send(await untilItEnds(`key-${index}`, index % 7 === 0));
  }
}

await Promise.all(Array.from({ length: lanes }, lane));
process.disconnect();
