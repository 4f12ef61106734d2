// The client against the real server, used as its users would.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, request as ask } from "node:http";
import { PassThrough } from "node:stream";
import { after, before, test } from "node:test";

import * as semel from "../semel.js";
import { Real, sleep, table } from "./servers.js";

const never = () => assert.fail("it ran twice");

let server;
let client;
before(async () => {
  server = await Real.start();
  client = new semel.Semel(server.url);
});
after(() => server?.close());

test("a duplicate gets the outcome", async () => {
  const outcome = { id: 12345678901234567890123n, text: "é😀\n", list: [1.5, null, true], exact: new semel.JsonNumber("1e400") };
  const first = await client.once("charge", "a", () => outcome, { fingerprint: { amount: 1 }, transport: "t1" });
  const again = await client.once("charge", "a", never, { fingerprint: { amount: 1 }, transport: "t2" });
  assert.deepEqual([first.outcome, first.replayed, first.attempt], [outcome, false, 1]);
  assert.deepEqual([again.outcome, again.replayed, again.duplicate], [outcome, true, "republish"]);
  assert.match(again.completedAt, /^\d{4}-.*Z$/);
  await assert.rejects(client.once("charge", "a", never, { fingerprint: { amount: 2 } }), semel.Conflict);
});

test("a number and its text are two keys", async () => {
  const keys = [1, "1", 12345678901234567890123n, 12345678901234567890124n];
  for (const key of keys) assert.equal((await client.once("types", key, () => String(key))).replayed, false);
  assert.equal((await client.once("types", keys[2], never)).outcome, String(keys[2]));
});

test("bytes, and what is no JSON", async () => {
  await client.once("bytes", "a", () => new Uint8Array([0, 255]));
  assert.deepEqual((await client.once("bytes", "a", never)).outcome, Buffer.from([0, 255]));
  const told = await client.once("bytes", "b", () => new Map()).catch((error) => error);
  assert.ok(told instanceof semel.Unreadable && told.result instanceof Map);
  await assert.rejects(client.once("bytes", "b", never), semel.Unreadable);
  assert.equal((await client.once("bytes", "c", () => {})).outcome, null);
});

test("large and deep outcomes", async () => {
  for (const [length, isKept] of [[900 << 10, true], [3 << 19, false], [3 << 20, false], [20 << 20, false]]) {
    const text = "x".repeat(length - 20);
    assert.equal((await client.once("large", length, () => text)).outcome, text);
    const again = await client.once("large", length, never);
    assert.deepEqual([again.kept, again.outcome], [isKept, isKept ? text : null], String(length));
  }
  const deep = Array.from({ length: 300 }).reduce((inner) => [inner], []);
  const told = await client.once("large", "deep", () => deep).catch((error) => error);
  assert.ok(told instanceof semel.Unreadable && told.result === deep, told);
  await assert.rejects(client.once("large", "deep", never), semel.Unreadable);
});

test("the ends of a function", async () => {
  const thrower = (error) => () => {
    throw error;
  };
  await assert.rejects(client.once("ends", "n", thrower(new semel.NotApplied("no route"))), semel.NotApplied);
  assert.equal((await client.once("ends", "n", (op) => op.attempt)).outcome, 2);
  const failed = new semel.Failed("card expired", { certainty: semel.NOT_APPLIED });
  await assert.rejects(client.once("ends", "f", thrower(failed)), semel.Failed);
  await assert.rejects(client.once("ends", "f", never), semel.Dead);
  await assert.rejects(client.once("ends", "b", thrower(new RangeError("reset"))), RangeError);
  await assert.rejects(client.once("ends", "b", never), { name: "InDoubt", certainty: semel.MAYBE_APPLIED });
  const repeat = { class: "unkeyed", onDoubt: "repeat", wait: "5s" };
  await assert.rejects(client.once("ends", "r", thrower(new RangeError("reset")), repeat), RangeError);
  assert.equal((await client.once("ends", "r", (op) => op.possibleRepeat, repeat)).outcome, true);
});

test("a lease is kept, and a second caller waits", async () => {
  const first = client.once("slow", "a", () => sleep(4500).then(() => "slow"), { lease: "2s" });
  await sleep(2500);
  await assert.rejects(client.once("slow", "a", never, { lease: "2s" }), semel.Busy);
  const again = await client.once("slow", "a", never, { wait: "20s" });
  assert.deepEqual([again.outcome, again.replayed, (await first).outcome], ["slow", true, "slow"]);
});

