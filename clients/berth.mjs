// Permits of `berth agent`, for Node 18.18 or later:
//   await using lease = await hold("api", 5); await fetch(url, { signal: lease.signal });
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { connect } from "node:net"; import { createInterface } from "node:readline";

// Waits for a permit. The terms are the agent's fields, such as { wait_ms: 1000 }, and signal, an
// AbortSignal that ends the wait. Without a permit it fails with the signal's reason, or with an
// Error whose code is busy, timeout, redis, ...
export async function hold(name, limit, { signal, ...terms } = {}) {
  signal?.throwIfAborted();
  const uid = process.geteuid(), { BERTH_AGENT_SOCKET: path, BERTH_STORE_DIR: dir } = process.env;
  const own = dir || (uid === 0 && existsSync("/run") ? "/run/berth" : `/tmp/berth-${uid}`);
  if (!path && lstatSync(own).uid !== uid) throw new Error(`another user made ${own}`);
  const socket = connect({ path: path || `${own}/agent.sock`, allowHalfOpen: true });
  const body = JSON.stringify({ ...terms, name, limit }), events = read(socket), abort = () => socket.destroy();
  signal?.addEventListener("abort", abort);
  socket.write(`POST /v1/hold HTTP/1.1\r\nHost: agent\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  let answer = { event: "queued" };
  while (answer.event === "queued") answer = (await events.next()).value ?? { error: "gone", message: "there is no agent" };
  signal?.removeEventListener("abort", abort);
  if (answer.event === "granted" && !signal?.aborted) return new Lease(name, socket, events, answer);
  socket.destroy();
  signal?.throwIfAborted();
  throw Object.assign(new Error(answer.message), { code: answer.error, answer });
}
async function* read(socket) {
  const lines = createInterface({ input: socket });
  socket.on("error", () => {}).on("close", () => lines.close());
  try { for await (const line of lines) if (line.startsWith("{")) yield JSON.parse(line); // the rest is the head
  } catch {} // the connection broke, which is an end, too
}

// lost is why the permit is gone, if it is. signal ends when the work has to.
class Lease {
  #held; // what its reader has, too, which does not refer to the lease: it could not be found dropped
  constructor(name, socket, events, { slot, token, until_boot_ms }) {
    [this.slot, this.token] = [slot, token];
    this.#held = { name, socket, until: until_boot_ms, stop: new AbortController(), asked: false };
    this.#held.over = watch(this.#held, events);
    dropped.register(this, this.#held);
  }
  get lost() { return this.#held.lost; }
  get signal() { return this.#held.stop.signal; }
  // Whether the permit can be relied on now. Only Linux lets Node read the clock for it.
  valid() { return !this.lost && !(1000 * parseFloat(uptime()) + 10 >= this.#held.until); }
  beat() { this.#held.socket.write("\n"); } // a sign of life, for beat_ms
  async release() { this.#held.asked = true; this.#held.socket.end(); await this.#held.over; } // when the permit was given back
  async [Symbol.asyncDispose]() { await this.release(); if (this.lost) throw new Error(this.lost); }
}
async function watch(held, events) {
  let event = {};
  for await (event of events) {
    held.until = event.until_boot_ms ?? held.until;
    if (event.event === "stop") held.stop.abort(new Error(event.reason));
  }
  held.socket.destroy();
  if (event.event === "released" && held.asked) return;
  held.lost = event.event === "released" ? "it was given back, but not by this program" : event.message ?? "the agent has ended";
  held.stop.abort(new Error(held.lost));
}
const dropped = new FinalizationRegistry(({ name, asked, lost }) => asked || lost || process.emitWarning(
  `a hold of "${name}" was dropped and not released: its permit stays taken while this process lives, as its work may go on`, "ResourceWarning"));
const uptime = () => existsSync("/proc/uptime") ? readFileSync("/proc/uptime") : ""; // to 0.01 s
