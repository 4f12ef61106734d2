/**
 * Semel's claim API from Node: one business key, one effect, or a visible record that says why not.
 *
 *     import { Semel } from "semel";
 *
 *     const semel = new Semel("http://127.0.0.1:8181");
 *     const receipt = await semel.once("charge", "payment-1", (op) => charge(op.idempotencyKey));
 *
 * One file, nothing beside Node 18 or later. Integers beyond 2^53 are read as `BigInt`, and a decimal that no `number`
 * holds as a `JsonNumber`, which keeps its digits; both are written as they are. Types are in `semel.d.ts`.
 */

import { createHash, randomBytes } from "node:crypto";

export const NOT_APPLIED = "not_applied";
export const MAYBE_APPLIED = "maybe_applied";

const LONGEST_PAUSE_MS = 2000;
/** The content type of an outcome that stands for a value that is no JSON. */
const UNWRITTEN = "application/vnd.semel.unwritten";
/** The content type of an outcome that stands for one that is too large to be sent. */
const TOO_LARGE = "application/vnd.semel.too-large";
/** In bytes: a server keeps less, and takes more. */
const LARGEST = 2 << 20;

/**
 * The reason why a call has no outcome. `certainty` says whether the effect was applied; `ran` tells whether this call
 * ran the function to its end, and then `result` is what the function returned. `pointer` is the member of the request
 * that a refusal is about.
 */
export class SemelError extends Error {
  constructor(detail, { code, certainty = NOT_APPLIED, operationId, status, pointer, cause } = {}) {
    super(detail, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.certainty = certainty;
    this.operationId = operationId;
    this.status = status;
    this.pointer = pointer;
    this.ran = false;
    this.result = undefined;
  }
}

/** Another caller runs this key, or its next attempt is not due yet. Ask again after `retryAfterMs`. */
export class Busy extends SemelError {}
/** The key was used with another fingerprint. The outcome on record is not shown. */
export class Conflict extends SemelError {}
/** The entity has this version or a later one: `applied`. */
export class Stale extends SemelError {}
/** The entity's state does not allow this change. */
export class Illegal extends SemelError {}
/** There is no record, and the request is older than the window: a record may have been forgotten. */
export class TooOld extends SemelError {}
/** Nothing runs this key until a person decides; `state` says why. */
export class Parked extends SemelError {}
/** The effect was started, and nobody knows whether it happened. */
export class InDoubt extends Parked {}
/** The effect failed for good, or is out of attempts. */
export class Dead extends Parked {}
/** Another caller owns the operation now: the effect outlived its lease. */
export class ClaimLost extends SemelError {}
/** The function ran, and its result could not be recorded. */
export class Unrecorded extends SemelError {}
/** The effect happened, and its outcome is no JSON: `result` has it if this call ran the function. */
export class Unreadable extends SemelError {}
/** Semel gave no answer for as long as this client asks again. */
export class Unavailable extends SemelError {}
/** Semel does not accept the request: see `code` and `status`. */
export class Refused extends SemelError {}

/** The errors that an operation has reported: of an outer one they say nothing. */
const REPORTED = new WeakSet();

/**
 * Throw it in the function to say that the effect surely did not happen; another attempt may follow. `notBefore`, a
 * `Date` or a duration from now, keeps the key busy until then. To a function that calls `once` itself, the error of
 * that call is an error like any other.
 */
export class NotApplied extends Error {
  constructor(message = "", { notBefore, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "NotApplied";
    if (notBefore !== undefined) instant(notBefore);
    this.notBefore = notBefore;
  }
}

/**
 * Throw it in the function to fail the operation for good: it is dead, or in doubt if the effect may have happened.
 * `certainty` is `maybe_applied` unless it is given. `decisive` says that neither this attempt nor an earlier one was
 * applied: only an answer from behind the provider's own look-up of the idempotency key is.
 */
export class Failed extends Error {
  constructor(message = "", { certainty, decisive = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "Failed";
    this.certainty = certaintyOf(certainty, decisive);
    this.decisive = decisive;
  }
}

/** A number of JSON that no `number` holds, with all its digits. */
export class JsonNumber {
  constructor(text) {
    if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) {
      throw new TypeError(`${text} is no number of JSON`);
    }
    this.text = text;
  }
  valueOf() {
    return Number(this.text);
  }
  toString() {
    return this.text;
  }
}

/** The operation as its function sees it. */
export class Operation {
  #lost = new AbortController();

  constructor(granted) {
    this.claim = granted.claim;
    /** The same on every attempt: pass it on to whatever you call. */
    this.idempotencyKey = granted.idempotency_key;
    this.operationId = granted.operation_id;
    this.attempt = granted.attempt;
    this.fencingToken = granted.token;
    /** True if an earlier attempt may have applied the effect. */
    this.possibleRepeat = granted.possible_repeat ?? false;
    this.takeover = granted.takeover ?? false;
    /** Aborted when another caller owns the operation: a function that can stop should. */
    this.signal = this.#lost.signal;
  }

  /** @internal */
  loseClaim() {
    this.#lost.abort(new ClaimLost("another caller owns the operation", { certainty: MAYBE_APPLIED }));
  }
}

/** A client of one Semel server. */
export class Semel {
  #url;
  #headers = { accept: "application/json" };
  #timeoutMs;
  #retryForMs;

