/** Semel's claim API from Node: one business key, one effect, or a visible record that says why not. */

import type { IncomingMessage, ServerResponse } from "node:http";

export type Certainty = "not_applied" | "maybe_applied";
export declare const NOT_APPLIED: "not_applied";
export declare const MAYBE_APPLIED: "maybe_applied";

/** "30s", "500ms", "7d", or a number of milliseconds. */
export type Duration = string | number;
/** A number beyond 2^53 is a `bigint`. */
export type Key = string | number | bigint | JsonNumber;
/** A value of JSON; `bigint` and `JsonNumber` are numbers with all their digits. */
export type Json = null | boolean | number | bigint | string | JsonNumber | Json[] | { [name: string]: Json | undefined };

export interface ClaimOptions {
  fingerprint?: Json;
  tenant?: string;
  transport?: string;
  birth?: Date | string;
  lease?: Duration;
  window?: Duration;
  wait?: Duration;
  class?: "keyed" | "unkeyed";
  providerWindow?: Duration;
  onDoubt?: "park" | "repeat";
  entity?: string;
  version?: number | bigint;
}

/** The operation as its function sees it. */
export declare class Operation {
  private constructor();
  readonly claim: string;
  /** The same on every attempt: pass it on to whatever you call. */
  readonly idempotencyKey: string;
  readonly operationId: string;
  readonly attempt: number;
  readonly fencingToken: number | bigint;
  /** True if an earlier attempt may have applied the effect. */
  readonly possibleRepeat: boolean;
  readonly takeover: boolean;
  /** Aborted when another caller owns the operation: a function that can stop should. */
  readonly signal: AbortSignal;
}

/** The outcome of an operation, from this run or from the record. */
export interface Receipt<T = unknown> {
  /** The JSON value, or a `Buffer` where the outcome is no JSON. */
  readonly outcome: T;
  /** True if it comes from the record. */
  readonly replayed: boolean;
  readonly duplicate?: "own" | "redelivery" | "republish" | "unknown";
  readonly operationId?: string;
  readonly completedAt?: string;
  readonly attempt?: number;
  readonly possibleRepeat: boolean;
  readonly contentType?: string;
  /** False if the outcome was too large to be kept: the effect happened, and a replay has `null` for it. */
  readonly kept: boolean;
}

export interface Decision {
  decision: "granted" | "replay" | "busy" | "conflict" | "stale" | "illegal" | "too_old" | "parked";
  [member: string]: unknown;
}

/** A client of one Semel server. */
export declare class Semel {
  /** `url` defaults to the variable SEMEL_URL, `token` to SEMEL_TOKEN. */
  constructor(url?: string, token?: string, options?: { timeoutMs?: number; retryForMs?: number });
  once<T>(
    operation: string,
    key: Key,
    run: (operation: Operation) => T | Promise<T>,
    options?: ClaimOptions,
  ): Promise<Receipt<T>>;
  claim(operation: string, key: Key, options?: ClaimOptions & { claimId?: string }): Promise<Decision>;
  claimBatch(
    claims: ({ operation: string; key: Key; claimId?: string } & ClaimOptions)[],
  ): Promise<(Decision | Record<string, unknown>)[]>;
  renew(claim: string, lease: Duration): Promise<Record<string, unknown>>;
  start(claim: string): Promise<Record<string, unknown>>;
  complete(
    claim: string,
    outcome?: Json | Uint8Array,
    options?: { contentType?: string; window?: Duration },
  ): Promise<Record<string, unknown>>;
  release(
    claim: string,
    error: string,
    options?: { certainty?: Certainty; notBefore?: Date | Duration },
  ): Promise<Record<string, unknown>>;
  fail(
    claim: string,
    error: string,
    options?: { certainty?: Certainty; decisive?: boolean },
  ): Promise<Record<string, unknown>>;
  settleBatch(settlements: Record<string, unknown>[]): Promise<Record<string, unknown>[]>;
  operation(operation: string, key: Key, options?: { tenant?: string }): Promise<Record<string, unknown> | null>;
}

/** The reason why a call has no outcome. */
export declare class SemelError extends Error {
  /** Says whether the effect was applied. */
  certainty: Certainty;
  code?: string;
  operationId?: string;
  status?: number;
  /** The member of the request that a refusal is about. */
  pointer?: string;
  /** True if this call ran the function to its end; then `result` is what it returned. */
  ran: boolean;
  result?: unknown;
}
/** Another caller runs this key, or its next attempt is not due yet. */
export declare class Busy extends SemelError {
  retryAfterMs: number;
  until?: string;
}
/** The key was used with another fingerprint. */
export declare class Conflict extends SemelError {}
/** The entity has this version or a later one. */
export declare class Stale extends SemelError {
  applied?: number | bigint;
}
/** The entity's state does not allow this change. */
export declare class Illegal extends SemelError {}
/** There is no record, and the request is older than the window. */
export declare class TooOld extends SemelError {}
/** Nothing runs this key until a person decides. */
export declare class Parked extends SemelError {
  state: string;
}
/** The effect was started, and nobody knows whether it happened. */
export declare class InDoubt extends Parked {}
/** The effect failed for good, or is out of attempts. */
export declare class Dead extends Parked {}
/** Another caller owns the operation now: the effect outlived its lease. */
export declare class ClaimLost extends SemelError {}
/** The function ran, and its result could not be recorded. */
export declare class Unrecorded extends SemelError {}
/** The effect happened, and its outcome is no JSON. */
export declare class Unreadable extends SemelError {}
/** Semel gave no answer for as long as this client asks again. */
export declare class Unavailable extends SemelError {
  retryAfterMs?: number;
}
/** Semel does not accept the request. */
export declare class Refused extends SemelError {}

/** Throw it in the function to say that the effect surely did not happen. */
export declare class NotApplied extends Error {
  constructor(message?: string, options?: { notBefore?: Date | Duration; cause?: unknown });
}
/** Throw it in the function to fail the operation for good. */
export declare class Failed extends Error {
  /** What is decisive was not applied, by no attempt. */
  constructor(message?: string, options?: { certainty?: Certainty; decisive?: boolean; cause?: unknown });
}

/** A number of JSON that no `number` holds, with all its digits. */
export declare class JsonNumber {
  constructor(text: string);
  readonly text: string;
  valueOf(): number;
}
export declare function writeJson(value: unknown): string;
export declare function readJson(text: string): Json;

export interface IdempotencySettings extends Omit<ClaimOptions, "fingerprint" | "tenant"> {
  operation?: string;
  methods?: string[];
  requireKey?: boolean;
  tenant?: (request: IncomingMessage) => string | undefined;
  decisive?: Iterable<number>;
  /** In bytes. */
  maxBody?: number;
  /** In bytes. */
  maxAnswer?: number;
  handlerTimeout?: Duration;
}
/** Middleware in the style of Express: one effect for each `Idempotency-Key`. */
export declare function idempotency(
  semel: Semel,
  settings?: IdempotencySettings,
): (request: IncomingMessage, response: ServerResponse, next: (error?: unknown) => unknown) => Promise<unknown>;
