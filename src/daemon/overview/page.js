// The page polls the list of jobs. All text that comes from a job is set as text, never as markup;
// images come re-encoded from this server.
"use strict";

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) { n /= 1000; i += 1; }
  return `${n >= 100 || i === 0 ? Math.round(n) : n.toPrecision(2)}\u00a0${units[i]}`;
}

function ago(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  for (const [size, unit] of [[86400, "day"], [3600, "hour"], [60, "minute"]])
    if (seconds >= size) {
      const n = Math.floor(seconds / size);
      return `${n} ${unit}${n === 1 ? "" : "s"} ago`;
    }
  return "just now";
}

function element(name, text, parent, attributes = {}) {
  const made = document.createElement(name);
  if (text != null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

class Refusal extends Error {
  constructor(status, problem) {
    super(problem?.error ? `${problem.error}: ${problem.advice}` : `the server responded with status ${status}`);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { "Content-Type": "application/json" } });
  if (!answer.ok) throw new Refusal(answer.status, await answer.json().catch(() => null));
  return answer;
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

const path = (job, what) => `/job/${encodeURIComponent(job.name)}/${what}`;

// A card is only redrawn if some of it has changed, so that buttons keep the focus and images do
// not flicker.
const drawn = new Map();
const making = new Set();

function card(job) {
  const said = JSON.stringify([job, making.has(job.name), ago(job.last ?? 0)]);
  const known = drawn.get(job.name);
  if (known?.said === said) return known.item;
  const item = element("li");
  const top = element("div", null, item, { class: "top" });
  element("h2", job.name, top);
  element("span", job.state, top, { class: `pill ${job.state}` });
  if (job.last) element("time", `last activity ${ago(job.last)}`, top, { datetime: job.last, title: new Date(job.last).toLocaleString("en-GB") });
  element("p", job.text, item, { class: "text" });
  if (job.progress != null) element("progress", null, item, { max: 1, value: job.progress, "aria-label": `${Math.round(100 * job.progress)} % of the first limit` });
  const facts = element("dl", null, item, { class: "facts" });
  const fact = (name, value) => {
    const div = element("div", null, facts);
    element("dt", name, div);
    element("dd", value, div);
  };
  fact(job.behind ? "pages so far; the log is still being read" : "pages", number.format(job.pages));
  fact("judged on topic", job.on_topic == null ? "–" : `${Math.round(100 * job.on_topic)}\u00a0%`);
  fact("images", number.format(job.images));
  fact("documents on disk", job.documents.files ? bytes(job.documents.bytes) : "–");
  if (job.newest.length) {
    const list = element("ul", null, item, { class: "images", "aria-label": "newest images" });
    for (const id of job.newest) {
      const img = element("img", null, element("li", null, list), { src: path(job, `image/${id}`), alt: "", loading: "lazy" });
      img.addEventListener("error", () => img.parentElement.remove());
    }
  }
  const acts = element("div", null, item, { class: "acts" });
  if (job.dashboard) element("a", "Open the dashboard", acts, { href: job.dashboard, class: "main", target: "_blank", rel: "noreferrer" });
  if (job.report) element("a", "Read the report", acts, { href: path(job, "report"), class: job.dashboard ? "" : "main", target: "_blank", rel: "noreferrer", title: `made ${ago(job.report)}` });
  if (job.file) {
    const make = element("button", making.has(job.name) ? "Making the report…" : job.report ? "Make it again" : "Make the report", acts, { type: "button" });
    make.disabled = making.has(job.name);
    make.addEventListener("click", () => report(job));
    element("button", "Job file", acts, { type: "button" }).addEventListener("click", () => show(job));
  }
  drawn.set(job.name, { said, item });
  return item;
}

async function report(job) {
  making.add(job.name);
  refresh();
  try {
    await ask(path(job, "report"), { method: "POST" });
    notice("");
  } catch (error) {
    notice(`${job.name}: ${error.message}`);
  }
  making.delete(job.name);
  refresh();
}

async function show(job) {
  try {
    $("file-text").textContent = await (await ask(path(job, "file"))).text();
    $("file-name").textContent = `${job.name}: job file`;
    $("file").showModal();
  } catch (error) {
    notice(`${job.name}: ${error.message}`);
  }
}

$("file-close").addEventListener("click", () => $("file").close());
$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  enter($("token").value);
  $("token").value = "";
});

let timer;
let latest = 0;

async function refresh() {
  const own = (latest += 1);
  clearTimeout(timer);
  try {
    const shelf = await (await ask("/api/jobs")).json();
    if (own !== latest) return;
    $("login").hidden = true;
    document.querySelector("main").hidden = false;
    $("folder").textContent = `in ${shelf.folder}`;
    $("none").hidden = shelf.jobs.length > 0;
    $("more").hidden = !shelf.more;
    const items = shelf.jobs.map(card);
    const list = $("jobs");
    if (items.length !== list.children.length || items.some((item, i) => list.children[i] !== item)) list.replaceChildren(...items);
    if ($("notice").dataset.gone) { delete $("notice").dataset.gone; notice(""); }
  } catch (error) {
    if (own !== latest) return;
    if (error.status === 401) {
      document.querySelector("main").hidden = true;
      $("login").hidden = false;
      return;
    }
    $("notice").dataset.gone = "yes";
    notice(error instanceof Refusal ? error.message : "spoor ui no longer responds; start it again in a terminal. The crawls continue without it.");
  }
  timer = setTimeout(refresh, document.hidden ? 20000 : 3000);
}

// The link has the token after a #, which no browser sends; it is removed from the address, so that
// it does not get into the history.
async function enter(token) {
  if (token) {
    try {
      await ask("/login", { method: "POST", body: JSON.stringify({ token }) });
      notice("");
    } catch (error) {
      notice(error.status === 401 ? "The token is wrong, or from an earlier run." : error.message);
    }
  }
  refresh();
}

function arrive() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) history.replaceState(null, "", location.pathname);
  enter(token);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
addEventListener("hashchange", arrive);
arrive();