  /**
   * `url` defaults to the variable SEMEL_URL, `token` to SEMEL_TOKEN. `timeoutMs` is the time to wait for one answer,
   * `retryForMs` the time for which a lost answer is asked for again.
   */
  constructor(url = process.env.SEMEL_URL, token = process.env.SEMEL_TOKEN, options = {}) {
    // What is refused is not printed: it may have a secret in it.
    url = String(url ?? "").trim();
    token = String(token ?? "").trim();
    const parsed = /^https?:\/\/[^/][!-~]*$/.test(url) ? urlOf(url) : undefined;
    if (parsed === undefined) {
      throw new TypeError("the URL of Semel is missing or is not http(s): pass it, or set SEMEL_URL");
    }
    if (parsed.username || parsed.password) {
      throw new TypeError("the URL of Semel has credentials in it: pass the token by itself");
    }
    if (!/^[!-~]*$/.test(token)) {
      throw new TypeError("the token of Semel has a character that is no visible ASCII");
    }
    this.#url = url.replace(/\/+$/, "");
    if (token) this.#headers.authorization = `Bearer ${token}`;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#retryForMs = options.retryForMs ?? 30_000;
  }

  /**
   * Runs `run` unless the effect of the key happened before, and returns a receipt with its outcome.
   *
   * Options: fingerprint, tenant, transport, birth, entity, version; lease ("30s"), window, wait; class ("unkeyed"
   * unless there is a providerWindow), providerWindow, onDoubt. An error of the function releases the key, as "maybe
   * applied" unless it is `NotApplied`, and is thrown as it is.
   */
  async once(operation, key, run, options = {}) {
    const begun = await this.begin(operation, key, options);
    if (!(begun instanceof Attempt)) return begun;
    let value;
    try {
      value = await run(begun.operation);
    } catch (error) {
      await begun.failed(error);
      throw error;
    }
    return begun.done(value);
  }

