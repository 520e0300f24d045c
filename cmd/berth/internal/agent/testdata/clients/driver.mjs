// Holds a permit and does what standard input says. Both sides speak JSON.
import { createInterface } from "node:readline";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
const { cooldown, hold } = await import(process.env.CLIENT);
const say = (...words) => console.log(JSON.stringify(words.join(" ")));
const [name, limit, terms, mode] = process.argv.slice(2);
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const end = () => input.next().then(() => process.exit());
const giveUp = new AbortController();
process.on("SIGINT", () => giveUp.abort());
if (mode === "drop") {
  setFlagsFromString("--expose_gc");
  process.removeAllListeners("warning"); // the one that prints
  const warned = new Promise((resolve) => process.on("warning", resolve));
  await hold(name, Number(limit), JSON.parse(terms));
  const collect = setInterval(runInNewContext("gc"), 10);
  say((await warned).name);
  clearInterval(collect);
  await end();
}
let lease;
try {
  if (mode === "cool") {
    await cooldown(name, 600_000.4, { label: "import" });
    say("paused");
    process.exit();
  }
  const what = mode === "all" ? [[{ name: "narrow", limit: 1 }, { name, limit: Number(limit) }], undefined] : [name, Number(limit)];
  lease = await hold(...what, { ...JSON.parse(terms), signal: giveUp.signal });
} catch (e) {
  if (e === giveUp.signal.reason) {
    say("gave up");
    await end();
  }
  if (!e.code && !e.message.startsWith("another user")) throw e;
  const found = e.inUse === undefined ? [] : [e.semaphore, `${e.inUse}/${e.limit}`, e.waiting, e.status];
  say("refused", e.code ?? e.message, ...found);
  process.exit();
}
say("granted", lease.slot, ...lease.all.map((one) => one.name));
lease.signal.addEventListener("abort", () => say("stop"));
for await (const line of { [Symbol.asyncIterator]: () => input }) {
  const word = JSON.parse(line);
  if (word === "beat") {
    lease.beat();
    say("beat");
  } else if (word === "settle") {
    lease.settle({ tokens: 0 });
    say("settled");
  } else if (word === "valid") say("valid", lease.valid());
  else break;
}
try {
  await lease[Symbol.asyncDispose](); // as `await using` does
  say("released");
} catch {
  say("lost");
}
process.exit();
