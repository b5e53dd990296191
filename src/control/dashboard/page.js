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
const MARGIN = { left: 52, right: 22, top: 26, bottom: 42 };

// The axes of a plot, and what draws into it; nothing is drawn beyond the axes.
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

// A few round values between two; where an axis is logarithmic, powers of ten and as
// many between them as it takes.
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

function focusPlot(focus) {
  const points = [];
  const shares = [];
  let end = 0;
  let seen = { fetches: 0, on_topic: 0 };
  const control = [];
  focus.points.forEach(({ focused, control: drawn }, i) => {
    end += focused.fetches + drawn.fetches;
    // The last span has only begun; a few links would make a jump of it.
    const whole = i === 0 || 2 * focused.fetches >= focus.points[i - 1].focused.fetches;
    if (focused.fetches && whole) points.push([end, focused.on_topic / focused.fetches]);
    seen = { fetches: seen.fetches + drawn.fetches, on_topic: seen.on_topic + drawn.on_topic };
    if (seen.fetches) { control.push([end, ...wilson(seen)]); shares.push([end, seen.on_topic / seen.fetches]); }
  });
  if (!points.length) return empty($("focus-plot"));
  const first = points[0][0];
  // The interval of the first few is wide and says little: it may be cut off.
  const highest = Math.max(...points.map(([, y]) => y), ...shares.map(([, y]) => y), control.at(-1)?.[2] ?? 0);
  const top = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8].find((t) => t >= highest) ?? 1;
  const drawn = plot($("focus-plot"), {
    titleX: "links fetched", titleY: "on topic",
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
function wilson({ fetches: n, on_topic: k }) {
  const z = 1.96;
  const p = k / n;
  const middle = p + (z * z) / (2 * n);
  const half = z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  const scale = 1 + (z * z) / n;
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)];
}

function curvePlot(packets) {
  // The last packet has only begun, as the last span above.
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
    ["pages a minute", rate(rates.pages)],
    ["images a minute", rate(rates.images)],
    ["received a minute", bytes(rates.bytes)],
    ["pages", number.format(status.pages)],
    ["images", number.format(status.images)],
    ["fetches", number.format(status.fetches)],
    ["received", bytes(status.bytes)],
    ["requests in flight", number.format(status.in_flight)],
    ["time spent crawling", duration(status.active_seconds)],
  ]);
  const health = [];
  if (status.memory) health.push(["memory", `${bytes(status.memory.resident)}, at most ${bytes(status.memory.peak)}`]);
  if (status.disk) health.push(["disk free", `${bytes(status.disk.free)} of ${bytes(status.disk.size)}`]);
  health.push(["version of spoor", status.version]);
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
    element("span", number.format(n), bars, { class: "num" });
  }
  $("host-counts").textContent = `${number.format(hosts.active)} active: ${number.format(hosts.ready)} ready, ${number.format(hosts.due + hosts.held)} wait for their clock, ${number.format(hosts.open)} open, ${number.format(hosts.parked)} parked`;
}

function showBoard(board) {
  const { focus } = board;
  const tally = (t) => (t.fetches ? t.on_topic / t.fetches : null);
  $("focused").textContent = percent(tally(focus.recent.focused));
  const control = focus.total.control;
  $("focused-note").textContent = `of the links chosen by score lately; ${percent(tally(focus.total.focused))} since the start`;
  $("control").textContent = percent(tally(control));
  $("control-note").textContent = control.fetches
    ? `of the control sample since the start (${number.format(control.fetches)} links drawn by chance; 95 %: ${wilson(control).map(percent).join(" to ")})`
    : "of the control sample: no link drawn yet";
  $("gain").textContent = focus.gain == null ? "–" : times(focus.gain);
  $("gain-note").textContent = focus.gain_low == null
    ? "gain of focusing"
    : `gain of focusing since the start (95 %: ${times(focus.gain_low)} ${focus.gain_high == null ? "or more" : `to ${times(focus.gain_high)}`})`;
  focusPlot(focus);
  curvePlot(board.perplexity);
  table($("best"), board.best, (h) => [h.host, `${number.format(h.on_topic)} (${percent(h.on_topic / h.pages)})`, number.format(h.pages)]);
  table($("hosts"), board.hosts, (h) => [h.host, h.state, h.due_in >= 1000 ? `in ${duration(h.due_in / 1000)}` : h.due_in > 0 ? "in under 1 s" : "now"]);
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
  element("p", text || "no words of its own", item, text ? { dir: "auto", title: text } : { class: "none" });
  element("p", `${image.score == null ? "" : `score ${short.format(image.score)} · `}${image.host}`, item, { class: "from" });
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
let latest = 0;

async function refresh() {
  // A button asks anew at once; what was asked before must neither overwrite the answer
  // nor go on beside it.
  const own = (latest += 1);
  clearTimeout(timer);
  try {
    const status = await ask("/api/status");
    if (own !== latest) return;
    show(status);
    for (const id of ["board", "acts"]) $(id).hidden = false;
    $("login").hidden = true;
    // The figures change with every second, the plots hardly.
    if (round % 3 === 0) {
      const board = await ask("/api/board");
      if (own !== latest) return;
      showBoard(board);
    }
    round += 1;
    if ($("notice").dataset.gone) { notice(""); delete $("notice").dataset.gone; }
  } catch (error) {
    if (own !== latest) return;
    if (error.status === 401) {
      for (const id of ["board", "acts"]) $(id).hidden = true;
      $("login").hidden = false;
      round = 0;
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
