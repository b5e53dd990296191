// The page asks the API for figures and draws them. Every text that comes from a crawl is
// set as text (`textContent`), never as markup; images come re-encoded from this server.
"use strict";

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const percent = (x) => (x == null ? "–" : `${(100 * x).toPrecision(x >= 0.1 ? 3 : 2)} %`);

function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) { n /= 1000; i += 1; }
  return `${short.format(n)} ${units[i]}`;
}

function duration(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
    if (seconds >= size) return `${short.format(seconds / size)} ${unit}`;
  return `${Math.round(seconds)} s`;
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

// What to say of an answer that is none.
class Refusal extends Error {
  constructor(status, problem) {
    super(problem?.error ? `${problem.error}; ${problem.advice}` : `the crawl answered ${status}`);
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
const MARGIN = { left: 52, right: 12, top: 8, bottom: 26 };

function plot(svg, { x, y, logX, logY, formatX, formatY }) {
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
  const add = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text != null) made.textContent = text;
    svg.append(made);
  };
  for (const v of ticks(y, logY)) {
    add("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: sy(v), y2: sy(v) });
    add("text", { x: MARGIN.left - 6, y: sy(v) + 4, "text-anchor": "end" }, formatY(v));
  }
  for (const v of ticks(x, logX))
    add("text", { x: sx(v), y: height - 8, "text-anchor": "middle" }, formatX(v));
  return {
    line: (points, kind) => add("path", { class: `line ${kind}`, d: path(points, sx, sy) }),
    dots: (points) => points.forEach(([px, py]) => add("circle", { class: "dot", cx: sx(px), cy: sy(py), r: 2.5 })),
    band: (low, high) => add("path", { class: "band", d: `${path(low, sx, sy)} L${path(high.reverse(), sx, sy).slice(1)} Z` }),
  };
}

const path = (points, sx, sy) => points.map(([x, y], i) => `${i ? "L" : "M"}${sx(x).toFixed(1)},${sy(y).toFixed(1)}`).join(" ");

// About four round values between two: powers of ten with 2 and 5 where an axis is
// logarithmic.
function ticks([low, high], log) {
  if (log) {
    const all = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1)
      for (const f of [1, 2, 5]) all.push(f * 10 ** e);
    const within = all.filter((v) => v >= low && v <= high);
    const tens = within.filter((v) => Number.isInteger(Math.round(1e9 * Math.log10(v)) / 1e9));
    return tens.length >= 3 ? tens : within;
  }
  const raw = (high - low) / 4 || 1;
  const base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((f) => f * base).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9; v += step) out.push(v);
  return out;
}

function focusPlot(focus) {
  const points = [];
  const shares = [];
  let end = 0;
  let seen = { fetches: 0, on_topic: 0 };
  const control = [];
  for (const { focused, control: drawn } of focus.points) {
    end += focused.fetches + drawn.fetches;
    if (focused.fetches) points.push([end, focused.on_topic / focused.fetches]);
    seen = { fetches: seen.fetches + drawn.fetches, on_topic: seen.on_topic + drawn.on_topic };
    if (seen.fetches) { control.push([end, ...wilson(seen)]); shares.push([end, seen.on_topic / seen.fetches]); }
  }
  if (!points.length) return empty($("focus-plot"));
  const first = points[0][0];
  const drawn = plot($("focus-plot"), {
    x: [Math.min(first, end - 1), end], y: [0, 1], formatX: (v) => short.format(v), formatY: (v) => `${Math.round(100 * v)} %`,
  });
  if (control.length > 1) {
    drawn.band(control.map(([x, low]) => [x, low]), control.map(([x, , high]) => [x, high]));
    drawn.line(shares, "b");
  }
  drawn.line(points, "a");
  drawn.dots(points);
}

// The 95 % interval of a share (Wilson 1927).
function wilson({ fetches: n, on_topic: k }) {
  const z = 1.96;
  const p = k / n;
  const middle = p + (z * z) / (2 * n);
  const half = z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  const scale = 1 + (z * z) / n;
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)];
}

