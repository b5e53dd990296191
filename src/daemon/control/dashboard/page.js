// The page asks the API for figures and draws them. Every text that comes from a crawl is
// set as text (`textContent`), never as markup; images come re-encoded from this server.
"use strict";

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const rate = (n) => (n >= 10 || n === 0 ? number.format(Math.round(n)) : n.toFixed(1));
const times = (x) => `${x >= 10 ? number.format(Math.round(x)) : x.toPrecision(2)}×`;
const percent = (x) => (x == null ? "–" : `${(100 * x).toPrecision(x >= 0.1 ? 3 : 2)}\u00a0%`);

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) { n /= 1000; i += 1; }
  return `${short.format(n)}\u00a0${units[i]}`;
}

function duration(seconds) {
  let left = Math.round(seconds);
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = Math.max(0, units.findIndex(([size]) => left >= size || size === 1));
  const parts = units.slice(first, first + 2).map(([size, unit]) => {
    const n = Math.floor(left / size);
    left -= n * size;
    return n ? `${n} ${unit}` : "";
  });
  return parts.filter(Boolean).join(" ") || "0 s";
}

function element(name, text, parent, attributes = {}) {
  const made = document.createElement(name);
  if (text != null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

function pairs(list, rows) {
  list.replaceChildren();
  for (const [name, value] of rows) {
    element("dt", name, list);
    element("dd", value, list);
  }
  if (!rows.length) element("dt", "none", list);
}

// The error for a response that is not a result.
class Refusal extends Error {
  constructor(status, problem) {
    super(problem?.error ? `${problem.error}; ${problem.advice}` : `the crawl responded with status ${status}`);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { "Content-Type": "application/json" } });
  const body = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (!answer.ok) throw new Refusal(answer.status, body);
  return body;
}

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

// Plots ---------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 22, top: 26, bottom: 42 };

// Draws the axes of a plot, and its content clipped to them.
function plot(svg, { x, y, logX, logY, formatX, formatY, titleX, titleY }) {
  const { width, height } = svg.getBoundingClientRect();
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const scale = (log, [low, high], from, to) => {
    const map = log ? Math.log10 : (v) => v;
    const [a, b] = [map(low), map(high)];
    return (v) => from + ((map(v) - a) / (b - a || 1)) * (to - from);
  };
  const sx = scale(logX, x, MARGIN.left, width - MARGIN.right);
  const sy = scale(logY, y, height - MARGIN.bottom, MARGIN.top);
  const into = (parent) => (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text != null) made.textContent = text;
    parent.append(made);
    return made;
  };
  const add = into(svg);
  for (const v of ticks(y, logY)) {
    add("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: sy(v), y2: sy(v) });
    add("text", { x: MARGIN.left - 6, y: sy(v) + 4, "text-anchor": "end" }, formatY(v));
  }
  for (const v of ticks(x, logX))
    add("text", { x: sx(v), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, formatX(v));
  add("text", { class: "title", x: 0, y: 12 }, titleY);
  add("text", { class: "title", x: width - MARGIN.right, y: height - 6, "text-anchor": "end" }, titleX);
  const box = { x: MARGIN.left - 3, y: MARGIN.top - 3, width: Math.max(1, width - MARGIN.left - MARGIN.right + 6), height: Math.max(1, height - MARGIN.top - MARGIN.bottom + 6) };
  const draw = into(add("svg", { ...box, viewBox: `${box.x} ${box.y} ${box.width} ${box.height}` }));
  return {
    line: (points, kind) => draw("path", { class: `line ${kind}`, d: path(points, sx, sy) }),
    dots: (points) => points.forEach(([px, py]) => draw("circle", { class: "dot", cx: sx(px), cy: sy(py), r: 2.5 })),
    band: (low, high) => draw("path", { class: "band", d: `${path(low, sx, sy)} L${path(high.reverse(), sx, sy).slice(1)} Z` }),
  };
}

const path = (points, sx, sy) => points.map(([x, y], i) => `${i ? "L" : "M"}${sx(x).toFixed(1)},${sy(y).toFixed(1)}`).join(" ");

// A few round values in a range; on a logarithmic axis, powers of ten and as many values between
// them as needed.
function ticks([low, high], log) {
  if (log) {
    let within = [];
    for (const factors of [[1], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]]) {
      within = [];
      for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1)
        for (const f of factors) within.push(f * 10 ** e);
      within = within.filter((v) => v >= low && v <= high);
      if (within.length >= 3) break;
    }
    return within;
  }
  const raw = (high - low) / 6 || 1;
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * base).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9; v += step) out.push(v);
  return out;
}

