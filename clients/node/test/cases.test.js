// The behaviour that all clients share, from `clients/cases.json`, and what is this language's own.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import * as semel from "../semel.js";
import { Scripted, sleep, table } from "./servers.js";

const TABLE = table("cases.json");

class FunctionError extends Error {}

class Unprintable extends FunctionError {
  get message() {
    throw new Error("no text");
  }
  get name() {
    throw new Error("no name");
  }
}

const raise = (error) => {
  throw error;
};

const NAMES = {
  operation_id: "operationId", possible_repeat: "possibleRepeat", completed_at: "completedAt",
  content_type: "contentType", retry_after_ms: "retryAfterMs", provider_window: "providerWindow", on_doubt: "onDoubt",
};
const named = (name) => NAMES[name] ?? name;
const camel = (object) => Object.fromEntries(Object.entries(object).map(([name, it]) => [named(name), it]));

async function play(one) {
  const scripted = await new Scripted(one.server, TABLE.answers).listen();
  try {
    await played(one, scripted);
  } finally {
    scripted.close();
  }
}

async function played(one, scripted) {
  const limits = { ...TABLE.client, ...one.client };
  const client = new semel.Semel(scripted.url, "secret", { timeoutMs: limits.timeout_ms, retryForMs: limits.retry_for_ms });
  const does = one.function;
  let runs = 0;
  const run = async (op) => {
    runs += 1;
    await sleep(does.takes_ms ?? 0);
    if (does.until_lost) await Promise.race([new Promise((lost) => (op.signal.onabort = lost)), late()]);
    if (does.returns_letters) return "x".repeat(does.returns_letters);
    if (does.returns_no_json) return new Map([[1, 2]]);
    if (does.returns_operation) {
      const { idempotencyKey: idempotency_key, attempt, fencingToken: fencing_token, takeover } = op;
      return { idempotency_key, attempt, fencing_token, possible_repeat: op.possibleRepeat, takeover };
    }
    if (does.returns_breaking) return { toJSON: () => raise(new Error("broken while it is written")) };
    if (does.inner) return client.once("inner", "inner-1", ending);
    return ending();
  };
  const ending = () => {
    if (does.raises === "unprintable") throw new Unprintable();
    if (does.raises === "not_applied") throw new semel.NotApplied(does.message);
    if (does.raises === "failed") throw new semel.Failed(does.message, does);
    if (does.raises === "error") throw new FunctionError(does.message);
    return does.returns;
  };
  const began = performance.now();
  let found;
  try {
    found = await client.once("charge", one.once?.key ?? "payment-1", run, camel(one.once?.options ?? {}));
    if (found.outcome instanceof Buffer) found = { ...found, outcome_base64: found.outcome.toString("base64") };
  } catch (error) {
    const isOurs = error instanceof semel.SemelError || error instanceof semel.NotApplied || error instanceof semel.Failed;
    if (!isOurs && !(error instanceof FunctionError)) throw error;
    found = isOurs ? { ...error, error: error.name } : { error: "function" };
  }
  const took = performance.now() - began;
  await sleep(one.rests_ms ?? 0);
  assert.equal(found.error, one.ends.error);
  for (const [name, value] of Object.entries(one.ends)) assert.deepEqual(found[named(name)], value, name);
  assert.equal(runs, one.runs, "runs");
  assert.deepEqual(scripted.faults, []);
  for (const [call, count] of Object.entries(one.asked)) {
    const asked = scripted.asked[call] ?? 0;
    const fits = typeof count === "number" ? asked === count : asked >= count.at_least;
    assert.ok(fits, `${call} was asked ${asked} times, not ${JSON.stringify(count)}`);
  }
  for (const call of Object.keys(scripted.asked)) assert.ok(call in one.asked, `asked for ${call}`);
  assert.equal(scripted.claimIds.size, one.claim_ids ?? 1);
  for (const id of scripted.claimIds) assert.match(id, /^[0-9a-f]{32}$/);
  assert.ok(took >= (one.at_least_ms ?? 0) && took <= (one.at_most_ms ?? 60_000), `took ${took} ms`);
}

function late() {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error("nobody told that the claim is lost")), 20000).unref();
  });
}

test("every case", async () => {
  assert.ok(TABLE.cases.length > 30);
  const faults = [];
  const rest = [...TABLE.cases];
  const lane = async () => {
    for (let one = rest.shift(); one !== undefined; one = rest.shift()) {
      await play(one).catch((error) => faults.push(`${one.name}: ${error.stack}`));
    }
  };
  await Promise.all([lane(), lane(), lane(), lane(), lane(), lane()]);
  assert.deepEqual(faults, []);
});

test("numbers keep their digits", () => {
  const text = '{"a":12345678901234567890123,"b":0.12345678901234567890123,"c":1e400,"d":1.5,"e":[-1,9007199254740993]}';
  const value = semel.readJson(text);
  assert.equal(value.a, 12345678901234567890123n);
  assert.equal(Number(value.b), 0.12345678901234568);
  assert.equal(value.d, 1.5);
  assert.equal(semel.writeJson(value), text);
  assert.equal(semel.readJson("[0.30000000000000004, 1.500000000000000000]").join(), "0.30000000000000004,1.5");
  for (const fault of ["[1234567890123456789", '{"a" 1234567890123456789}', "[1234567890123456789]]", "01234567890123456789"]) {
    assert.throws(() => semel.readJson(fault), SyntaxError, fault);
  }
});

