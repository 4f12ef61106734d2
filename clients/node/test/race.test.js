// Racing processes while the server is killed and started again.

import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { Real, sleep } from "./servers.js";

const [KEYS, PROCESSES, LANES, EACH_MS] = [20, 3, 3, 200];

test("racing processes while the server is killed: no key has two effects", async () => {
  const killed = await Real.start();
  const booked = join(killed.folder, "booked");
  writeFileSync(booked, "");
  const beginsAt = Date.now() + 500;
  const told = JSON.stringify({ url: killed.url, booked, beginsAt, keys: KEYS, eachMs: EACH_MS, lanes: LANES });
  const ends = [];
  const racers = Array.from({ length: PROCESSES }, () => fork(new URL("racer.js", import.meta.url), [told]));
  const over = racers.map((racer) => {
    racer.on("message", (end) => ends.push(end));
    return new Promise((resolve) => racer.once("exit", resolve));
  });
  let kills = 0;
  await sleep(beginsAt + 450 - Date.now());
  while (Date.now() < beginsAt + KEYS * EACH_MS) {
    await killed.kill();
    kills += 1;
    await sleep(100);
    await killed.start();
    await sleep(500);
  }
  const late = setTimeout(() => racers.forEach((racer) => racer.kill("SIGKILL")), 10_000);
  assert.deepEqual(await Promise.all(over), racers.map(() => 0));
  clearTimeout(late);
  const effects = new Map();
  for (const line of readFileSync(booked, "utf8").trim().split("\n")) {
    const [key, nonce] = line.split(" ");
    effects.set(key, [...(effects.get(key) ?? []), nonce]);
  }
  await killed.close();
  assert.ok(kills >= 3, `${kills} kills`);
  assert.equal(ends.length, KEYS * PROCESSES * LANES);
  for (let index = 0; index < KEYS; index += 1) {
    const key = `key-${index}`;
    const nonces = effects.get(key) ?? [];
    assert.ok(nonces.length <= 1, `${key} has ${nonces.length} effects`);
    // A caller may be told a doubt that the late report of the first one ends.
    const done = ends.filter((it) => it.key === key && it.end === "done");
    assert.ok(done.every((it) => it.by === nonces[0] && index % 7 !== 0), JSON.stringify(done));
  }
  assert.ok(ends.filter((it) => it.replayed).length > 4 * KEYS);
});