function focusPlot(focus, compares) {
  const points = [];
  const shares = [];
  let end = 0;
  let seen = { pages: 0, share: 0 };
  const control = [];
  focus.points.forEach(({ focused, control: drawn }, i) => {
    end += focused.fetches + drawn.fetches;
    // The last span is incomplete; its few links would make the curve jump.
    const whole = i === 0 || 2 * focused.fetches >= focus.points[i - 1].focused.fetches;
    if (focused.pages && whole) points.push([end, share(focused)]);
    const pages = seen.pages + drawn.pages;
    seen = { pages, share: pages ? (seen.pages * seen.share + drawn.thousandths / 1000) / pages : 0 };
    // Nothing is compared until there are enough pages.
    if (pages && compares) { control.push([end, ...wilson(seen)]); shares.push([end, seen.share]); }
  });
  if (!points.length) return empty($("focus-plot"));
  const first = points[0][0];
  // The interval of the first few pages is wide and says little, so it may be cut off.
  const highest = Math.max(...points.map(([, y]) => y), ...shares.map(([, y]) => y), control.at(-1)?.[2] ?? 0);
  const top = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8].find((t) => t >= highest) ?? 1;
  const drawn = plot($("focus-plot"), {
    titleX: "links followed", titleY: "on topic",
    x: [Math.min(first, end - 1), end], y: [0, top], formatX: (v) => short.format(v), formatY: (v) => `${Math.round(100 * v)} %`,
  });
  if (control.length > 1) {
    drawn.band(control.map(([x, low]) => [x, low]), control.map(([x, , high]) => [x, high]));
    drawn.line(shares, "b");
  }
  drawn.line(points, "a");
  drawn.dots(points);
}

// The 95 % interval of a share (Wilson 1927).
function wilson({ pages: n, share: p }) {
  const z = 1.96;
  const middle = p + (z * z) / (2 * n);
  const half = z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  const scale = 1 + (z * z) / n;
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)];
}

function curvePlot(packets) {
  // The last packet is incomplete, like the last span above.
  const last = packets.length - 1;
  const whole = packets.filter((p, i) => i === 0 || i < last || 2 * p.pages >= packets[i - 1].pages);
  const points = whole.map((p) => [p.first + p.pages / 2, p.perplexity]);
  if (!points.length) return empty($("curve-plot"));
  const values = points.map(([, y]) => y);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const drawn = plot($("curve-plot"), {
    titleX: "pages fetched (log)", titleY: "perplexity (log)",
    x: [points[0][0], Math.max(points.at(-1)[0], points[0][0] * 1.5)], y: [low / 1.3, high * 1.3],
    logX: true, logY: true, formatX: (v) => short.format(v), formatY: (v) => short.format(v),
  });
  drawn.line(points, "a");
  drawn.dots(points);
}

function empty(svg) {
  svg.replaceChildren();
  const text = document.createElementNS(SVG, "text");
  text.textContent = "nothing yet";
  text.setAttribute("x", 8);
  text.setAttribute("y", 20);
  svg.append(text);
}

// Figures -------------------------------------------------------------------------------

const STATES = {
  starting: "starting", running: "crawling", paused: "paused", draining: "stopping",
  outage: "no network", ended: "finished",
};
const LIMITS = { documents: "pages", fetches: "requests", bytes: "received", time: "of crawling" };
const MANY = 10;

// The mean of the probabilities of its pages.
const share = (t) => (t.pages ? t.thousandths / 1000 / t.pages : null);
const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

let job;
let ended = false;

