// Holds a permit and does what standard input says. Both sides speak JSON.
import { createInterface } from "node:readline";
const { hold } = await import(process.env.CLIENT);
const say = (...words) => console.log(JSON.stringify(words.join(" ")));
const [name, limit, terms] = process.argv.slice(2);
let lease;
try {
  lease = await hold(name, Number(limit), JSON.parse(terms));
} catch (e) {
  if (!e.code && !e.message.startsWith("another user")) throw e;
  say("refused", e.code ?? e.message);
  process.exit();
}
say("granted", lease.slot);
lease.signal.addEventListener("abort", () => say("stop"));
for await (const line of createInterface({ input: process.stdin })) {
  const word = JSON.parse(line);
  if (word === "beat") {
    lease.beat();
    say("beat");
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
