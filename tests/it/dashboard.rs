//! The dashboard of a running crawl in a real browser, and its metrics for Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use spoor_lab::{Lab, picture};

use super::browser::{Browser, can_browse, installed};
use super::control_api::{TOKEN, socket, start, status, tcp};
use crate::support::process::GUARD;
use crate::support::texts::{page, plain, some, topical, tree};
use crate::support::{Job, JobText, Wire};

/// Hostile image texts: markup, terminal control characters, and changes of the reading direction.
const HOSTILE: [&str; 4] = [
    "<script>window.owned = 1</script>",
    "<img src=x onerror=\"window.owned = 1\">",
    "\"'><svg onload=window.owned=1> \u{1b}[2J\u{1b}]0;owned\u{7}",
    "\u{202e}gnp.live\u{2066} &lt;b&gt;",
];

/// The file names are hostile too.
const FILE: &str = "/%3Cimg%20src=x%20onerror=window.owned=1%3E";

/// A host with so many pages that a crawl with pauses of a second outlasts the test, and others
/// with images whose words are hostile.
fn web() -> Wire {
    let escaped = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        text.replace('"', "&quot;")
    };
    let shown = |n: usize| {
        let src = format!("http://i{n}.test{FILE}{n}.png");
        let (words, hostile) = (some(topical(), n * 3, 1), escaped(HOSTILE[n]));
        match n {
            0 => format!(
                "<figure><img src=\"{src}\"><figcaption>{words} {hostile}</figcaption></figure>"
            ),
            _ => format!("<p><img src=\"{src}\" alt=\"{words} {hostile}\"> {words}</p>"),
        }
    };
    let mut front = vec![some(topical(), 0, 6)];
    front.extend((0..HOSTILE.len()).map(shown));
    let links: Vec<String> = (0..600).map(|i| format!("/{i}")).collect();
    front.extend(links.iter().map(|to| format!("<a href=\"{to}\">{to}</a>")));
    let title = format!("Lights {}", escaped(HOSTILE[0]));
    let mut web = tree(&[
        ("a.test/", page(&title, "", &front)),
        ("c.test/", plain(&[], &[])),
    ]);
    for path in &links {
        web.insert_as("a.test", path, "text/html", plain(&[path], &[]));
    }
    for n in 0..HOSTILE.len() {
        let url = format!("http://i{n}.test{FILE}{n}.png");
        let bytes = picture::draw(&url, 320, 240).unwrap().bytes;
        // The tree has decoded names.
        let path = format!("/<img src=x onerror=window.owned=1>{n}.png");
        web.insert(&format!("i{n}.test"), &path, bytes);
    }
    Wire::serve(Lab::from_memory(web))
}

fn job(wire: &Wire, control: &str) -> Job {
    let rest = format!("[control]\nlisten = \"127.0.0.1:0\"\n{control}\n");
    let text = JobText {
        seeds: &["http://a.test/"],
        politeness: "min_delay = 1\ndelay_factor = 0\nretries = 0",
        rest: &rest,
        ..JobText::default()
    };
    Job::new(wire, &text)
}