function show(status) {
  job = status.job;
  const name = ended && status.ended ? ENDS[status.ended.why] : STATES[status.state];
  $("job").textContent = status.job;
  document.title = `${name ?? status.state}: ${status.job} - spoor`;
  const state = $("state");
  const text = name ?? status.state;
  if (state.textContent !== text) state.textContent = text;
  state.className = `pill ${status.ended?.why === "failed" ? "failed" : status.state}`;
  const seconds = Math.max(0, (Date.now() - Date.parse(status.since)) / 1000);
  const left = status.images_left;
  const pace = left && status.rates.images > 0 ? `, about ${duration(left * 60 / status.rates.images)}` : "";
  const images = left ? `; only images are left: ${number.format(left)}${pace}` : "";
  const idle = status.idle_until ? `; only failed addresses are left; the next is retried at ${clock(status.idle_until)}` : images;
  const doing = status.state === "running" ? idle : "";
  $("since").textContent = ended
    ? `at ${clock(status.since)}, after ${duration(status.active_seconds)} of crawling`
    : status.state === "outage" ? `for ${duration(seconds)}; it continues by itself` : `for ${duration(seconds)}${doing}`;
  const live = ["running", "paused", "outage", "draining"].includes(status.state);
  $("acts").hidden = !live;
  $("pause").hidden = status.state === "paused";
  $("resume").hidden = status.state !== "paused";
  for (const id of ["pause", "resume", "seed", "stop"]) $(id).disabled = status.state === "draining";
  totals(status);
  first(status);
  const { rates, hosts, queued } = status;
  pairs($("speed"), [
    ["pages a minute", rate(rates.pages)],
    ["images a minute", rate(rates.images)],
    ["received a minute", bytes(rates.bytes)],
    ["pages", number.format(status.pages)],
    ["images", number.format(status.images)],
    ["requests for pages", number.format(status.fetches)],
    ["received", bytes(status.bytes)],
    ["requests open now", number.format(status.in_flight)],
    ["time spent crawling", duration(status.active_seconds)],
  ]);
  const health = [];
  if (status.memory) health.push(["memory", `${bytes(status.memory.resident)}, at most ${bytes(status.memory.peak)}`]);
  if (status.disk) health.push(["disk free", `${bytes(status.disk.free)} of ${bytes(status.disk.size)}`]);
  if (status.checkpoint) {
    const { age_seconds: age, error } = status.checkpoint;
    health.push(["checkpoint elsewhere", error ? `${duration(age)} old: ${error}` : `${duration(age)} old`]);
  }
  health.push(["version of spoor", status.version]);
  pairs($("health"), health);
  const sorted = Object.entries(status.errors).sort(([, a], [, b]) => b - a);
  pairs($("errors"), sorted.slice(0, 8).map(([name, n]) => [name.replaceAll("_", " "), number.format(n)]));
  const bars = $("queue");
  bars.replaceChildren();
  const rows = [...Object.entries(queued), ["to be tried again", status.waiting]];
  const most = Math.max(1, ...rows.map(([, n]) => n));
  for (const [name, n] of rows) {
    element("span", name, bars);
    element("progress", null, bars, { max: most, value: n, "aria-label": `${name}: ${n}` });
    element("span", number.format(n), bars, { class: "num" });
  }
  $("host-counts").textContent = `${number.format(hosts.active)} sites have something queued: ${number.format(hosts.ready)} are ready for a request, ${number.format(hosts.due + hosts.held)} wait for their pause to end, ${number.format(hosts.open)} have a request open, ${number.format(hosts.parked)} do not respond and are left alone for now`;
}

function totals(status) {
  $("n-pages").textContent = number.format(status.pages);
  $("n-images").textContent = number.format(status.images);
  const average = status.active_seconds > 0 ? (60 * status.pages) / status.active_seconds : 0;
  const [speed, unit] = status.images_left ? [status.rates.images, "images"] : [status.rates.pages, "pages"];
  $("n-rate").textContent = ended ? rate(average) : rate(speed);
  $("n-rate-note").textContent = ended ? "pages a minute, on average" : `${unit} a minute`;
  const list = $("limits");
  list.replaceChildren();
  const amount = (key, n) => (key === "bytes" ? bytes(n) : key === "time" ? duration(n) : number.format(n));
  // The limit that is reached first ends the crawl; the times of the others are irrelevant.
  const soonest = Math.min(...(status.toward ?? []).map((limit) => limit.seconds_left ?? Infinity));
  for (const { key, done, of, seconds_left: left } of status.toward ?? []) {
    const name = key.replace("limits.", "");
    const row = element("div", null, list, { class: "limit" });
    const words = `${amount(name, done)} of ${amount(name, of)} ${LIMITS[name] ?? name}`;
    element("span", words, row);
    const rest = done >= of ? "reached" : left == null || left > soonest ? "" : `about ${duration(left)} left`;
    element("span", ended && done < of ? "" : rest, row);
    element("progress", null, row, { max: of, value: Math.min(done, of), "aria-label": words });
  }
  if (!list.children.length && !ended) element("p", "The job has no limit: it continues until nothing is left, or until it is stopped.", list, { class: "none" });
}

