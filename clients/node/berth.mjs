// Permits of `berth agent`, for Node 18.18 or later:
//
//   await using lease = await hold("api", 5);
//   await fetch(url, { signal: lease.signal });
//
//   await hold([{ name: "customer/7", limit: 2 }, { name: "api", limit: 20 }]); // narrow limits first
//   await cooldown("api", 30_000); // the API wants a pause
//   await hold("llm", 20, { rates: [{ unit: "tokens", n: 90_000, per_ms: 60_000 }], costs: { tokens: 1200 } });
//   lease.settle({ tokens: 917 }); // what it really was
//
// The agent is at $BERTH_AGENT_SOCKET, a path or ADDRESS:PORT, where it needs $BERTH_AGENT_TOKEN, or
// beside this user's local store. berth.d.mts has the types.
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { createInterface } from "node:readline";

// An agent that works has answered in so many milliseconds.
const margin = 10_000;

// There is no permit. semaphore, inUse, limit, waiting and paused are what was found, if that is known.
export class Refused extends Error {
  constructor(answer) {
    super(answer.message);
    const { error: code, status, fields, retry_after_ms: retryAfter, name: semaphore, in_use: inUse, limit, waiting, paused } = answer;
    Object.assign(this, { name: "Refused", code, status, fields, retryAfter, semaphore, inUse, limit, waiting, paused, answer });
  }
}

// The permit was lost while it was held.
export class Lost extends Error {
  constructor({ message = "the agent has ended", reason = "gone" }) {
    super(message);
    Object.assign(this, { name: "Lost", code: reason });
  }
}

// Waits for a permit of a name, or for one of each of several limits, a list of objects with name and
// limit, narrow ones first. The terms are the agent's fields, such as { wait_ms: 1000 }, and signal, an
// AbortSignal that ends the wait.
export async function hold(name, limit, { signal, ...terms } = {}) {
  signal?.throwIfAborted();
  const socket = connect({ ...address(), allowHalfOpen: true });
  const abort = () => socket.destroy();
  const late = terms.wait_ms === undefined ? undefined : setTimeout(abort, terms.wait_ms + margin);
  signal?.addEventListener("abort", abort);
  const events = read(socket);
  socket.write(request("hold", { ...terms, ...(Array.isArray(name) ? { all: name } : { name, limit }) }));
  let answer = { event: "queued" };
  while (answer.event === "queued") answer = (await events.next()).value ?? { error: "gone", message: "no agent answers" };
  clearTimeout(late);
  signal?.removeEventListener("abort", abort);
  if (answer.event === "granted" && !signal?.aborted) return new Lease(name, socket, events, answer);
  socket.destroy();
  signal?.throwIfAborted();
  throw new Refused(answer);
}

// Pauses a semaphore for all programs, as when an API answers 429: nobody is granted for so many
// milliseconds. A longer pause is not shortened.
export async function cooldown(name, ms, terms = {}) {
  const socket = connect({ ...address(), allowHalfOpen: true });
  const late = setTimeout(() => socket.destroy(), margin);
  socket.write(request("cooldown", { ...terms, name, for_ms: Math.round(ms) }));
  const { value: answer } = await read(socket).next();
  clearTimeout(late);
  socket.destroy();
  if (answer?.event !== "paused") throw new Refused(answer ?? { error: "gone", message: "no agent answers" });
}

function request(path, terms) {
  const body = JSON.stringify({ pid: process.pid, ...terms }), token = process.env.BERTH_AGENT_TOKEN;
  const head = [`POST /v1/${path} HTTP/1.1`, "Host: agent", "Connection: close", `Content-Length: ${Buffer.byteLength(body)}`];
  if (token) head.push(`Authorization: Bearer ${token}`);
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

function address() {
  const where = process.env.BERTH_AGENT_SOCKET, colon = where?.lastIndexOf(":");
  if (where && !where.includes("/") && colon >= 0)
    return { host: where.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(where.slice(colon + 1)) };
  if (where) return { path: where };
  const uid = process.geteuid();
  const own = process.env.BERTH_STORE_DIR || (uid === 0 && existsSync("/run") ? "/run/berth" : `/tmp/berth-${uid}`);
  if (lstatSync(own).uid !== uid) throw new Error(`another user made ${own}`);
  return { path: `${own}/agent.sock` };
}

// The lines of the answer, after its head. A connection that breaks, or says something else, ends
// them.
async function* read(socket) {
  const lines = createInterface({ input: socket });
  socket.on("error", () => {}).on("close", () => lines.close());
  let head = true;
  try {
    for await (const line of lines) {
      if (head) {
        head = line.trim() !== "";
        continue;
      }
      const event = JSON.parse(line);
      if (!event.event && !event.error) break;
      yield event;
    }
  } catch {
    socket.destroy();
  }
}

// lost is why the permit is gone, if it is. signal ends when the work has to.
export class Lease {
  #held; // what its reader has, too, which does not refer to the lease: it could not be found dropped

  constructor(name, socket, events, { slot, token, until_boot_ms, all = [] }) {
    Object.assign(this, { slot, token, all });
    name = all.length ? all.map((one) => one.name).join(", ") : name;
    this.#held = { name, socket, until: until_boot_ms, stop: new AbortController(), asked: false };
    this.#held.over = watch(this.#held, events);
    dropped.register(this, this.#held);
  }

  get lost() { return this.#held.lost?.message; }
  get signal() { return this.#held.stop.signal; }

  // Whether the permit can be relied on now. Only Linux lets Node read the clock for it.
  valid() { return !this.lost && !(1000 * parseFloat(uptime()) + 10 >= this.#held.until); }

  // A sign of life, for beat_ms.
  beat() { this.#held.socket.write("\n"); }

  // Says what the permit has really cost, by unit; less than was asked for is free at once. The last word
  // counts. A warning says what is not possible, as for a unit that has no rate.
  settle(costs) { this.#held.socket.write(`${JSON.stringify({ settle: costs })}\n`); }

  // Resolves when the permit was given back, or after ten seconds.
  async release() {
    const { socket, over } = this.#held;
    this.#held.asked = true;
    const late = setTimeout(() => socket.destroy(), margin);
    socket.end();
    await over;
    clearTimeout(late);
  }

  async [Symbol.asyncDispose]() {
    await this.release();
    if (this.#held.lost) throw this.#held.lost;
  }
}

async function watch(held, events) {
  let event = {};
  for await (event of events) {
    held.until = event.until_boot_ms ?? held.until;
    if (event.event === "stop") held.stop.abort(new Error(event.reason));
    if (event.event === "unsettled") process.emitWarning(`what a hold of "${held.name}" has cost was not settled: ${event.message}`);
  }
  held.socket.destroy();
  if (event.event !== "released") held.lost = new Lost(event);
  else if (!held.asked) held.lost = new Lost({ message: "it was given back, but not by this program", reason: "released" });
  if (held.lost) held.stop.abort(held.lost);
}

const dropped = new FinalizationRegistry(({ name, asked, lost }) => {
  if (asked || lost) return;
  process.emitWarning(`a hold of "${name}" was dropped and not released: its permit stays taken while this process lives, ` +
    "as its work may go on", "ResourceWarning");
});

// To 0.01 s.
const uptime = () => existsSync("/proc/uptime") ? readFileSync("/proc/uptime") : "";