  /** Asks for a claim and returns the decision. Options as `once`, and `claimId`; no class means none. */
  async claim(operation, key, options = {}) {
    const request = requested(operation, key, options);
    return accepted(await this.#ask("POST", "/v1/claims", request, { extraMs: millis(request.wait ?? 0) }));
  }

  /** Asks for at most 1,000 claims, each `{operation, key, …}` with options as `once`; answers come in their order. */
  async claimBatch(claims) {
    const requests = claims.map(({ operation, key, ...options }) => requested(operation, key, options));
    return accepted(await this.#ask("POST", "/v1/claims/batch", { claims: requests })).answers;
  }

  /** Extends the lease of a claim, counted from now. */
  async renew(claim, lease) {
    return this.step(claim, "renew", { lease: wire(lease) });
  }

  /** Marks the effect of a claim without a class as about to be sent. */
  async start(claim) {
    return this.step(claim, "start", {});
  }

  /** Reports that the effect happened. `outcome` is JSON, or bytes with their `contentType`. */
  async complete(claim, outcome = null, { contentType, window } = {}) {
    const body = outcomeOf(outcome, contentType);
    if (window !== undefined) body.window = wire(window);
    return this.step(claim, "complete", body);
  }

  /** Reports an attempt that ended without a result; another may follow. */
  async release(claim, error, { certainty = MAYBE_APPLIED, notBefore } = {}) {
    return this.step(claim, "release", released(error, certainty, { notBefore }));
  }

  /** Reports that no other attempt shall follow. What is decisive was not applied, else it may have been. */
  async fail(claim, error, { certainty, decisive = false } = {}) {
    return this.step(claim, "fail", released(error, certaintyOf(certainty, decisive), { decisive }));
  }

  /** Reports at most 1,000 steps, each `{claim, step: "complete", …}` as the API has it; answers come in their order. */
  async settleBatch(settlements) {
    return accepted(await this.#ask("POST", "/v1/settle/batch", { settlements })).answers;
  }

  /** Returns the record of a key, or `null` if there is none. */
  async operation(operation, key, { tenant } = {}) {
    const query = new URLSearchParams({ operation, key: spelled(key), ...(tenant === undefined ? {} : { tenant }) });
    const answer = await this.#ask("GET", `/v1/operations?${query}`);
    if (answer.status === 404 && textIn(answer, "code") === "key-unknown") return null;
    return accepted(answer);
  }

  /** @internal */
  async begin(operation, key, options) {
    options = { lease: "30s", ...withoutUndefined(options) };
    options.class ??= options.providerWindow === undefined ? "unkeyed" : "keyed";
    if (options.class === "unkeyed") options.onDoubt ??= "park";
    const request = requested(operation, key, options);
    const leaseMs = millis(options.lease);
    const answer = await this.#ask("POST", "/v1/claims", request, { extraMs: millis(request.wait ?? 0) });
    const decision = accepted(answer);
    if (decision.decision === "replay") return replayed(decision);
    if (decision.decision !== "granted") throw refusal(decision);
    // A claim that is resumed was granted to an earlier request, and so was its lease.
    const askedAt = decision.resumed ? answer.firstSentAt : answer.sentAt;
    const attempt = new Attempt(this, decision, leaseMs, askedAt, `${operation} ${writeJson(key)}`);
    await attempt.begin();
    return attempt;
  }

  /** @internal */
  async step(claim, step, body, withinMs) {
    return accepted(await this.#ask("POST", `/v1/claims/${encodeURIComponent(claim)}/${step}`, body, { withinMs }));
  }

  /**
   * Asks until there is an answer, or until the time for asking again is over. Every call may be repeated. `extraMs` is
   * what the server may wait; a call that has to end `withinMs` has no more for one answer.
   */
  async #ask(method, path, body, { extraMs = 0, withinMs } = {}) {
    const headers = { ...this.#headers };
    const text = body === undefined ? undefined : writeJson(body);
    if (text !== undefined) headers["content-type"] = "application/json";
    // A request that cannot be built is a fault of the caller, and is not asked again.
    const url = new URL(this.#url + path).href;
    new Headers(headers);
    const firstSentAt = performance.now();
    const timeoutMs = extraMs + Math.min(this.#timeoutMs, withinMs ?? Infinity);
    let until = withinMs === undefined ? undefined : firstSentAt + withinMs;
    let pause = 50;
    for (;;) {
      const sentAt = performance.now();
      let hint, code, status, why, cause;
      try {
        const signal = AbortSignal.timeout(Math.ceil(timeoutMs));
        const response = await fetch(url, { method, headers, body: text, signal, redirect: "manual" });
        const value = membersOf(await response.text(), response.status);
        const answer = { status: response.status, value, firstSentAt, sentAt };
        if (!isPassing(answer)) return answer;
        ({ status } = answer);
        code = textIn(answer, "code");
        why = reason(answer);
        hint = retryAfterMs(response.headers.get("retry-after"));
      } catch (error) {
        cause = error;
        why = error?.cause?.message ?? error?.message;
      }
      let wait = hint === undefined ? between(pause / 2, pause) : hint + between(0, Math.min(hint / 8, 1000));
      if (hint === undefined) pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      until ??= performance.now() + this.#retryForMs;
      if (performance.now() + wait > until) {
        const unavailable = new Unavailable(`no answer from Semel: ${why}`, { code, status, cause });
        unavailable.retryAfterMs = hint;
        throw unavailable;
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

/** A claim that was granted: its lease is renewed until it is settled. */
class Attempt {
  #semel;
  #leaseMs;
  #askedAt;
  #ended = false;
  #detached = false;
  #timer;
  #name;

  constructor(semel, granted, leaseMs, askedAt, name) {
    this.operation = new Operation(granted);
    this.#name = name;
    this.#semel = semel;
    this.#leaseMs = leaseMs;
    this.#askedAt = askedAt;
  }

  /** Renews first if a third of the lease is over, so that the effect does not begin at its end. */
  async begin() {
    if (performance.now() - this.#askedAt >= this.#leaseMs / 3) {
      try {
        await this.#renew(this.#leaseMs);
      } catch (error) {
        if (!(error instanceof ClaimLost)) {
          await this.giveUp("release", released("the lease was not renewed, and nothing ran", NOT_APPLIED), 2000);
        }
        if (error instanceof SemelError) error.certainty = NOT_APPLIED;
        throw error;
      }
    }
    this.#keep(this.#askedAt + this.#leaseMs / 3 - performance.now());
  }

  /** Completes with the value of the function, and returns its receipt. */
  async done(value) {
    this.#end();
    const { operationId, attempt, possibleRepeat } = this.operation;
    let body, unwritten;
    let kept = true;
    const tooLarge = () => {
      kept = false;
      return outcomeOf(Buffer.from("too large"), TOO_LARGE);
    };
    const isUnwritten = (error) => {
      unwritten = error;
      return outcomeOf(Buffer.from(textOf(error).slice(0, 500)), UNWRITTEN);
    };
    try {
      body = outcomeOf(value);
      if (Buffer.byteLength(writeJson(body)) > LARGEST) body = tooLarge();
    } catch (error) {
      body = isUnwritten(error);
    }
    try {
      await this.settle("complete", body, value);
    } catch (error) {
      // The effect happened: that is recorded even if its outcome cannot be.
      if (!(error instanceof Unrecorded) || (error.status !== 413 && error.status !== 400)) throw error;
      await this.settle("complete", error.status === 413 ? tooLarge() : isUnwritten(error), value);
    }
    if (unwritten !== undefined) {
      const detail = `the outcome is no JSON: ${textOf(unwritten)}`;
      throw ranTo(new Unreadable(detail, { operationId, certainty: MAYBE_APPLIED, cause: unwritten }), value);
    }
    return receipt({ outcome: value ?? null, replayed: false, operationId, attempt, possibleRepeat, kept });
  }

  /** Reports an effect that happened; an error carries `value`. */
  async settle(step, body, value) {
    this.#end();
    try {
      await this.#semel.step(this.operation.claim, step, body);
    } catch (error) {
      const { operationId } = this.operation;
      if (error instanceof ClaimLost) throw ranTo(Object.assign(error, { operationId: error.operationId ?? operationId }), value);
      const { code, status, pointer } = error instanceof SemelError ? error : {};
      const detail = `the effect ran, and its outcome is not recorded: ${textOf(error)}`;
      const about = { code, status, pointer, operationId, certainty: MAYBE_APPLIED, cause: error };
      throw ranTo(new Unrecorded(detail, about), value);
    }
  }

  /** Releases or fails the operation; the caller throws the error itself. */
  async failed(error) {
    this.#end();
    const said = textOf(error);
    const kind = nameOf(error);
    let [step, body] = ["release", released(`${kind}: ${said}`, MAYBE_APPLIED)];
    const isFirst = (error instanceof NotApplied || error instanceof Failed) && !REPORTED.has(error);
    if (isFirst) {
      REPORTED.add(error);
      try {
        if (error instanceof NotApplied) {
          body = released(said || kind, NOT_APPLIED);
          body = released(said || kind, NOT_APPLIED, { notBefore: error.notBefore });
        } else {
          const { certainty, decisive } = error;
          body = released(said || kind, certaintyOf(certainty, decisive), { decisive });
          step = "fail";
        }
      } catch (fault) {
        this.#warn("a failure is not reported as it was said", fault);
      }
    }
    await this.giveUp(step, body);
  }

  /** Reports an attempt without an outcome. What cannot be reported is left to the end of the lease. */
  async giveUp(step, body, withinMs) {
    this.#end();
    try {
      await this.#semel.step(this.operation.claim, step, body, withinMs);
    } catch (error) {
      this.#warn("the end of an attempt is not recorded", error);
    }
  }

  #warn(what, error) {
    process.emitWarning(`${this.#name}: ${what}: ${textOf(error)}`, "SemelWarning");
  }

  /** Lets the process end though the lease is renewed. */
  detach() {
    this.#detached = true;
    this.#timer?.unref();
  }

  #end() {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  #keep(waitMs) {
    this.#timer = setTimeout(async () => {
      try {
        await this.#renew(this.#leaseMs / 3);
      } catch (error) {
        if (this.#ended || error instanceof ClaimLost) return;
        this.#warn("a lease is not renewed", error);
        this.#keep(Math.min(this.#leaseMs / 10, LONGEST_PAUSE_MS));
        return;
      }
      if (!this.#ended) this.#keep(this.#askedAt + this.#leaseMs / 3 - performance.now());
    }, Math.max(waitMs, 0));
    if (this.#detached) this.#timer.unref();
  }

  async #renew(withinMs) {
    const sentAt = performance.now();
    try {
      await this.#semel.step(this.operation.claim, "renew", { lease: wire(this.#leaseMs) }, withinMs);
    } catch (error) {
      if (error instanceof ClaimLost) this.operation.loseClaim();
      throw error;
    }
    this.#askedAt = sentAt;
  }
}

function receipt(members) {
  return Object.freeze({
    duplicate: undefined,
    completedAt: undefined,
    attempt: undefined,
    possibleRepeat: false,
    contentType: undefined,
    kept: true,
    ...members,
  });
}

function ranTo(error, result) {
  error.ran = true;
  error.result = result;
  return error;
}

function membersOf(text, status) {
  try {
    const value = readJson(text);
    return value !== null && typeof value === "object" ? value : {};
  } catch (error) {
    // Who refuses without JSON is not Semel, and refuses all the same.
    if (status === 200) throw error;
    return {};
  }
}

/** Tells whether the same request may get another answer soon. A problem with status 500 stays. */
function isPassing(answer) {
  const { status } = answer;
  const stays = status === 501 || (status === 500 && textIn(answer, "code") !== undefined);
  return status === 408 || status === 429 || (status >= 500 && !stays);
}

/** A member that is a string; what is none is not Semel's. */
function textIn({ value }, name) {
  return typeof value[name] === "string" ? value[name] : undefined;
}

function reason(answer) {
  const pointer = textIn(answer, "pointer");
  const at = pointer === undefined ? undefined : `(at ${pointer})`;
  return [answer.status, textIn(answer, "code"), textIn(answer, "detail"), at].filter((it) => it !== undefined).join(" ");
}

function textOf(error) {
  try {
    return String(error?.message || error?.name || error);
  } catch {
    return "";
  }
}

function traceOf(error) {
  try {
    return String(error?.stack ?? error);
  } catch {
    return "";
  }
}

function nameOf(error) {
  try {
    return String(error?.name ?? "Error");
  } catch {
    return "Error";
  }
}

function urlOf(text) {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

function accepted(answer) {
  if (answer.status === 200) return answer.value;
  const [code, operationId, pointer] = ["code", "operation_id", "pointer"].map((name) => textIn(answer, name));
  if (code === "claim-lost") {
    throw new ClaimLost(reason(answer), { code, operationId, status: answer.status, certainty: MAYBE_APPLIED });
  }
  // What a record that cannot be read would say, nobody knows.
  const certainty = answer.status === 500 ? MAYBE_APPLIED : NOT_APPLIED;
  throw new Refused(reason(answer), { code, operationId, status: answer.status, certainty, pointer });
}

function replayed(decision) {
  const { operation_id: operationId, content_type: contentType, completed_at: completedAt, duplicate } = decision;
  let outcome = decision.outcome ?? null;
  const kept = decision.outcome_too_large !== true && contentType !== TOO_LARGE;
  const isBytes = kept && decision.outcome_base64 !== undefined;
  if (isBytes) outcome = Buffer.from(decision.outcome_base64, "base64");
  if (isBytes && contentType === UNWRITTEN) {
    throw new Unreadable(`the outcome is no JSON: ${outcome}`, { operationId, certainty: MAYBE_APPLIED });
  }
  return receipt({ outcome, replayed: true, duplicate, operationId, completedAt, contentType, kept });
}

function refusal(decision) {
  const { decision: code, operation_id: operationId, state = "" } = decision;
  const about = { code, operationId };
  const certainty = [NOT_APPLIED, MAYBE_APPLIED].find((it) => it === decision.certainty) ?? MAYBE_APPLIED;
  switch (code) {
    case "busy": {
      const busy = new Busy("another caller runs this key", about);
      return Object.assign(busy, { retryAfterMs: decision.retry_after_ms ?? 1000, until: decision.until });
    }
    case "conflict":
      return new Conflict("the key was used with another fingerprint", about);
    case "stale":
      return Object.assign(new Stale("the entity has this version or a later one", about), { applied: decision.applied });
    case "illegal":
      return new Illegal("the entity's state does not allow this change", about);
    case "too_old":
      return new TooOld("the request is older than the window", { ...about, certainty });
    case "parked": {
      const [Kind, detail, word] =
        {
          in_doubt: [InDoubt, "nobody knows whether the effect happened", "in-doubt"],
          dead: [Dead, "the effect failed for good, or is out of attempts", "dead"],
        }[state] ?? [Parked, `the operation is parked: ${state}`, code];
      return Object.assign(new Kind(detail, { operationId, code: word, certainty }), { state: String(state) });
    }
    default:
      return new Refused(`this client does not know the decision ${code}`, about);
  }
}

const OPTIONS = {
  fingerprint: "fingerprint", tenant: "tenant", lease: "lease", window: "window", class: "class",
  providerWindow: "provider_window", onDoubt: "on_doubt", transport: "transport", birth: "birth", entity: "entity",
  version: "version", wait: "wait", claimId: "claim_id",
};
const DURATIONS = new Set(["lease", "window", "providerWindow", "wait"]);

function requested(operation, key, options) {
  const isNumber = typeof key === "number" && Number.isFinite(key) && (!Number.isInteger(key) || Number.isSafeInteger(key));
  if (!(typeof key === "string" || typeof key === "bigint" || key instanceof JsonNumber || isNumber)) {
    throw new TypeError("a key is a string or a number, beyond 2^53 a BigInt");
  }
  const request = { operation, key, claim_id: randomBytes(16).toString("hex") };
  for (let [name, value] of Object.entries(withoutUndefined(options))) {
    if (!Object.hasOwn(OPTIONS, name)) throw new TypeError(`unknown option: ${name}`);
    if (DURATIONS.has(name)) value = wire(value);
    if (name === "birth" && value instanceof Date) value = value.toISOString();
    request[OPTIONS[name]] = value;
  }
  return request;
}

function withoutUndefined(options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function outcomeOf(value, contentType) {
  if (value instanceof Uint8Array) {
    const text = Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64");
    return { outcome_base64: text, content_type: contentType ?? "application/octet-stream" };
  }
  return { outcome: value ?? null };
}

function released(error, certainty, { notBefore, decisive = false } = {}) {
  const line = String(error).split(/\s+/).join(" ").trim();
  const body = { error: [...line].slice(0, 500).join("") || "no reason was given", certainty };
  if (notBefore !== undefined) body.not_before = instant(notBefore);
  if (decisive) body.decisive = true;
  return body;
}

function instant(value) {
  const at = value instanceof Date ? value : new Date(Date.now() + millis(value));
  if (Number.isNaN(at.getTime())) throw new TypeError("the time is none");
  return at.toISOString();
}

/** The certainty of a failure, unless it contradicts itself. */
function certaintyOf(certainty, decisive) {
  if (certainty === undefined) return decisive ? NOT_APPLIED : MAYBE_APPLIED;
  if (certainty !== NOT_APPLIED && certainty !== MAYBE_APPLIED) {
    throw new TypeError("a certainty is not_applied or maybe_applied");
  }
  if (decisive && certainty !== NOT_APPLIED) throw new TypeError("what is decisive was not applied");
  return certainty;
}

const UNITS_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** A duration in milliseconds: "30s", or a number of milliseconds. */
function millis(value) {
  if (typeof value === "number" && value >= 0 && Number.isFinite(value)) return value;
  const parts = /^(\d+)(ms|s|m|h|d|w)$/.exec(value);
  if (parts === null) throw new TypeError(`${value} is no duration such as "30s" or 500 (milliseconds)`);
  return Number(parts[1]) * UNITS_MS[parts[2]];
}

function wire(value) {
  return typeof value === "string" ? value : `${Math.round(millis(value))}ms`;
}

function retryAfterMs(header) {
  if (header === null) return undefined;
  if (/^\s*\d+\s*$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(at - Date.now(), 0);
}

function between(low, high) {
  return low + Math.random() * (high - low);
}

/** The key as the command line has it: a number is `json:1`, and a string that begins so is quoted. */
function spelled(key) {
  return typeof key === "string" && !key.startsWith("json:") ? key : `json:${writeJson(key)}`;
}

/** Writes JSON with all digits of every number; a value that it would change in silence is a `TypeError`. */
export function writeJson(value) {
  if (value === null) return "null";
  switch (typeof value) {
    case "boolean":
    case "bigint":
      return String(value);
    case "string":
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value)) throw new TypeError("JSON has no endless numbers");
      return String(value);
    case "object":
      break;
    default:
      throw new TypeError(`a value of type ${typeof value} is no JSON`);
  }
  if (value instanceof JsonNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(writeJson).join(",")}]`;
  if (typeof value.toJSON === "function") return writeJson(value.toJSON());
  if (typeof value[Symbol.iterator] === "function" || value instanceof Promise || ArrayBuffer.isView(value)) {
    throw new TypeError(`a ${value.constructor?.name} is no JSON`);
  }
  const members = Object.entries(value).filter(([, it]) => it !== undefined);
  return `{${members.map(([name, it]) => `${JSON.stringify(name)}:${writeJson(it)}`).join(",")}}`;
}

/** Reads JSON with all digits of every number. */
export function readJson(text) {
  // Up to fifteen digits, a `number` holds any decimal.
  return /[\d.]{16,}|\d[eE]/.test(text) ? new Reader(text).read() : JSON.parse(text);
}

class Reader {
  #text;
  #at = 0;

  constructor(text) {
    this.#text = text;
  }

  read() {
    const value = this.#value();
    if (this.#peek() !== undefined) throw this.#fault();
    return value;
  }

  #value() {
    switch (this.#peek()) {
      case "{":
        return this.#object();
      case "[":
        return this.#array();
      case '"':
        return this.#string();
      default:
        return this.#word();
    }
  }

  #object() {
    const object = {};
    this.#at += 1;
    if (this.#passes("}")) return object;
    do {
      if (this.#peek() !== '"') throw this.#fault();
      const name = this.#string();
      if (!this.#passes(":")) throw this.#fault();
      const member = { value: this.#value(), writable: true, enumerable: true, configurable: true };
      Object.defineProperty(object, name, member);
    } while (this.#passes(","));
    if (!this.#passes("}")) throw this.#fault();
    return object;
  }

  #array() {
    const array = [];
    this.#at += 1;
    if (this.#passes("]")) return array;
    do array.push(this.#value());
    while (this.#passes(","));
    if (!this.#passes("]")) throw this.#fault();
    return array;
  }

  #string() {
    let end = this.#at + 1;
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === "\\" ? 2 : 1;
    const string = JSON.parse(this.#text.slice(this.#at, end + 1));
    this.#at = end + 1;
    return string;
  }

  #word() {
    const word = /[-+.\w]*/y;
    word.lastIndex = this.#at;
    const [text] = word.exec(this.#text);
    if (!/^-?\d/.test(text)) {
      const value = JSON.parse(text);
      this.#at += text.length;
      return value;
    }
    const number = JSON.parse(text);
    this.#at += text.length;
    if (!/[\d.]{16,}|[eE]/.test(text)) return number;
    if (/^-?\d+$/.test(text)) return Number.isSafeInteger(number) ? number : BigInt(text);
    return sameDigits(text, String(number)) ? number : new JsonNumber(text);
  }

  #peek() {
    while (" \t\r\n".includes(this.#text[this.#at] ?? "x")) this.#at += 1;
    return this.#text[this.#at];
  }

  #passes(sign) {
    if (this.#peek() !== sign) return false;
    this.#at += 1;
    return true;
  }

  #fault() {
    return new SyntaxError(`this is no JSON, at position ${this.#at}`);
  }
}

/** Tells whether two numbers of JSON have the same value. */
function sameDigits(one, other) {
  const [a, b] = [scientific(one), scientific(other)];
  return a !== undefined && b !== undefined && a.digits === b.digits && a.exponent === b.exponent;
}

function scientific(text) {
  const parts = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  if (parts === null) return undefined;
  const [, sign, whole, fraction = "", exponent = "0"] = parts;
  const digits = (whole + fraction).replace(/^0+/, "");
  const short = digits.replace(/0+$/, "");
  if (short === "") return { digits: "0", exponent: 0 };
  return { digits: sign + short, exponent: Number(exponent) - fraction.length + digits.length - short.length };
}

// HTTP: requests with a header `Idempotency-Key`.

const KEPT = new Set([
  "content-type", "content-encoding", "content-language", "content-disposition", "location", "etag", "last-modified",
  "link", "vary",
]);
const NOT_APPLIED_STATUS = new Set([401, 403, 407, 408, 425, 429, 503]);

/**
 * Middleware in the style of Express, `(request, response, next)`: one effect for each `Idempotency-Key`, with the
 * stored answer for every retry. Answers are held until they are recorded.
 *
 * Settings: operation ("http"), methods (POST, PATCH), requireKey, tenant (a function of the request), wait ("5s"),
 * lease, window, class, providerWindow, onDoubt, decisive (status codes), maxBody, maxAnswer (bytes), handlerTimeout
 * ("60s"). Before a body parser it reads the body itself and leaves the bytes in `request.body`; behind one, the
 * fingerprint is that of `request.rawBody`, else of `request.body`.
 */
export function idempotency(semel, settings = {}) {
  const { wait = "5s", lease = "30s", window, providerWindow, onDoubt } = settings;
  const rules = {
    operation: "http", requireKey: false, decisive: [], maxBody: 1 << 20, maxAnswer: 512 << 10, handlerTimeout: "60s",
    methods: ["POST", "PATCH"], ...settings, options: { wait, lease, window, class: settings.class, providerWindow, onDoubt },
  };
  return async (request, response, next) => {
    const key = keyOf(request, rules);
    if (key === undefined) return next();
    let begun = key.problem;
    if (begun === undefined) {
      try {
        begun = await admitted(semel, key.text, request, rules);
      } catch (error) {
        if (!(error instanceof SemelError)) return next(error);
        begun = problemOf(error);
      }
    }
    if (!(begun instanceof Attempt)) return send(response, begun);
    request.semel = begun.operation;
    const answered = held(response, rules);
    // A handler that breaks before it answers; in Express its answer is that of the error handler.
    Promise.resolve().then(next).catch(answered.broken);
    const ended = answered.then((answer) => finished(begun, answer, rules), (error) => broke(begun, error));
    // A handler that is late runs on, and so does its claim: what it answers is recorded.
    const isLate = await Promise.race([answered.late, ended.then(() => false)]);
    if (isLate) begun.detach();
    else send(response, await ended);
  };
}

function keyOf(request, rules) {
  if (!rules.methods.includes(request.method)) return undefined;
  const sent = [];
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    if (request.rawHeaders[at].toLowerCase() === "idempotency-key") sent.push(request.rawHeaders[at + 1]);
  }
  if (sent.length === 0) {
    if (!rules.requireKey) return undefined;
    return { problem: problem(400, "key-missing", "the header Idempotency-Key is required") };
  }
  const invalid = (detail) => ({ problem: problem(400, "key-invalid", detail) });
  if (sent.length > 1) return invalid("the header Idempotency-Key was sent twice");
  let text = sent[0].replace(/^[ \t]+|[ \t]+$/g, "");
  if (text.startsWith('"')) {
    const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text);
    if (quoted === null) return invalid("the quotes of the key do not match");
    text = quoted[1].replace(/\\(["\\])/g, "$1");
  }
  if (text.trim() === "" || !/^[\x20-\x7e]{1,255}$/.test(text)) {
    return invalid("a key has 1 to 255 printable ASCII characters");
  }
  return { text };
}

async function admitted(semel, key, request, rules) {
  const tenant = rules.tenant?.(request) || undefined;
  if (rules.tenant && tenant === undefined) return problem(400, "tenant-missing", "the request names no tenant");
  const body = await bodyOf(request, rules.maxBody);
  if (body === undefined) return problem(413, "body-too-large", `a body has at most ${rules.maxBody} bytes`);
  const [path, query = ""] = (request.originalUrl ?? request.url).split(/\?(.*)/s);
  const fingerprint = { method: request.method, path, query, body: sha256(body) };
  const { authorization } = request.headers;
  if (tenant === undefined && authorization) fingerprint.authorization = sha256(authorization);
  const begun = await semel.begin(rules.operation, key, { ...rules.options, tenant, fingerprint });
  if (begun instanceof Attempt) return begun;
  const { outcome: stored, kept, operationId: operation_id } = begun;
  if (!kept || stored?.too_large) {
    return problem(410, "answer-too-large", "the answer was not kept", { original_status: stored?.status, operation_id });
  }
  const { status, headers = [], body: base64 = "" } = stored ?? {};
  const isPair = (it) => Array.isArray(it) && it.length === 2 && it.every((part) => typeof part === "string");
  const isAnswer = Number.isInteger(status) && status >= 200 && status < 600 && typeof base64 === "string";
  if (!isAnswer || !Array.isArray(headers) || !headers.every(isPair)) return unreadable(operation_id);
  const replayed = [...headers, ["idempotency-replayed", "true"]];
  return { status, headers: replayed, body: Buffer.from(base64, "base64") };
}

function unreadable(operation_id) {
  const about = { certainty: MAYBE_APPLIED, operation_id };
  return problem(500, "outcome-unreadable", "the record of this key is no answer of HTTP", about);
}

async function bodyOf(request, maxBody) {
  let body = request.rawBody ?? request.body;
  if (body === undefined && !request.readableEnded) {
    const parts = [];
    let length = 0;
    for await (const part of request) {
      length += part.length;
      // Read to its end, so that the client sees the answer, but not kept.
      if (length <= maxBody) parts.push(part);
    }
    if (length > maxBody) return undefined;
    body = Buffer.concat(parts);
    // A body parser that comes later sees that there is nothing left to read.
    request.body = body;
    request._body = true;
  }
  if (!(body instanceof Uint8Array) && typeof body !== "string") body = body === undefined ? "" : writeJson(body);
  return Buffer.byteLength(body) > maxBody ? undefined : body;
}

/** Holds the answer of a handler back; it is sent once it is recorded. */
function held(response, rules) {
  const { writeHead, write, end, flushHeaders } = response;
  const parts = [];
  let resolve, reject;
  const answered = new Promise((done, broken) => ([resolve, reject] = [done, broken]));
  const part = (chunk, encoding) => {
    if (chunk === undefined || chunk === null || typeof chunk === "function") return;
    parts.push(typeof chunk === "string" ? Buffer.from(chunk, typeof encoding === "string" ? encoding : "utf8") : chunk);
  };
  const restore = () => {
    clearTimeout(timer);
    Object.assign(response, { writeHead, write, end, flushHeaders });
  };
  let isLate = false;
  let late;
  const answeredLate = new Promise((done) => (late = done));
  const timer = setTimeout(() => {
    restore();
    isLate = true;
    // A stream whose answer went out without it is never ended.
    response.on("unpipe", () => setImmediate(() => reject(new Error("the answer broke off"))));
    const headers = new Map(Object.entries(response.getHeaders()));
    send(response, problem(504, "upstream-timeout", "the handler gave no answer in time", { certainty: MAYBE_APPLIED }));
    apart(response, headers);
    hold();
    late(true);
  }, millis(rules.handlerTimeout));
  const hold = () => {
    response.flushHeaders = () => {};
    response.writeHead = (status, ...rest) => {
      response.statusCode = status;
      const headers = rest.find((it) => typeof it === "object" && it !== null) ?? {};
      const flat = Array.isArray(headers) ? headers.flat() : Object.entries(headers).flat();
      for (let at = 0; at < flat.length; at += 2) response.setHeader(flat[at], flat[at + 1]);
      return response;
    };
    response.write = (chunk, encoding, callback) => {
      part(chunk, encoding);
      const called = [encoding, callback].find((it) => typeof it === "function");
      if (called) process.nextTick(called);
      return true;
    };
    response.end = (chunk, encoding, callback) => {
      part(chunk, encoding);
      if (!isLate) restore();
      const called = [chunk, encoding, callback].find((it) => typeof it === "function");
      if (called && isLate) process.nextTick(called);
      else if (called) response.once("finish", called);
      const headers = Object.entries(response.getHeaders()).flatMap(([name, value]) =>
        [value].flat().map((it) => [name, String(it)]),
      );
      resolve({ status: response.statusCode, headers, body: Buffer.concat(parts) });
      return response;
    };
  };
  hold();
  answered.late = answeredLate;
  answered.broken = (error) => {
    if (!isLate) restore();
    reject(error);
  };
  return answered;
}

/** Gives a response that was sent headers and a status of its own, for a handler that does not know it. */
function apart(response, headers) {
  const lower = (name) => String(name).toLowerCase();
  let status = response.statusCode;
  Object.defineProperties(response, {
    statusCode: { configurable: true, get: () => status, set: (value) => (status = value) },
    headersSent: { configurable: true, get: () => false },
    writableEnded: { configurable: true, get: () => false },
  });
  Object.assign(response, {
    setHeader: (name, value) => (headers.set(lower(name), value), response),
    appendHeader: (name, value) => (headers.set(lower(name), [headers.get(lower(name)) ?? [], value].flat()), response),
    setHeaders: (more) => (more.forEach((value, name) => headers.set(lower(name), value)), response),
    getHeader: (name) => headers.get(lower(name)),
    getHeaders: () => Object.fromEntries(headers),
    getHeaderNames: () => [...headers.keys()],
    hasHeader: (name) => headers.has(lower(name)),
    removeHeader: (name) => void headers.delete(lower(name)),
  });
}

/** Records the answer before its first byte leaves, or releases the key. */
async function finished(attempt, answer, rules) {
  const { status, headers, body } = answer;
  const isNotApplied = NOT_APPLIED_STATUS.has(status);
  const isKeyed = rules.class === "keyed" || rules.providerWindow !== undefined;
  const isRunning = isKeyed && status === 409;
  const speaksForAll = (status >= 200 && status < 300) || [...rules.decisive].includes(status);
  const isOutcome = status >= 200 && status < 500 && !isNotApplied && !isRunning;
  if (!isOutcome || (attempt.operation.possibleRepeat && !speaksForAll)) {
    const certainty = isNotApplied || isRunning ? NOT_APPLIED : MAYBE_APPLIED;
    await attempt.giveUp("release", released(`answered ${status}`, certainty));
    return answer;
  }
  const stored = { status };
  if (body.length > rules.maxAnswer) {
    stored.too_large = true;
  } else {
    stored.headers = headers.filter(([name]) => KEPT.has(name.toLowerCase()));
    stored.body = body.toString("base64");
  }
  try {
    await attempt.settle("complete", { outcome: stored }, answer);
  } catch (error) {
    return problemOf(error);
  }
  return answer;
}

async function broke(attempt, error) {
  await attempt.failed(error);
  process.emitWarning(`a handler failed: ${traceOf(error)}`, "SemelWarning");
  return problem(500, "internal", "the handler gave no answer");
}

function send(response, { status, headers, body }) {
  if (response.headersSent) return;
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  response.statusCode = status;
  for (const [name, value] of headers) {
    const before = response.getHeader(name);
    response.setHeader(name, before === undefined ? value : [before, value].flat());
  }
  response.setHeader("content-length", body.length);
  response.end(body);
}

function problem(status, code, detail, { retryAfterMs, ...more } = {}) {
  const headers = [["content-type", "application/problem+json"]];
  if (retryAfterMs !== undefined) headers.push(["retry-after", String(Math.max(1, Math.ceil(retryAfterMs / 1000)))]);
  const body = writeJson({ type: `urn:semel:problem:${code}`, code, status, detail, ...more });
  return { status, headers, body: Buffer.from(body) };
}

function problemOf(error) {
  if (!(error instanceof SemelError)) throw error;
  const about = { operation_id: error.operationId };
  const { message, certainty, retryAfterMs } = error;
  if (error instanceof Busy) {
    return problem(409, "in-progress", "the first request still runs", { ...about, retryAfterMs });
  }
  if (error instanceof Conflict) return problem(422, "key-reused", "the key was used for another request", about);
  if (error instanceof Parked) return problem(409, error.state.replaceAll("_", "-"), message, { ...about, certainty });
  if (error instanceof TooOld) return problem(409, "too-old", message, { ...about, certainty });
  if (error instanceof Unreadable || error.code === "outcome-unreadable") return unreadable(error.operationId);
  if (error instanceof ClaimLost) return problem(409, "claim-lost", message, { ...about, certainty });
  if (error instanceof Unrecorded) {
    // 503 would say that nothing was applied.
    return problem(500, "outcome-unrecorded", message, { ...about, certainty, retryAfterMs: 1000 });
  }
  if (error instanceof Refused && error.code === "invalid-input") return problem(400, "key-invalid", message);
  return problem(503, "store-unavailable", message, { ...about, certainty, retryAfterMs: retryAfterMs ?? 1000 });
}

function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}