// The content of the page before there is anything to see.
function first(status) {
  $("first").hidden = ended || status.pages >= MANY;
  if ($("first").hidden) return;
  const begun = status.state !== "starting";
  const steps = [
    [begun, begun ? "The model of the topic is ready" : `The model of the topic is being trained or loaded: ${status.doing ?? "starting"}`],
    [status.robots > 0, status.robots > 0
      ? `robots.txt of ${number.format(status.robots)} ${status.robots === 1 ? "site" : "sites"} is read: what it forbids is left alone`
      : "robots.txt of each seed's site is read first: what it forbids is left alone"],
    [status.pages > 0, status.pages > 0 ? `${number.format(status.pages)} ${status.pages === 1 ? "page" : "pages"} fetched and judged` : "The seeds are fetched and judged: on topic or not"],
    [status.pages > 0 && status.queued.high + status.queued.medium + status.queued.normal + status.queued.low > 0, "Their links are rated; the most promising are followed first"],
    [status.images > 0, "Images are fetched with the words around them"],
  ];
  const list = $("steps");
  list.replaceChildren();
  const current = steps.findIndex(([done]) => !done);
  steps.forEach(([done, text], i) => element("li", text, list, { class: done ? "done" : i === current ? "now" : "todo" }));
}

function showBoard(board) {
  const { headline } = board;
  $("sentence").textContent = board.sentence;
  const chosen = headline.share;
  const [low, high] = headline.share_range ?? [];
  const range = low == null ? null : `${Math.round(100 * low)} to ${Math.round(100 * high)}\u00a0%`;
  $("n-topic").textContent = chosen == null ? range ?? "–" : percent(chosen);
  $("n-topic-note").textContent = chosen == null || range == null ? "of them on topic" : `of them on topic (${range})`;
  $("focus-note").textContent = focusNote(headline);
  $("by-chance").hidden = headline.drawn_share == null;
  focusPlot(board.focus, headline.drawn_share != null);
  curvePlot(board.perplexity);
  table($("best"), board.best.slice(0, 10), (h) => [h.host, `${number.format(h.on_topic)} (${percent(h.on_topic / h.pages)})`, number.format(h.pages)]);
  table($("hosts"), board.hosts, (h) => [h.host, h.state === "parked" ? "does not answer" : h.state === "due" ? "pauses" : h.state, h.due_in >= 1000 ? `in ${duration(h.due_in / 1000)}` : h.due_in > 0 ? "in under 1 s" : "now"]);
  rules(board.ruled, board.rule_events);
  gallery(board.images);
  pages(board.pages);
}

function rules(hosts, events) {
  $("rules-section").hidden = !hosts.length;
  const share = (n, of) => of ? `${percent(n / of)} of ${number.format(of)}` : "–";
  const byWeek = (weeks) => weeks.filter((w) => w.pages).slice(-5).map((w) => percent(w.matched / w.pages)).join(", ") || "–";
  table($("ruled"), hosts, (h) => [h.host, share(h.matched, h.pages), share(h.filled, h.required), byWeek(h.weeks), h.fallen.length ? h.fallen.join(", ") : "–"]);
  const list = $("rule-events");
  list.replaceChildren();
  for (const event of events) element("li", event.text, list);
}