function curvePlot(packets) {
  const points = packets.map((p) => [p.first + p.pages / 2, p.perplexity]);
  if (!points.length) return empty($("curve-plot"));
  const values = points.map(([, y]) => y);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const drawn = plot($("curve-plot"), {
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

function show(status) {
  $("job").textContent = status.job;
  document.title = `${status.job} - spoor`;
  const state = $("state");
  state.textContent = status.state;
  state.className = `pill ${status.state}`;
  const seconds = Math.max(0, (Date.now() - Date.parse(status.since)) / 1000);
  $("since").textContent = `for ${duration(seconds)}`;
  $("pause").hidden = status.state === "paused";
  $("resume").hidden = status.state !== "paused";
  for (const id of ["pause", "resume", "seed", "stop"]) $(id).disabled = status.state === "draining";
  const { rates, hosts, queued } = status;
  pairs($("speed"), [
    ["pages a minute", short.format(rates.pages)],
    ["images a minute", short.format(rates.images)],
    ["received a minute", bytes(rates.bytes)],
    ["pages", number.format(status.pages)],
    ["images", number.format(status.images)],
    ["fetches", number.format(status.fetches)],
    ["received", bytes(status.bytes)],
    ["crawling", duration(status.active_seconds)],
  ]);
  const health = [["in flight", number.format(status.in_flight)]];
  if (status.memory) health.push(["memory", `${bytes(status.memory.resident)}, at most ${bytes(status.memory.peak)}`]);
  if (status.disk) health.push(["disk free", `${bytes(status.disk.free)} of ${bytes(status.disk.size)}`]);
  health.push(["spoor", status.version]);
  pairs($("health"), health);
  const sorted = Object.entries(status.errors).sort(([, a], [, b]) => b - a);
  pairs($("errors"), sorted.slice(0, 8).map(([name, n]) => [name.replaceAll("_", " "), number.format(n)]));
  const bars = $("queue");
  bars.replaceChildren();
  const rows = [...Object.entries(queued), ["waiting", status.waiting]];
  const most = Math.max(1, ...rows.map(([, n]) => n));
  for (const [name, n] of rows) {
    element("span", name, bars);
    element("progress", null, bars, { max: most, value: n, "aria-label": `${name}: ${n}` });
    element("span", number.format(n), bars);
  }
  $("host-counts").textContent = `${number.format(hosts.active)} active: ${number.format(hosts.ready)} ready, ${number.format(hosts.due + hosts.held)} wait for their clock, ${number.format(hosts.open)} open, ${number.format(hosts.parked)} parked`;
}

function showBoard(board) {
  const { focus } = board;
  const tally = (t) => (t.fetches ? t.on_topic / t.fetches : null);
  $("focused").textContent = percent(tally(focus.recent.focused));
  const control = focus.total.control;
  $("control").textContent = percent(tally(control));
  $("control-note").textContent = control.fetches
    ? `of the control sample (${number.format(control.fetches)} links drawn by chance; 95 %: ${wilson(control).map(percent).join(" to ")})`
    : "of the control sample: no link drawn yet";
  $("gain").textContent = focus.gain == null ? "–" : `${short.format(focus.gain)}×`;
  $("gain-note").textContent = focus.gain_low == null
    ? "gain of focusing"
    : `gain of focusing, 95 %: ${short.format(focus.gain_low)}× ${focus.gain_high == null ? "or more" : `to ${short.format(focus.gain_high)}×`}`;
  focusPlot(focus);
  curvePlot(board.perplexity);
  table($("best"), board.best, (h) => [h.host, `${number.format(h.on_topic)} (${percent(h.on_topic / h.pages)})`, number.format(h.pages)]);
  table($("hosts"), board.hosts, (h) => [h.host, h.state, h.due_in == null ? "" : h.due_in > 0 ? `in ${duration(h.due_in / 1000)}` : "now"]);
  gallery(board.images);
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
  element("p", text || "no words of its own", item, text ? {} : { class: "none" });
  element("p", `${image.score == null ? "" : `${short.format(image.score)} · `}${image.host}`, item, { class: "from" });
  return item;
}

// Acts ----------------------------------------------------------------------------------

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

// Asking again and again ----------------------------------------------------------------

let timer;
let round = 0;

async function refresh() {
  clearTimeout(timer);
  try {
    show(await ask("/api/status"));
    for (const id of ["board", "acts"]) $(id).hidden = false;
    $("login").hidden = true;
    // The figures change with every second, the plots hardly.
    if (round % 3 === 0 || !$("images").children.length) showBoard(await ask("/api/board"));
    round += 1;
    if ($("notice").dataset.gone) { notice(""); delete $("notice").dataset.gone; }
  } catch (error) {
    if (error.status === 401) {
      for (const id of ["board", "acts"]) $(id).hidden = true;
      $("login").hidden = false;
      return;
    }
    $("state").textContent = "no answer";
    $("state").className = "pill gone";
    $("notice").dataset.gone = "yes";
    notice(error instanceof Refusal ? error.message : "The crawl does not answer: it has ended, or cannot be reached. This page goes on by itself when it is back.");
  }
  timer = setTimeout(refresh, document.hidden ? 15000 : 2000);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
addEventListener("resize", () => { round = 0; });
refresh();