test("the calls one by one", async () => {
  const claim = await client.claim("low", "a", { lease: "30s", class: "unkeyed", onDoubt: "park" });
  assert.equal(claim.decision, "granted");
  await client.renew(claim.claim, "30s");
  assert.equal((await client.complete(claim.claim, { n: 1 }, { window: "1d" })).state, "completed");
  assert.equal((await client.complete(claim.claim, { n: 1 })).state, "completed");
  assert.deepEqual((await client.claim("low", "a")).outcome, { n: 1 });
  assert.equal((await client.operation("low", "a")).state, "completed");
  assert.equal(await client.operation("low", "unknown"), null);
  const claims = await client.claimBatch(["a", 1, 2, 3].map((key) => ({ operation: "low", key })));
  assert.deepEqual(claims.map((it) => it.decision), ["replay", "granted", "granted", "granted"]);
  await client.start(claims[3].claim);
  const settled = await client.settleBatch([
    { claim: claims[1].claim, step: "complete", outcome: [12345678901234567890123n] },
    { claim: claims[2].claim, step: "release", error: "no", certainty: "not_applied" },
  ]);
  assert.deepEqual(settled.map((it) => it.state), ["completed", "released"]);
  assert.deepEqual((await client.claim("low", 1)).outcome, [12345678901234567890123n]);
  assert.equal((await client.operation("low", 1)).state, "completed");
  await client.fail(claims[3].claim, "no", { certainty: semel.NOT_APPLIED });
  await assert.rejects(client.complete(claims[2].claim, 1), semel.ClaimLost);
  await assert.rejects(client.claim("low", ""), { name: "Refused", code: "invalid-input", status: 400 });
});

test("an effect that outlived its lease is told", async () => {
  const options = { lease: "150ms", class: "unkeyed", onDoubt: "repeat" };
  const other = new semel.Semel(server.url);
  const { fetch } = globalThis;
  // No renewal arrives, as if this process stood still.
  globalThis.fetch = (url, init) => (url.endsWith("/renew") ? Promise.reject(new Error("cut")) : fetch(url, init));
  const told = await client
    .once("late", "a", async () => {
      await sleep(400);
      assert.equal((await other.once("late", "a", () => "other", { ...options, lease: "30s", wait: "10s" })).possibleRepeat, true);
      return "late";
    }, options)
    .catch((error) => error)
    .finally(() => (globalThis.fetch = fetch));
  assert.deepEqual([told.name, told.result, told.certainty], ["ClaimLost", "late", semel.MAYBE_APPLIED]);
  assert.equal((await client.once("late", "a", never)).outcome, "other");
});

test("the example prints what the README shows", () => {
  const [example, readme] = ["example.js", "README.md"].map((it) => readFileSync(new URL(`../${it}`, import.meta.url), "utf8"));
  assert.ok(readme.includes(`\`\`\`js\n${example}\`\`\``));
  const options = { cwd: new URL("..", import.meta.url), env: { ...process.env, SEMEL_URL: server.url }, encoding: "utf8" };
  const said = execFileSync(process.execPath, ["example.js"], options);
  assert.ok(readme.includes(`$ node example.js\n${said}\`\`\``), said);
});

test("middleware, case by case", async () => {
  const { cases } = table("http.json");
  assert.ok(cases.length > 10);
  for (const one of cases) {
    const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
    const settings = Object.fromEntries(Object.entries(one.settings ?? {}).map(([name, it]) => [camel(name), it]));
    const unique = randomUUID();
    let runs = 0;
    let current;
    const app = await listening(settings, async (request, response) => {
      runs += 1;
      const { status, headers, body = "", raises } = current.handler;
      if (raises) throw new RangeError("broken");
      if (request.body !== undefined) assert.equal(String(request.body), current.body ?? "");
      response.writeHead(status, headers);
      if (body !== "") response.write(body.slice(0, 1));
      response.end(body.slice(1));
    });
    if ("recorded" in one || "recorded_text" in one) {
      const { claim } = await client.claim("http", one.requests[0].key.replace("K", unique));
      await client.complete(claim, "recorded" in one ? one.recorded : Buffer.from(one.recorded_text));
    }
    for (current of one.requests) {
      const key = one.verbatim ? current.key : current.key?.replace("K", unique);
      const { status, headers, body } = await app.ask(current, key);
      const { gets } = current;
      assert.equal(status, gets.status, `${one.name}: ${body}`);
      for (const [name, value] of Object.entries(gets.headers ?? {})) {
        assert.equal([headers[name] ?? null].flat().join(), String(value ?? ""), `${one.name}: ${name}`);
      }
      if (gets.body !== undefined) assert.equal(body, gets.body, one.name);
      if (gets.code !== undefined) {
        const { code, original_status: original } = JSON.parse(body);
        assert.equal(headers["content-type"], "application/problem+json");
        assert.deepEqual([code, original], [gets.code, gets.original_status], one.name);
      }
    }
    assert.equal(runs, one.runs, one.name);
    app.close();
  }
});