function focusNote(headline) {
  const drawn = `${number.format(headline.drawn)} ${headline.drawn === 1 ? "page" : "pages"}`;
  const [low, high] = headline.gain_interval ?? [];
  if (headline.gain != null && low != null) {
    const range = high == null ? `at least ${times(low)}` : `${times(low)} to ${times(high)}`;
    return `It finds ${times(headline.gain)} as many pages on topic as chance would (95 % sure: ${range}).`;
  }
  if (headline.drawn_share === 0 && low != null)
    return `Of ${drawn} drawn by chance none was on topic: choosing finds at least ${times(low)} as many, 95 % sure.`;
  return `A few pages are drawn by chance, to see what choosing is worth: ${drawn} so far. It is too early to compare.`;
}

function pages(all) {
  const list = $("pages");
  list.replaceChildren();
  for (const page of all) {
    const item = element("li", null, list);
    const [kind, verdict] = page.on_topic == null ? ["fail", "no page"]
      : page.on_topic ? ["yes", "on topic"] : ["no", "off topic"];
    const sure = page.probability == null ? "" : ` · ${Math.round(100 * page.probability)}\u00a0% likely on topic`;
    element("span", verdict, item, { class: `verdict ${kind}` });
    const what = element("span", null, item, { class: "what" });
    element("bdi", page.title ?? page.url, what, { class: "name", title: page.url });
    const from = element("span", null, what, { class: "from" });
    element("bdi", page.url.replace(/^https?:\/\/([^/]*).*$/, "$1"), from);
    from.append(`${sure} · ${page.reason}`);
    const when = page.time ? clock(page.time) : "";
    element("time", when, item);
  }
  if (!all.length) element("li", "none yet", list, { class: "none" });
  $("more").hidden = all.length <= 8;
}

function table(body, rows, cells) {
  body.replaceChildren();
  for (const row of rows) {
    const line = element("tr", null, body);
    cells(row).forEach((text, i) => element("td", text, line, i ? { class: "num" } : {}));
  }
  if (!rows.length) element("td", "none yet", element("tr", null, body), { class: "none", colspan: 3 });
}

function gallery(images) {
  const list = $("images");
  const known = new Map([...list.children].map((item) => [item.dataset.id, item]));
  list.replaceChildren(...images.map((image) => known.get(String(image.id)) ?? card(image)));
  if (!images.length) element("li", "none yet", list, { class: "none" });
}

function card(image) {
  const item = element("li");
  item.dataset.id = image.id;
  const text = image.text ?? "";
  element("img", null, item, { src: `/dashboard/image/${image.id}`, alt: text, loading: "lazy" });
  element("p", text || "no words of its own", item, text ? { dir: "auto", title: text } : { class: "none" });
  element("p", `${image.score == null ? "" : `score ${short.format(image.score)} · `}${image.host}`, item, { class: "from" });
  return item;
}

// Actions -------------------------------------------------------------------------------

async function act(path, body) {
  try {
    notice("");
    const answer = await ask(path, { method: "POST", body: body && JSON.stringify(body) });
    refresh();
    return answer;
  } catch (error) {
    notice(error.message);
    return null;
  }
}

$("pause").addEventListener("click", () => act("/api/pause"));
$("resume").addEventListener("click", () => act("/api/resume"));
$("stop").addEventListener("click", () => $("sure").showModal());
$("sure-no").addEventListener("click", () => $("sure").close());
$("sure-yes").addEventListener("click", () => { $("sure").close(); act("/api/stop"); });
$("seed").addEventListener("click", () => { $("seeded").replaceChildren(); $("seeds").showModal(); });
$("seeds-close").addEventListener("click", () => $("seeds").close());
$("seeds-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const urls = $("urls").value.split("\n").map((line) => line.trim()).filter(Boolean);
  const seeded = await act("/api/seeds", { urls });
  $("seeded").replaceChildren();
  for (const seed of seeded ?? []) element("li", `${seed.url}: ${seed.result}${seed.reason ? `, ${seed.reason}` : ""}`, $("seeded"));
  if (seeded) $("urls").value = "";
});
$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  if ((await act("/login", { token: $("token").value })) === null && !$("notice").hidden) return;
  $("token").value = "";
  refresh();
});
$("more").addEventListener("click", () => {
  const short = $("pages").classList.toggle("short");
  $("more").textContent = short ? "Show more" : "Show fewer";
});
// Plots are drawn to their size on the page, which is zero while they are folded away.
$("details").addEventListener("toggle", () => { if (last) curvePlot(last.perplexity); });

