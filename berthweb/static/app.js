// What the pages do beyond links and forms: they follow what happens, filter while one
// types, and ask before an action without leaving the page.

const every = 2000; // ms between two looks
const longest = 30000; // the same where the server does not answer
const live = document.querySelector("[data-live]");
const lost = document.getElementById("lost");
const dialog = document.getElementById("dialog");
const filter = document.getElementById("filter");

// Following: one request at a time, none while the page is hidden.

let tag = ""; // of what is shown
let pause = every;
let timer = 0;
let current = null; // the request that is under way

function fragment(url) {
  const u = new URL(url, location.href);
  u.searchParams.set("fragment", "1");
  u.searchParams.delete("done");
  return u;
}

function later(ms) {
  clearTimeout(timer);
  if (live && !document.hidden) timer = setTimeout(look, ms);
}

async function look() {
  clearTimeout(timer);
  current?.abort();
  const mine = (current = new AbortController());
  const giveUp = setTimeout(() => mine.abort(), 10000);
  try {
    const headers = tag ? { "If-None-Match": tag } : {};
    const answer = await fetch(fragment(location.href), { headers, cache: "no-store", signal: mine.signal });
    const shown = answer.status === 304 || (await take(answer, mine));
    if (mine !== current) return;
    if (shown) known(answer.headers.get("Berth-Age"));
    pause = every;
    if (!shown) lost.textContent = "This page stands still while text in it is marked.";
    lost.hidden = shown;
  } catch (e) {
    if (mine !== current) return; // another one is under way
    pause = Math.min(pause * 2, longest);
    const why = e.name === "Error" ? e.message : "its server does not answer";
    lost.textContent = `This page is not up to date: ${why}. It tries again every ${pause / 1000} s.`;
    lost.hidden = false;
  } finally {
    clearTimeout(giveUp);
  }
  if (mine === current) later(pause);
}

// The age of the data, which grows until newer data is here.

const age = document.getElementById("age");
let asOf = null; // on the browser's own clock

function known(ms) {
  if (ms === null || !age) return;
  asOf = performance.now() - ms;
  tellAge();
}

function tellAge() {
  if (asOf === null) return;
  const s = Math.max(0, Math.round((performance.now() - asOf) / 1000));
  age.textContent = `as of ${s < 100 ? `${s} s` : `${Math.round(s / 60)} min`} ago`;
  age.classList.toggle("odd", s > 10);
}

if (age) {
  known(age.dataset.age);
  setInterval(tellAge, 1000);
}

// ours tells our pages from others that come in their place: a proxy's errors, a login.
function ours(answer) {
  return answer.headers.has("Berth-Page");
}

// take shows an answer, unless it is none of our pages, and tells whether it did.
async function take(answer, mine) {
  if (!ours(answer)) throw new Error(answer.ok || answer.status === 401 ? "log in again, by loading it again" : `its server says ${answer.status}`);
  const text = await answer.text();
  while (performance.now() < acts) await new Promise((done) => setTimeout(done, 20));
  if (mine !== current || reading()) return false;
  tag = answer.headers.get("ETag") ?? "";
  show(live, text);
  return true;
}

// What is pressed acts when it is let go, unless it was replaced in between: so that waits.

let acts = 0; // until when, by performance.now()

function press() {
  acts = Infinity;
}

function letGo() {
  if (acts === Infinity) acts = performance.now() + 100; // a click comes after the end of a touch
}

addEventListener("pointerdown", (e) => e.button === 0 && press(), true);
addEventListener("pointermove", (e) => e.buttons === 0 && letGo(), true); // it may have been let go elsewhere
addEventListener("keydown", (e) => e.key === " " && press(), true);
for (const end of ["pointerup", "pointercancel", "keyup", "blur"]) addEventListener(end, letGo, true);

// reading tells whether somebody has marked text, which must not go away.
function reading() {
  const marked = getSelection();
  return marked && !marked.isCollapsed && live.contains(marked.anchorNode);
}

// show replaces the contents of a place, and keeps the focus and what was typed.
function show(place, html) {
  const focus = place.contains(document.activeElement) ? document.activeElement.id : "";
  const typed = [...place.querySelectorAll("input[id]")].filter((f) => f.value !== f.defaultValue);
  const parsed = new DOMParser().parseFromString(html, "text/html");
  place.replaceChildren(...parsed.body.childNodes);
  for (const f of typed) {
    const same = document.getElementById(f.id);
    if (same) same.value = f.value;
  }
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
  tell();
}