test("a request waits for the first one, is told, or is told that the handler is late", async () => {
  const app = await listening({ wait: "1ms" }, async (request, response) => {
    await sleep(4000);
    response.end("slow");
  });
  const waiting = await listening({ wait: "20s" }, never);
  const key = randomUUID();
  const first = app.ask({}, key);
  await sleep(1000);
  const told = await app.ask({}, key);
  assert.deepEqual([told.status, JSON.parse(told.body).code], [409, "in-progress"]);
  assert.match(told.headers["retry-after"], /^[1-9]\d*$/);
  const again = await waiting.ask({}, key);
  assert.deepEqual([again.status, again.body, again.headers["idempotency-replayed"]], [200, "slow", "true"]);
  assert.equal((await first).body, "slow");
  const stuck = await listening({ handlerTimeout: "100ms" }, () => {});
  const late = await stuck.ask({}, randomUUID());
  assert.deepEqual([late.status, JSON.parse(late.body).code], [504, "upstream-timeout"]);
  for (const it of [app, waiting, stuck]) it.close();
});

test("a handler that answers after its time is recorded, and holds its key until then", async () => {
  const settings = { handlerTimeout: "300ms", lease: "1500ms", wait: "1ms" };
  const faults = [];
  const late = await listening(settings, async (request, response) => {
    response.setHeader("x-early", "1");
    await sleep(5000);
    try {
      assert.equal(response.headersSent, false);
      response.setHeader("content-type", "text/plain");
      assert.deepEqual([response.getHeader("Content-Type"), response.hasHeader("x-early")], ["text/plain", true]);
      response.statusCode = 201;
      response.write("la");
      response.end("te");
    } catch (error) {
      faults.push(error);
    }
  });
  const waiting = await listening({ wait: "20s" }, never);
  const key = randomUUID();
  const told = await late.ask({}, key);
  assert.deepEqual([told.status, JSON.parse(told.body).code, told.headers["x-early"]], [504, "upstream-timeout", undefined]);
  // Its lease would be over by now.
  await sleep(2000);
  const busy = await late.ask({}, key);
  assert.deepEqual([busy.status, JSON.parse(busy.body).code], [409, "in-progress"]);
  const again = await waiting.ask({}, key);
  assert.deepEqual([again.status, again.body, again.headers["content-type"]], [201, "late", "text/plain"]);
  assert.deepEqual([again.headers["idempotency-replayed"], faults], ["true", []]);
  for (const it of [late, waiting]) it.close();
});

test("a handler that breaks after its time is a maybe", async () => {
  const late = await listening({ handlerTimeout: "100ms", wait: "5s" }, async () => {
    await sleep(400);
    throw new RangeError("broken");
  });
  const key = randomUUID();
  assert.equal((await late.ask({}, key)).status, 504);
  assert.equal(JSON.parse((await late.ask({}, key)).body).code, "in-doubt");
  const piped = await listening({ handlerTimeout: "100ms", wait: "5s" }, (request, response) => {
    const source = new PassThrough();
    source.pipe(response);
    source.write("part");
  });
  const other = randomUUID();
  assert.equal((await piped.ask({}, other)).status, 504);
  assert.equal(JSON.parse((await piped.ask({}, other)).body).code, "in-doubt");
  for (const it of [late, piped]) it.close();
});

test("two keys, no tenant, and a store that is away", async () => {
  const app = await listening({ tenant: () => undefined }, never);
  assert.equal(JSON.parse((await app.ask({}, "k")).body).code, "tenant-missing");
  assert.equal(JSON.parse((await app.ask({}, ["a", "b"])).body).code, "key-invalid");
  app.close();
  const gone = await listening({}, never, new semel.Semel("http://127.0.0.1:1", undefined, { retryForMs: 100 }));
  const told = await gone.ask({}, "k");
  assert.deepEqual([told.status, JSON.parse(told.body).code, told.headers["retry-after"]], [503, "store-unavailable", "1"]);
  gone.close();
});

/** A server with the middleware before `handler`. */
async function listening(settings, handler, over = client) {
  const middleware = semel.idempotency(over, settings);
  const app = createServer((request, response) => {
    Promise.resolve(middleware(request, response, () => handler(request, response))).catch(() => {
      response.statusCode = 500;
      response.end();
    });
  });
  await new Promise((resolve) => app.listen(0, "127.0.0.1", resolve));
  const { port } = app.address();
  return {
    close: () => {
      app.close();
      app.closeAllConnections();
    },
    ask: ({ method = "POST", path = "/charges", query, body = "", authorization }, key) =>
      new Promise((resolve, reject) => {
        const headers = { "content-length": Buffer.byteLength(body) };
        if (key !== undefined) headers["Idempotency-Key"] = key;
        if (authorization !== undefined) headers.authorization = authorization;
        const target = query === undefined ? path : `${path}?${query}`;
        const sent = ask({ host: "127.0.0.1", port, method, path: target, headers, agent: false }, async (response) => {
          const parts = [];
          for await (const part of response) parts.push(part);
          resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts).toString() });
        });
        sent.on("error", reject);
        sent.end(body);
      }),
  };
}