/// Polls the status until `so` is true.
fn wait_for(job: &Job, what: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + GUARD;
    loop {
        let status = status(job);
        if so(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{what} never came: {status}");
    }
}

fn in_a_browser(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}

/// The figure next to a name.
fn figure(name: &str) -> String {
    format!(
        "Number([...document.querySelectorAll('#speed dt')].find(d => d.textContent === '{name}')?.nextSibling.textContent.replaceAll(',', ''))"
    )
}

#[test]
fn a_crawl_is_watched_and_steered_in_a_browser() {
    if !can_browse() {
        return;
    }
    let wire = web();
    let job = job(&wire, "");
    let (live, address) = start(&job);
    in_a_browser(async {
        let browser = Browser::open().await;
        browser.goto(&format!("http://{address}/")).await;
        browser.see("#board:not([hidden])").await;
        let before = browser.until(&figure("pages")).await;
        assert_eq!(
            browser.js("return document.title").await,
            "crawling: job - spoor"
        );
        let before = before.as_u64().unwrap();
        let more = format!("{0} > {before} && {0}", figure("pages"));
        let later = browser.until(&more).await.as_u64().unwrap();
        assert!(status(&job)["pages"].as_u64().unwrap() >= later);
        browser.see("#focus-plot .dot").await;
        browser.see("#curve-plot .dot").await;
        browser
            .until("document.querySelector('#best td')?.textContent === 'a.test'")
            .await;
        gallery(&browser).await;

        steer(&browser, &job, &wire).await;

        // On a phone nothing is wider than the screen, and buttons are large enough.
        browser.be_a_phone().await;
        browser.until("innerWidth === 390").await;
        let beyond = "[...document.querySelectorAll('body *')].filter(e => { \
             const r = e.getBoundingClientRect(); \
             return r.width && (r.left < 0 || r.right > innerWidth) }).length";
        let small = "[...document.querySelectorAll('#acts button')].filter(b => { \
             const h = b.getBoundingClientRect().height; return h && h < 44 }).length";
        let sizes = format!("return [document.documentElement.scrollWidth, {beyond}, {small}]");
        assert_eq!(browser.js(&sizes).await, json!([390, 0, 0]));

        assert_eq!(browser.complaints().await, [""; 0]);
        // An injected script would be noticed, so the check above means something.
        let intrude = "const s = document.createElement('script'); \
             s.textContent = 'window.owned = 1'; document.body.append(s); return !!window.owned";
        assert_eq!(browser.js(intrude).await, false);
        let said = browser.complaints().await;
        assert!(
            said.iter().any(|s| s.contains("Content Security Policy")),
            "{said:?}"
        );

        browser.click("#stop").await;
        browser.click("#sure-no").await;
        assert_eq!(status(&job)["state"], "running");
        browser.click("#stop").await;
        browser.click("#sure-yes").await;
        // The page stays open after the crawl, and says how it ended.
        browser.see("#over:not([hidden])").await;
        let script = "return [document.getElementById('state').textContent, \
             document.getElementById('notice').hidden, \
             document.getElementById('acts').hidden, \
             document.querySelectorAll('#pages .verdict').length > 0, \
             document.querySelector('#next code').textContent.startsWith('spoor report ')]";
        assert_eq!(
            browser.js(script).await,
            json!(["stopped", true, true, true, true])
        );
        browser
            .until("document.getElementById('h-over').textContent.startsWith('Stopped: ')")
            .await;
        // It may have made one more request when the server was gone.
        let mut complaints = browser.complaints().await;
        complaints.retain(|said| !said.contains("ERR_CONNECTION_REFUSED"));
        assert_eq!(complaints, [""; 0]);
    });
    assert!(
        live.ended()
            .stopped()
            .contains("continues where it stopped")
    );
}

/// The images are shown, encoded again, and their words are text.
async fn gallery(browser: &Browser) {
    let n = HOSTILE.len();
    browser
        .until(&format!(
            "document.querySelectorAll('#images img').length === {n}"
        ))
        .await;
    let text = browser
        .js("return document.getElementById('images').textContent")
        .await;
    let text = text.as_str().unwrap();
    for part in [
        "<script>window",
        "<img src=x",
        "<svg onload",
        "\\u{202e}gnp.live",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        !text.contains(['\u{1b}', '\u{202e}', '\u{2066}']),
        "{text:?}"
    );
    let made = browser
        .js("return [window.owned === undefined, document.title, \
             document.querySelectorAll('script').length, \
             [...new Set([...document.querySelectorAll('#images *')].map(e => e.tagName))].sort(), \
             [...document.querySelectorAll('img')].every(i => new URL(i.src).pathname.startsWith('/dashboard/image/'))]")
        .await;
    assert_eq!(
        made,
        json!([true, "crawling: job - spoor", 1, ["IMG", "LI", "P"], true])
    );
    let served = "const done = arguments[arguments.length - 1]; \
         const ask = async i => { const a = await fetch(i.src); \
         const b = new Uint8Array(await a.arrayBuffer()); \
         return [a.status, a.headers.get('content-type'), b[0], b[1], b[2]] }; \
         Promise.all([...document.querySelectorAll('#images img')].map(ask)).then(done)";
    let served = browser.client.execute_async(served, vec![]).await.unwrap();
    let jpeg = json!([200, "image/jpeg", 0xff, 0xd8, 0xff]);
    assert_eq!(served, Value::Array(vec![jpeg; n]));
}

/// Pauses, resumes and adds seeds.
async fn steer(browser: &Browser, job: &Job, wire: &Wire) {
    browser.click("#pause").await;
    browser.see("#state.paused").await;
    assert_eq!(status(job)["state"], "paused");
    browser
        .until("document.getElementById('pause').hidden")
        .await;
    browser.click("#seed").await;
    let urls = browser.see("#urls").await;
    let hostile = format!("http://c.test/\n{}", HOSTILE[1]);
    urls.send_keys(&hostile).await.unwrap();
    browser.click("#seeds-form button[type=submit]").await;
    browser.see("#seeded li + li").await;
    let script = "return [...document.querySelectorAll('#seeded li')].map(l => l.textContent)";
    let results = browser.js(script).await;
    assert_eq!(results[0], "http://c.test/: added");
    assert!(
        results[1]
            .as_str()
            .unwrap()
            .contains(&format!("{}: refused", HOSTILE[1])),
        "{results}"
    );
    let made = "return document.querySelectorAll('#seeded li *').length";
    assert_eq!(browser.js(made).await, 0);
    assert_eq!(status(job)["queued"]["seed"], 1);
    browser.click("#seeds-close").await;
    browser.click("#resume").await;
    browser.see("#state.running").await;
    assert_eq!(status(job)["state"], "running");
    wire.wait_for("c.test/");
}

#[test]
fn a_killed_crawl_is_not_shown_as_ended() {
    if !can_browse() {
        return;
    }
    let wire = web();
    let rest = "[control]\n";
    let text = JobText {
        seeds: &["http://a.test/"],
        politeness: "min_delay = 1\ndelay_factor = 0\nretries = 0",
        rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let (mut live, link) = start(&job);
    in_a_browser(async {
        let browser = Browser::open().await;
        browser.goto(&format!("http://{link}")).await;
        // The link logs in, and its token disappears from the address.
        browser.see("#board:not([hidden])").await;
        let url = browser.client.current_url().await.unwrap();
        assert_eq!(url.fragment(), None, "{url}");
        browser.see("#first:not([hidden]) li.done").await;
        browser.see("#pages .verdict").await;
        assert!(live.kill());
        browser.see("#state.gone").await;
        let script = "return [document.getElementById('over').hidden, \
             document.getElementById('acts').hidden, \
             document.getElementById('notice').textContent.includes('does not answer'), \
             document.querySelectorAll('#pages .verdict').length > 0]";
        assert_eq!(browser.js(script).await, json!([true, true, true, true]));
    });
}

#[test]
fn the_page_asks_for_the_token_and_answers_to_no_other_name() {
    let wire = web();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, TOKEN).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let job = job(&wire, &format!("token_file = {path:?}"));
    let (_live, address) = start(&job);
    for part in ["/", "/dashboard.js", "/dashboard.css", "/dashboard.svg"] {
        let line = format!("GET {part}");
        let answer = tcp(&address, &line, "", "");
        assert_eq!(answer.status, 200, "{part}");
        assert!(!answer.body.contains("a.test"), "{part}");
        tcp(&address, &line, "Host: evil.test\r\n", "").refused(403);
    }
    for part in ["/api/board", "/api/end", "/metrics", "/dashboard/image/0"] {
        tcp(&address, &format!("GET {part}"), "", "").refused(401);
    }
    if !can_browse() {
        return;
    }
    in_a_browser(async {
        let browser = Browser::open().await;
        browser.goto(&format!("http://{address}/")).await;
        let field = browser.see("#login:not([hidden]) #token").await;
        assert_eq!(
            browser
                .js("return document.getElementById('board').hidden")
                .await,
            true
        );
        field.send_keys("wrong").await.unwrap();
        browser.click("#login button").await;
        browser
            .until("document.getElementById('notice').textContent.includes('the token is wrong')")
            .await;
        field.clear().await.unwrap();
        field.send_keys(TOKEN).await.unwrap();
        browser.click("#login button").await;
        browser.see("#board:not([hidden])").await;
        browser
            .until("document.getElementById('login').hidden")
            .await;
        browser
            .until("document.getElementById('notice').hidden")
            .await;
        // The session is known from now on.
        browser.client.refresh().await.unwrap();
        browser.see("#board:not([hidden])").await;
        assert_eq!(browser.js("return document.cookie").await, "");
    });
}

/// The samples of a scrape: name, labels and value.
fn samples(text: &str) -> Vec<(&str, BTreeMap<&str, &str>, f64)> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line| -> Option<_> {
        let (series, value): (&str, &str) = str::rsplit_once(line, ' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        // No label value of spoor contains a comma.
        let pairs = labels.trim_end_matches('}').split(',');
        let pairs = pairs.filter_map(|pair| pair.split_once('='));
        let labels = pairs.map(|(k, v)| (k, v.trim_matches('"'))).collect();
        Some((name, labels, value.parse().unwrap()))
    };
    rows.map(|line| sample(line).unwrap_or_else(|| panic!("{line}")))
        .collect()
}

#[test]
fn a_scrape_agrees_with_the_log_and_has_the_series_of_the_panels() {
    let wire = web();
    // Most hosts have no tdmrep.json, which is not a failure.
    let job = job(&wire, "[consent]\ntdmrep = true");
    let (_live, _) = start(&job);
    wait_for(&job, "an image", |s| s["images"].as_u64() > Some(0));
    wait_for(&job, "a page", |s| s["pages"].as_u64() > Some(2));
    let scrape = || socket(&job, "GET /metrics", "").body;
    let running = scrape();
    assert!(
        running.lines().any(|line| line == "spoor_paused 0"),
        "{running}"
    );
    // Labels may get new values after the first scrape, so also cause a failure.
    let seeds = json!({"urls": ["http://gone.test/"]}).to_string();
    socket(&job, "POST /api/seeds", &seeds).json();
    wait_for(&job, "a failure", |s| {
        !s["errors"].as_object().unwrap().is_empty()
    });
    socket(&job, "POST /api/pause", "").json();
    let still = wait_for(&job, "rest", |s| s["in_flight"] == 0);
    socket(&job, "POST /api/checkpoint", "").json();
    let text = scrape();
    let all = samples(&text);
    let value = |name: &str, labels: &[(&str, &str)]| -> f64 {
        let fits = |l: &BTreeMap<&str, &str>| labels.iter().all(|(k, v)| l.get(k) == Some(v));
        let found = all.iter().filter(|(n, l, _)| *n == name && fits(l));
        let values: Vec<f64> = found.map(|(.., v)| *v).collect();
        assert!(!values.is_empty(), "{name} {labels:?} is not in {text}");
        values.iter().sum()
    };

    // Counters must agree with the log.
    let log = job.log();
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let mut logged: BTreeMap<[String; 3], f64> = BTreeMap::new();
    for row in &log {
        *logged
            .entry(["kind", "outcome", "reason"].map(|key| word(row, key)))
            .or_default() += 1.0;
    }
    let counted: BTreeMap<[String; 3], f64> = all
        .iter()
        .filter(|(name, ..)| *name == "spoor_tasks_total")
        .map(|(_, l, v)| {
            (
                ["kind", "outcome", "reason"].map(|key| l[key].to_owned()),
                *v,
            )
        })
        .collect();
    assert_eq!(counted, logged);
    assert!(
        logged
            .keys()
            .any(|[kind, _, reason]| kind == "tdmrep" && !reason.is_empty())
    );
    let failed = |[kind, _, reason]: &[String; 3]| kind != "tdmrep" && !reason.is_empty();
    let failed: f64 = logged
        .iter()
        .filter(|(key, _)| failed(key))
        .map(|(_, n)| n)
        .sum();
    let errors = still["errors"].as_object().unwrap().values();
    assert_eq!(errors.map(|n| n.as_f64().unwrap()).sum::<f64>(), failed);
    let bytes: u64 = log.iter().filter_map(|row| row["bytes"].as_u64()).sum();
    assert!(bytes > 0);
    assert_eq!(value("spoor_received_bytes_total", &[]), bytes as f64);
    for kind in ["page", "image", "robots"] {
        let rows = log.iter().filter(|row| row["kind"] == kind).count();
        assert_eq!(
            value("spoor_fetch_duration_seconds_count", &[("kind", kind)]),
            rows as f64
        );
    }
    let done = |row: &&Value| row["kind"] == "page" && row["outcome"] == "done";
    let pages = log.iter().filter(done).count() as f64;
    assert_eq!(value("spoor_extract_duration_seconds_count", &[]), pages);

    // Gauges must agree with the log and the status.
    assert_eq!(value("spoor_urls", &[("state", "done")]), pages);
    let board = socket(&job, "GET /api/board", "").json();
    let focused = &board["focus"]["total"]["focused"];
    let chosen = |row: &&Value| row["kind"] == "page" && row["bucket"] != "seed";
    let on_topic = |row: &&Value| row["on_topic"] == true;
    let fetches = log.iter().filter(chosen).count();
    let judged: Vec<&Value> = log
        .iter()
        .filter(chosen)
        .filter(|row| row.get("on_topic_probability").is_some())
        .collect();
    assert!(judged.iter().all(|row| row["on_topic"].is_boolean()));
    let sum: f64 = judged
        .iter()
        .map(|row| row["on_topic_probability"].as_f64().unwrap())
        .sum();
    let share = sum / judged.len() as f64;
    let found = log.iter().filter(chosen).filter(on_topic).count();
    assert_eq!(
        (&focused["fetches"], &focused["pages"], &focused["on_topic"]),
        (&json!(fetches), &json!(judged.len()), &json!(found))
    );
    let claimed = focused["thousandths"].as_f64().unwrap() / 1000.0 / judged.len() as f64;
    assert!((claimed - share).abs() < 1e-9, "{claimed} {share}");
    let ratio = value("spoor_on_topic_ratio", &[("chosen", "focused")]);
    assert!(found > 0 && (ratio - share).abs() < 1e-9, "{ratio} {share}");
    assert_eq!(
        (value("spoor_paused", &[]), value("spoor_leased_tasks", &[])),
        (1.0, 0.0)
    );
    // The job's maximum, or fewer if they keep the machine busy.
    let limit = value("spoor_leased_tasks_limit", &[]);
    assert!((1.0..=64.0).contains(&limit), "{limit}");
    for (bucket, n) in still["queued"].as_object().unwrap() {
        assert_eq!(
            value("spoor_queued_urls", &[("bucket", bucket)]),
            n.as_f64().unwrap()
        );
    }
    // Counters have only grown.
    for (name, labels, before) in samples(&running) {
        if name.ends_with("_total") && name.starts_with("spoor_") {
            let labels: Vec<_> = labels.into_iter().collect();
            assert!(value(name, &labels) >= before, "{name} {labels:?}");
        }
    }
    panels(&all);
    lint(&text);
}

/// Every series that a panel plots exists, by name and label values.
fn panels(all: &[(&str, BTreeMap<&str, &str>, f64)]) {
    let text = include_str!("../../config/grafana.json");
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(
        variables
            .iter()
            .any(|v| v["type"] == "datasource" && v["name"] == "datasource")
    );
    let mut asked = BTreeSet::new();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 8);
    for panel in panels {
        assert_eq!(
            panel["datasource"]["uid"], "${datasource}",
            "{}",
            panel["title"]
        );
        for target in panel["targets"].as_array().unwrap() {
            asked.insert(target["expr"].as_str().unwrap());
        }
    }
    let series = regex::Regex::new(r"\b((?:spoor|process)_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
    let label = regex::Regex::new(r#"([a-z_]+)="([^"$]*)""#).unwrap();
    let mut names = BTreeSet::new();
    for expr in asked {
        for found in series.captures_iter(expr) {
            let selector = found.get(2).map_or("", |m| m.as_str());
            let wanted: Vec<_> = label
                .captures_iter(selector)
                .map(|c| c.extract::<2>().1)
                .collect();
            let fits = |l: &BTreeMap<&str, &str>| wanted.iter().all(|[k, v]| l.get(k) == Some(v));
            let there = all.iter().any(|(name, l, _)| *name == &found[1] && fits(l));
            assert!(there, "{} of {expr}", &found[0]);
            names.insert(found[1].to_owned());
        }
    }
    assert!(names.len() >= 7, "{names:?}");
}

/// Prometheus' own linter has no complaints.
fn lint(text: &str) {
    if !installed("promtool", "prometheus") {
        return;
    }
    let check = |text: &str| {
        let mut command = Command::new("promtool");
        command.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let out = child.wait_with_output().unwrap();
        let said = [out.stdout, out.stderr].concat();
        (out.status.success(), String::from_utf8(said).unwrap())
    };
    assert_eq!(check(text), (true, String::new()));
    let (good, said) = check("# TYPE bad_counter counter\nbad_counter 1\n");
    assert!(!good && said.contains("_total"), "{said}");
}