if (live) {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) return;
    pause = every;
    look();
  });
  addEventListener("online", look);
  later(every);
}

// Values: what a chart shows at the pointer, or where the arrow keys have moved to. They are
// asked for when somebody looks so closely.

let probe = null; // the chart's id, the place in it from 0 to 1, and the points that are known

function lookAt(svg, at) {
  if (!svg.dataset.now) return;
  const same = probe?.id === svg.id ? probe : null;
  probe = { id: svg.id, at: Math.min(1, Math.max(0, at)), points: same?.points ?? [], asked: same?.asked ?? 0 };
  tell();
}

async function learn(mine, minutes) {
  mine.asked = Date.now();
  const u = new URL("api/v1/history", location.href);
  u.searchParams.set("name", new URL(location.href).searchParams.get("name"));
  u.searchParams.set("minutes", minutes);
  try {
    const answer = await fetch(u, { cache: "no-store" });
    if (!answer.ok || probe?.id !== mine.id) return;
    probe.points = (await answer.json()).points;
    tell();
  } catch {
    // the page says that its server does not answer
  }
}

// tell writes the values below the chart.
function tell() {
  const svg = probe && document.getElementById(probe.id);
  if (!svg) return;
  const { minutes, now } = svg.dataset;
  if (Date.now() - probe.asked > every) learn(probe, minutes);
  const moment = now - (1 - probe.at) * minutes * 60000;
  const point = probe.points.findLast((p) => p.at_ms <= moment);
  const x = probe.at * 600;
  svg.querySelector(".cursor").setAttribute("d", `M${x},0V90`);
  const values = point && `${point.in_use}${point.idle || point.limit === 2 ** 30 ? "" : ` of ${point.limit}`} in use, ${point.waiting} waiting`;
  document.querySelector(`output[for=${svg.id}]`).textContent =
    `${new Date(moment).toLocaleTimeString()}: ${values ?? (probe.points.length ? "not known" : "…")}`;
}

// leave is called also when the page has replaced the chart: then the new one has the focus.
function leave(id) {
  if (probe?.id !== id || document.activeElement?.id === id) return;
  probe = null;
  document.getElementById(id)?.querySelector(".cursor").removeAttribute("d");
  for (const output of document.querySelectorAll(`output[for=${id}]`)) output.textContent = "";
}

const chartOf = (e) => e.target.closest?.("svg.chart");

document.addEventListener("pointermove", (e) => {
  const svg = chartOf(e);
  if (!svg) return;
  const box = svg.getBoundingClientRect();
  lookAt(svg, (e.clientX - box.left) / box.width);
});
document.addEventListener("pointerout", (e) => chartOf(e) && leave(chartOf(e).id));
document.addEventListener("focusin", (e) => chartOf(e) && probe?.id !== chartOf(e).id && lookAt(chartOf(e), 1));
document.addEventListener("focusout", (e) => chartOf(e) && setTimeout(leave, 0, chartOf(e).id));
document.addEventListener("keydown", (e) => {
  const steps = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -1, End: 1 };
  if (!chartOf(e) || !(e.key in steps)) return;
  e.preventDefault();
  lookAt(chartOf(e), (probe?.at ?? 1) + steps[e.key]);
});

// Filtering while one types. The address follows, so that it can be kept.

let typed = 0;

function applyFilter() {
  const u = new URL(location.href);
  for (const [key, value] of new FormData(filter)) {
    if (value) u.searchParams.set(key, value);
    else u.searchParams.delete(key);
  }
  for (const place of ["cursor", "holders", "waiters", "done"]) u.searchParams.delete(place);
  history.replaceState(null, "", u);
  tag = "";
  look();
}

filter?.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(applyFilter, 200);
});
filter?.addEventListener("submit", (e) => {
  e.preventDefault();
  clearTimeout(typed);
  applyFilter();
  rows()[0]?.focus();
});

// Keys: those that browsers have, and / and the arrows on the list.

