// Permits of `berth agent`, for Node 18.18 or later:
//   await using lease = await hold("api", 5); await fetch(url, { signal: lease.signal });
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { connect } from "node:net"; import { createInterface } from "node:readline";

// Waits for a permit. The terms are the agent's fields, such as { wait_ms: 1000 }. Without a
// permit it fails with an Error whose code is busy, timeout, redis, ...
export async function hold(name, limit, terms = {}) {
  const uid = process.geteuid(), { BERTH_AGENT_SOCKET: path, BERTH_STORE_DIR: dir } = process.env;
  const own = dir || (uid === 0 && existsSync("/run") ? "/run/berth" : `/tmp/berth-${uid}`);
  if (!path && lstatSync(own).uid !== uid) throw new Error(`another user made ${own}`);
  const socket = connect({ path: path || `${own}/agent.sock`, allowHalfOpen: true });
  const body = JSON.stringify({ ...terms, name, limit }), events = read(socket);
  socket.write(`POST /v1/hold HTTP/1.1\r\nHost: agent\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  let answer = { event: "queued" };
  while (answer.event === "queued") answer = (await events.next()).value ?? { error: "gone", message: "there is no agent" };
  if (answer.event === "granted") return new Lease(socket, events, answer);
  socket.destroy();
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
  #socket; #until; #over; #stop = new AbortController(); signal = this.#stop.signal; lost;
  constructor(socket, events, { slot, token, until_boot_ms }) {
    [this.slot, this.token, this.#socket, this.#until] = [slot, token, socket, until_boot_ms];
    this.#over = this.#watch(events);
  }
  async #watch(events) {
    let event = {};
    for await (event of events) {
      this.#until = event.until_boot_ms ?? this.#until;
      if (event.event === "stop") this.#stop.abort(new Error(event.reason));
    }
    this.#socket.destroy();
    if (event.event !== "released") this.#stop.abort(new Error(this.lost = event.message ?? "the agent has ended"));
  }
  // Whether the permit can be relied on now. Only Linux lets Node read the clock for it.
  valid() { return !this.lost && !(1000 * parseFloat(uptime()) + 10 >= this.#until); }
  beat() { this.#socket.write("\n"); } // a sign of life, for beat_ms
  async release() { this.#socket.end(); await this.#over; } // when the permit was given back
  async [Symbol.asyncDispose]() { await this.release(); if (this.lost) throw new Error(this.lost); }
}
const uptime = () => existsSync("/proc/uptime") ? readFileSync("/proc/uptime") : ""; // to 0.01 s
