
// All machines ---------------------------------------------------------------------------
//
// This part is only sent if several machines crawl the job.

const MACHINES = [
  ["machine", ""], ["state", ""], ["parts of the hosts", "num less"], ["requests", "num less"],
  ["pages", "num"], ["a minute", "num"], ["queued", "num less"], ["checkpoint", "num"],
];
const isLive = (m) => m.state === "live" || m.state === "leaving";

function clusterSection() {
  const section = element("section", null, null, { id: "cluster", class: "full", "aria-labelledby": "h-cluster" });
  element("h2", "All machines", section, { id: "h-cluster" });
  element("p", null, section, { id: "cluster-note" });
  const table = element("table", null, element("div", null, section, { class: "scroll" }));
  const head = element("tr", null, element("thead", null, table));
  for (const [name, kind] of MACHINES) element("th", name, head, { scope: "col", class: kind });
  element("tbody", null, table, { id: "machines" });
  element("div", null, section, { id: "cluster-trouble", role: "status" });
  element("div", null, section, { id: "cluster-limits" });
  const own = element("p", null, null, { id: "own", class: "full" });
  $("over").after(section, own);
  element("span", null, $("title"), { id: "node" });
  $("sure-title").textContent = "Stop this machine?";
  $("sure").querySelector("p").textContent = "Open requests are finished first. Then its hosts go to the other machines, and they continue without it.";
}

function machineRow(kind, cells) {
  const line = element("tr", null, $("machines"), { class: kind });
  return cells.map((text, i) => element("td", text, line, { class: MACHINES[i][1] }));
}

function stateOf(m) {
  if (isLive(m) && !m.now) return "no answer";
  if (m.state === "live" && m.now.stage !== "running") return STATES[m.now.stage] ?? m.now.stage;
  return m.state === "live" ? (m.idle ? "nothing to do" : "crawling") : m.state === "leaving" ? "ends" : m.state;
}

function showCluster(cluster) {
  const live = cluster.sessions.filter(isLive);
  const earlier = cluster.sessions.filter((m) => !isLive(m));
  const own = cluster.sessions.find((m) => m.this);
  const plural = (n, word) => `${number.format(n)} ${word}${n === 1 ? "" : "s"}`;
  $("cluster-note").textContent = `${plural(live.length, "machine")} ${live.length === 1 ? "crawls" : "crawl"} this job together.`
    + (cluster.waiting_cells ? ` ${number.format(cluster.waiting_cells)} of ${plural(cluster.cells, "part")} of the hosts ${cluster.waiting_cells === 1 ? "has" : "have"} no machine at this moment.` : "");
  $("machines").replaceChildren();
  for (const m of live) {
    const now = m.now;
    const figure = (f) => (now ? f(now) : "–");
    const [name, state] = machineRow(m.this ? "this" : "", [
      null, stateOf(m), number.format(m.cells), number.format(m.fetches), number.format(m.pages),
      figure((n) => rate(n.pages_a_minute)), figure((n) => number.format(n.queued)),
      figure((n) => (n.checkpoint_age_seconds == null ? "–" : `${duration(n.checkpoint_age_seconds)} ago`)),
    ]);
    element("bdi", m.machine, name);
    if (m.this) element("span", " (this one)", name, { class: "mark" });
    if (!now) state.classList.add("silent");
  }
  const sum = (all, key) => all.reduce((total, m) => total + m[key], 0);
  if (earlier.length)
    machineRow("earlier", [`earlier: ${number.format(earlier.length)}`, "ended", "", number.format(sum(earlier, "fetches")), number.format(sum(earlier, "pages")), "", "", ""]);
  const { sums } = cluster;
  machineRow("sum", ["together", "", number.format(cluster.cells - cluster.waiting_cells), number.format(sums.fetches), number.format(sums.pages), rate(sums.pages_a_minute), number.format(sums.queued), ""]);
  $("cluster-trouble").replaceChildren();
  for (const m of live) if (m.problem) element("p", m.problem, $("cluster-trouble"));
  clusterLimits(cluster.limits);
  if (!own) return;
  $("node").textContent = `on machine ${own.machine}`;
  $("own").textContent = `The figures below are those of this machine alone, ${own.machine}, and of the hosts that it has now.`;
  if (!ended) $("h-head").textContent = "This machine so far";
}

function clusterLimits(limits) {
  const list = $("cluster-limits");
  list.replaceChildren();
  const amount = (key, n) => (key === "bytes" ? bytes(n) : key === "time" ? duration(n) : number.format(n));
  for (const { key, of, done } of limits) {
    const name = key.replace("limits.", "");
    const row = element("div", null, list, { class: "limit" });
    const words = `${amount(name, done)} of ${amount(name, of)} ${name === "time" ? "since the first machine began" : LIMITS[name] ?? name}`;
    element("span", words, row);
    element("span", done >= of ? "reached" : "", row);
    element("progress", null, row, { max: of, value: Math.min(done, of), "aria-label": words });
  }
  if (!limits.length) element("p", "The job has no limit: it continues until nothing is left for any machine.", list, { class: "none" });
}

// Less often than the figures of this machine: the others report only every ten seconds.
async function refreshCluster() {
  if (ended) return;
  if (!$("board").hidden) {
    try {
      showCluster(await ask("/api/cluster"));
    } catch (error) {
      // If this machine does not respond, the page already says so.
      if (error instanceof Refusal && error.status !== 401) {
        $("cluster-trouble").replaceChildren();
        element("p", error.message, $("cluster-trouble"));
      }
    }
  }
  setTimeout(refreshCluster, $("board").hidden ? 500 : document.hidden ? 30000 : 5000);
}

clusterSection();
refreshCluster();
