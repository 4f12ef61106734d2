// Servers that the tests ask: one that answers as a case says, and the real one.

import { spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { readJson, writeJson } from "../semel.js";

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Reads a table of cases with all digits of its numbers. */
export function table(name) {
  return readJson(readFileSync(new URL(`../../${name}`, import.meta.url), "utf8"));
}

/** Answers each call as a script says, and keeps what it was asked. */
export class Scripted {
  asked = {};
  claimIds = new Set();
  faults = [];

  constructor(script, answers) {
    Object.assign(this, { script, answers });
    this.server = createServer((request, response) => this.#answer(request, response));
    this.server.keepAliveTimeout = 1000;
  }

  async listen() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  async #answer(request, response) {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = readJson(Buffer.concat(parts).toString());
    const call = request.url.split("/").at(-1);
    if (call !== "claims" && !request.url.startsWith("/v1/claims/C1/")) this.faults.push(`asked for ${request.url}`);
    const count = (this.asked[call] = (this.asked[call] ?? 0) + 1);
    if (body.claim_id !== undefined) this.claimIds.add(body.claim_id);
    const answers = this.script[call] ?? ["away"];
    const step = this.#resolved(answers[Math.min(count, answers.length) - 1]);
    for (const [name, value] of Object.entries(step.expects ?? {})) {
      if (body[name] === undefined || writeJson(body[name]) !== writeJson(value)) {
        this.faults.push(`${call}: ${name} is ${body[name]}, not ${writeJson(value)}`);
      }
    }
    for (const [name, value] of Object.entries(step.expects_headers ?? {})) {
      if (request.headers[name] !== value) this.faults.push(`${call}: header ${name} is ${request.headers[name]}`);
    }
    if (!writeJson(body).includes(step.expects_text ?? "")) this.faults.push(`${call}: no ${step.expects_text}`);
    if (step.fault === "cut") return request.socket.destroy();
    if (step.fault === "slow") await sleep(step.slow_ms);
    const raw = Buffer.from(step.raw ?? writeJson(step.body));
    const headers = { "content-type": "application/json", "content-length": raw.length, ...step.headers };
    response.writeHead(step.status, headers);
    if (step.fault !== "half") return response.end(raw);
    response.write(raw.subarray(0, raw.length / 2), () => request.socket.destroy());
  }

  #resolved(step) {
    return typeof step === "string" ? this.answers[step] : { ...this.answers[step.answer], ...step };
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }
}

/** `semel run` with the claim API over an embedded store in a folder of its own. */
export class Real {
  static async start() {
    const real = new Real();
    real.binary = process.env.SEMEL_BIN;
    if (!real.binary) throw new Error("SEMEL_BIN names no binary; `cargo xtask clients` builds one");
    real.folder = mkdtempSync(join(tmpdir(), "semel-node-"));
    const port = await freePort();
    real.url = `http://127.0.0.1:${port}`;
    real.config = join(real.folder, "semel.toml");
    writeFileSync(real.config, `[store]\nurl = "embedded:./data"\n\n[claims]\nlisten = "127.0.0.1:${port}"\n`);
    real.log = openSync(join(real.folder, "log"), "a");
    await real.start();
    return real;
  }

  async start() {
    this.process = spawn(this.binary, ["run", this.config], { stdio: ["ignore", this.log, this.log] });
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    let gone = false;
    this.ended.then(() => (gone = true));
    for (const until = Date.now() + 15_000; Date.now() < until && !gone; await sleep(20)) {
      try {
        const answer = await fetch(`${this.url}/v1/openapi.json`, { headers: { connection: "close" } });
        await answer.arrayBuffer();
        if (answer.ok) return;
      } catch {
        // Not yet.
      }
    }
    this.process.kill("SIGKILL");
    throw new Error(`semel does not come up: ${readFileSync(join(this.folder, "log"), "utf8")}`);
  }

  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  async close() {
    await this.kill();
    closeSync(this.log);
    rmSync(this.folder, { recursive: true });
  }
}

export async function freePort() {
  const socket = createSocket();
  await new Promise((resolve) => socket.listen(0, "127.0.0.1", resolve));
  const { port } = socket.address();
  await new Promise((resolve) => socket.close(resolve));
  return port;
}