test("what JSON would change in silence is refused", () => {
  for (const value of [new Map(), new Set(), () => {}, Symbol("a"), NaN, Infinity, Promise.resolve(), [undefined], { a: NaN }]) {
    assert.throws(() => semel.writeJson(value), TypeError);
  }
  assert.equal(semel.writeJson({ a: undefined, at: new Date(0) }), '{"at":"1970-01-01T00:00:00.000Z"}');
});

test("a key is a string or a number that has all its digits", async () => {
  const client = new semel.Semel("http://127.0.0.1:1");
  for (const key of [null, undefined, true, 2 ** 53, NaN, {}]) {
    await assert.rejects(client.once("charge", key, () => 1), TypeError);
  }
  await assert.rejects(client.once("charge", "k", () => 1, { leese: "30s" }), TypeError);
  await assert.rejects(client.once("charge", "k", () => 1, { lease: "soon" }), TypeError);
});

test("a URL is needed", () => {
  for (const url of [undefined, "", "127.0.0.1:8181", "ftp://there"]) assert.throws(() => new semel.Semel(url), TypeError);
});

test("a URL without credentials, and a token that a header can have", async () => {
  const refused = (build) => assert.throws(build, (error) => error instanceof TypeError && !/secr/.test(error.stack.split("\n")[0]));
  for (const url of ["http://me:secret@there", "http://secret@there", "http://there:secret", "http://the re/secret"]) {
    refused(() => new semel.Semel(url));
  }
  for (const token of ["secret\nX-Other: 1", "secret one", "secr\u00e9t", "secret\x7f"]) {
    refused(() => new semel.Semel("http://there", token));
  }
  const claims = [{ answer: "granted", expects_headers: { authorization: "Bearer secret" } }];
  const scripted = await new Scripted({ claims }, TABLE.answers).listen();
  await new semel.Semel(scripted.url, " secret\r\n").claim("charge", "k");
  assert.deepEqual(scripted.faults, []);
  scripted.close();
});

test("a failure says what the server takes", async () => {
  for (const build of [
    () => new semel.NotApplied("no", { notBefore: new Date("soon") }),
    () => new semel.NotApplied("no", { notBefore: "soon" }),
    () => new semel.NotApplied("no", { notBefore: 1e300 }),
    () => new semel.Failed("no", { certainty: semel.MAYBE_APPLIED, decisive: true }),
    () => new semel.Failed("no", { certainty: "surely" }),
  ]) {
    assert.throws(build, TypeError);
  }
  const scripted = await new Scripted({ fail: [{ answer: "dead", expects: { certainty: "not_applied", decisive: true } }] }, TABLE.answers).listen();
  const client = new semel.Semel(scripted.url);
  await assert.rejects(client.fail("C1", "no", { certainty: semel.MAYBE_APPLIED, decisive: true }), TypeError);
  await client.fail("C1", "no", { decisive: true });
  assert.deepEqual([scripted.asked, scripted.faults], [{ fail: 1 }, []]);
  scripted.close();
});

test("a time that cannot be reported is left out", async () => {
  const release = [{ answer: "released", expects: { certainty: "not_applied" } }];
  const scripted = await new Scripted({ claims: ["granted"], release }, TABLE.answers).listen();
  const error = Object.assign(new semel.NotApplied("no"), { notBefore: new Date("soon") });
  await assert.rejects(new semel.Semel(scripted.url).once("charge", "k", () => raise(error), { lease: 3000 }), error);
  await sleep(1500);
  assert.deepEqual([scripted.asked, scripted.faults], [{ claims: 1, release: 1 }, []]);
  scripted.close();
});

test("a warning names the operation and the key", async () => {
  const scripted = await new Scripted({ claims: ["granted"], renew: ["cut", "renewed"], release: ["lost"] }, TABLE.answers).listen();
  const said = [];
  const listen = (warning) => said.push(warning.message);
  process.on("warning", listen);
  const run = () => sleep(250).then(() => raise(new semel.NotApplied("no")));
  await assert.rejects(new semel.Semel(scripted.url).once("charge", "payment-1", run, { lease: 60 }), semel.NotApplied);
  await sleep(20);
  process.off("warning", listen);
  assert.ok(said.length >= 1 && said.every((it) => it.includes('charge "payment-1"')), said.join());
  scripted.close();
});

test("a handler that was called, and a server that was not told", async () => {
  const scripted = await new Scripted({ claims: ["granted"], complete: ["away"] }, TABLE.answers).listen();
  const middleware = semel.idempotency(new semel.Semel(scripted.url, undefined, { retryForMs: 100 }));
  const app = createServer((request, response) => middleware(request, response, () => response.end("charged")));
  await new Promise((resolve) => app.listen(0, "127.0.0.1", resolve));
  const headers = { "Idempotency-Key": "k" };
  const told = await fetch(`http://127.0.0.1:${app.address().port}/`, { method: "POST", headers, body: "" });
  const { code, certainty } = await told.json();
  assert.deepEqual([told.status, code, certainty], [500, "outcome-unrecorded", "maybe_applied"]);
  assert.equal(told.headers.get("retry-after"), "1");
  app.close();
  app.closeAllConnections();
  scripted.close();
});

test("nothing listens there", async () => {
  const client = new semel.Semel("http://127.0.0.1:1", undefined, { retryForMs: 300 });
  await assert.rejects(client.once("charge", "k", () => 1), { name: "Unavailable", certainty: semel.NOT_APPLIED });
});

test("no lease is renewed after the end", async () => {
  const script = { claims: ["granted"], renew: ["renewed"], complete: ["completed"] };
  const scripted = await new Scripted(script, TABLE.answers).listen();
  await new semel.Semel(scripted.url).once("charge", "k", () => 1, { lease: 3000 });
  await sleep(1500);
  assert.equal(scripted.asked.renew, undefined);
  scripted.close();
});