function rows() {
  return [...document.querySelectorAll("a.row")];
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || dialog.open) return;
  const field = document.getElementById("q");
  const typing = e.target.matches("input, select, textarea");
  if (e.key === "/" && field && !typing) {
    e.preventDefault();
    field.focus();
    field.select();
  } else if (e.key === "Escape" && field && (field.value || e.target === field)) {
    field.value = "";
    applyFilter();
  } else if (e.key === "ArrowDown" || e.key === "ArrowUp") {
    const all = rows();
    const at = all.indexOf(document.activeElement);
    if (!all.length || (typing && e.target !== field) || (at < 0 && e.target !== field)) return;
    e.preventDefault();
    const next = at + (e.key === "ArrowDown" ? 1 : -1);
    (next < 0 ? field : all[Math.min(next, all.length - 1)]).focus();
  }
});

// Asking: the page with the question, in a dialog. Its forms work without us.

let asked = null; // the last question that was asked for
let opener = "";
let pressed = false; // Enter

addEventListener("keydown", (e) => (pressed ||= e.key === "Enter"), true);
for (const end of ["keyup", "blur"]) addEventListener(end, () => (pressed = false));

// released waits until the key that asked is up: held longer, it would answer No by itself.
async function released() {
  if (pressed) await new Promise((done) => ["keyup", "blur"].forEach((end) => addEventListener(end, done, { once: true })));
}

async function ask(url) {
  asked?.abort();
  const mine = (asked = new AbortController());
  const giveUp = setTimeout(() => mine.abort(), 10000);
  opener = document.activeElement?.id ?? "";
  try {
    const answer = await fetch(fragment(url), { cache: "no-store", signal: mine.signal });
    if (!answer.ok || !ours(answer)) throw new Error(`status ${answer.status}`);
    const question = await answer.text();
    await released();
    if (mine !== asked || dialog.open) return; // a question that is shown never changes
    show(dialog, question);
    dialog.showModal();
    dialog.querySelector("[value=no]").focus();
  } catch {
    if (mine === asked) location.href = url; // it says what is wrong
  } finally {
    clearTimeout(giveUp);
  }
}

document.addEventListener("click", (e) => {
  const link = e.target.closest("a[data-ask]");
  if (link && e.button === 0 && !e.ctrlKey && !e.metaKey && !e.shiftKey) {
    e.preventDefault();
    ask(link.href);
  }
});

document.addEventListener("submit", (e) => {
  if (!e.target.matches("form[data-ask]")) return;
  e.preventDefault();
  const u = new URL(e.target.getAttribute("action"), location.href);
  u.search = new URLSearchParams(new FormData(e.target, e.submitter));
  ask(u.href);
});

dialog.addEventListener("click", (e) => {
  if (e.target.value === "no") {
    e.preventDefault();
    dialog.close();
  }
});
dialog.addEventListener("close", () => {
  dialog.replaceChildren();
  document.getElementById(opener)?.focus();
});

// The command follows what is typed. Enter in a field goes on to the next one: the answer is
// No until somebody chooses another.

function quote(word) {
  return /^[A-Za-z0-9_./:@%+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

document.addEventListener("input", (e) => {
  const command = document.getElementById("command");
  if (!e.target.dataset.flag || !command) return;
  const flags = [...e.target.form.querySelectorAll("[data-flag]")]
    .filter((f) => f.value.trim())
    .map((f) => `${f.dataset.flag} ${quote(f.value.trim())}`);
  command.textContent = [command.dataset.head, ...flags, command.dataset.tail].join(" ");
});

document.addEventListener("keydown", (e) => {
  const form = e.target.closest?.("form.ask");
  if (e.key !== "Enter" || !form || e.target.tagName !== "INPUT") return;
  e.preventDefault();
  const fields = [...form.elements].filter((f) => f.type !== "hidden");
  fields[fields.indexOf(e.target) + 1]?.focus();
});

// Copying a command, where the browser lets pages do that.

if (navigator.clipboard) for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
document.addEventListener("click", async (e) => {
  if (!e.target.matches("[data-copy]")) return;
  try {
    await navigator.clipboard.writeText(e.target.parentElement.querySelector("code").textContent);
    e.target.textContent = "Copied";
  } catch {
    e.target.textContent = "Not allowed";
  }
  setTimeout(() => (e.target.textContent = "Copy"), 2000);
});