// The end -------------------------------------------------------------------------------

const ENDS = { limit: "finished", exhausted: "finished", stopped: "stopped", failed: "failed" };

// The crawl itself reports its end and the last figures; a broken connection alone says nothing.
let end;

function watchEnd() {
  if (end || ended) return;
  end = new EventSource("/api/end");
  end.addEventListener("end", (event) => {
    end.close();
    const { status, board } = JSON.parse(event.data);
    farewell(status, board);
  });
  // A refusal is final for this stream, for example if the token is gone; a break is not.
  end.addEventListener("error", () => { if (end?.readyState === EventSource.CLOSED) end = null; });
}

function farewell(status, board) {
  ended = true;
  latest += 1;
  clearTimeout(timer);
  notice("");
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  const { why, text, next } = status.ended;
  last = { ...board, hosts: [] };
  show(status);
  showBoard(last);
  const plural = (n, word) => `${number.format(n)} ${word}${n === 1 ? "" : "s"}`;
  const name = ENDS[why] ?? "ended";
  $("h-over").textContent = `${name[0].toUpperCase()}${name.slice(1)}: ${plural(status.pages, "page")}, ${plural(status.images, "image")}`;
  $("h-head").textContent = "In the end";
  $("over-text").textContent = `${text[0].toUpperCase()}${text.slice(1)}. These are the last figures; the process has ended.`;
  const list = $("next");
  list.replaceChildren();
  for (const step of next) {
    element("code", step.command, element("dt", null, list));
    element("dd", step.gives, list);
  }
  $("over").hidden = false;
  $("board").hidden = false;
}

// Polling -------------------------------------------------------------------------------

let timer;
let round = 0;
let latest = 0;
let last;

async function refresh() {
  if (ended) return;
  // A button sends a request at once; an earlier one must neither overwrite its response nor
  // continue next to it.
  const own = (latest += 1);
  clearTimeout(timer);
  try {
    const status = await ask("/api/status");
    if (own !== latest) return;
    if (job !== undefined && status.job !== job) {
      // Another crawl has taken over the port.
      lost(`Another crawl, ${status.job}, responds here now. Reload the page to see it.`);
      return;
    }
    $("board").hidden = false;
    $("login").hidden = true;
    show(status);
    watchEnd();
    // The figures change every second, the plots hardly.
    if (round % 3 === 0 || status.pages < MANY) {
      const board = await ask("/api/board");
      if (own !== latest) return;
      last = board;
      showBoard(board);
    }
    round += 1;
    if ($("notice").dataset.gone) { notice(""); delete $("notice").dataset.gone; }
  } catch (error) {
    if (own !== latest) return;
    if (error.status === 401 && job === undefined) {
      for (const id of ["board", "acts"]) $(id).hidden = true;
      $("login").hidden = false;
      round = 0;
      return;
    }
    lost(error.status === 401
      ? "A new run responds here. Open the link that it printed."
      : error instanceof Refusal ? error.message
        : "The crawl does not answer any more. It may have been killed, or this machine cannot reach it; nothing that was fetched is lost. Below are the last figures. The page continues by itself when the crawl is back.");
  }
  timer = setTimeout(refresh, document.hidden ? 15000 : 2000);
}

// No end was reported: the figures stay, and the page claims nothing.
function lost(text) {
  $("state").textContent = "no answer";
  $("state").className = "pill gone";
  $("since").textContent = "";
  $("acts").hidden = true;
  $("notice").dataset.gone = "yes";
  notice(text);
}

// The link that the crawl printed has the token after a #, which no browser sends; it is removed
// from the address, so that it does not get into the history.
async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname);
    try {
      await ask("/login", { method: "POST", body: JSON.stringify({ token }) });
    } catch (error) {
      notice(error.status === 401 ? "The token of this link belongs to another run. Open the link that the crawl printed last." : error.message);
    }
  }
  refresh();
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
addEventListener("resize", () => { round = 0; if (ended && last) showBoard(last); });
addEventListener("hashchange", enter);
$("pages").classList.add("short");
enter();
