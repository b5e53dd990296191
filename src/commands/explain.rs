//! `spoor explain JOB.toml URL`, `spoor host JOB.toml NAME`

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, bail};
use spoor::address::{HostKey, PageUrl};
use spoor::clock::{now, timestamp};
use spoor::config::Config;
use spoor::crawl::checkpoint::{self, OpenError};
use spoor::daemon;
use spoor::daemon::control::Client;
use spoor::daemon::explain::{self, Explanation, HostReport, Known};
use spoor::frontier::view::{MAX_AHEAD, View};
use spoor::frontier::{Budget, GroupRecord, HostRecord, RobotsState, State, UrlRecord};
use spoor::frontier::{only, store};
use spoor::outputs::Sidecar;
use spoor::page::{Judged, Likelihood, TaskKind, Terms, Use};
use spoor::sanitize;
use spoor::web::scope::Scope;

use super::cluster::Owner;
use super::show;

/// The most characters of the words of an image that are printed.
const MAX_WORDS: usize = 200;

/// Prints what is known about an address: its state, why, and when it is due.
pub fn url(job: &Path, url: &str, json: bool) -> Result<()> {
    let config = Config::load(job)?;
    let url = PageUrl::parse(url)?;
    let terms = daemon::terms(&config);
    let explanation = if config.cluster.is_there() {
        let owner = owner(job, &config, &url.host_key())?;
        owner.ask(|client| async move { client.explain(&url).await })?
    } else {
        let takedowns = checkpoint::takedowns(&config.job_folder())?;
        let scope = Scope::new(config.scope.clone()).with_takedowns(takedowns);
        match stopped(&config, |view| explain::url(view, &scope, &terms, &url))? {
            Some(explanation) => explanation,
            None => {
                let client = Client::new(&config.job_folder());
                daemon::runtime()?.block_on(client.explain(&url))?
            }
        }
    };
    show(json, &explanation, |explanation| {
        print(explanation, &terms.agent);
        print_terms(&config, explanation);
        print_report(&explanation.host, &config);
        print_words(&config, explanation);
        print_failure(&config, &explanation.host.host);
    })
}

/// Prints what is known about a host: its clock, its failures, its robots rules.
pub fn host(job: &Path, name: &str, json: bool) -> Result<()> {
    let config = Config::load(job)?;
    let url = PageUrl::parse(&format!("http://{name}/"))
        .with_context(|| format!("`{name}` is not a host; write it as www.example.org"))?;
    let key = url.host_key();
    let report = if config.cluster.is_there() {
        let owner = owner(job, &config, &key)?;
        owner.ask(|client| async move { client.host(&key).await })?
    } else {
        match stopped(&config, |view| explain::host(view, &key))? {
            Some(report) => report,
            None => {
                let client = Client::new(&config.job_folder());
                daemon::runtime()?.block_on(client.host(&key))?
            }
        }
    };
    show(json, &report, |report| {
        print_report(report, &config);
        print_failure(&config, &report.host);
    })
}

/// The machine of a cluster that has a host. The folder of a gathered job has no hosts.
fn owner(job: &Path, config: &Config, host: &HostKey) -> Result<Owner> {
    checkpoint::refuse_gathered(&config.job_folder())?;
    Owner::of(job, config.clone(), host)
}

/// Opens the frontier of a job that is not running, and keeps crawls from using it
/// meanwhile; `None` if the job is running.
fn stopped<T>(
    config: &Config,
    look: impl FnOnce(&View<'_>) -> Result<T, store::StoreError>,
) -> Result<Option<T>> {
    checkpoint::refuse_gathered(&config.job_folder())?;
    let folder = config.job_folder().join("frontier");
    let Some(kind) = store::backend_in(&folder) else {
        bail!(
            "{}: there is no frontier; run `spoor crawl` first",
            folder.display()
        );
    };
    let _lock = match checkpoint::lock(&config.job_folder()) {
        Err(OpenError::Busy { .. }) => return Ok(None),
        lock => lock?,
    };
    let store = only(store::open(kind, &folder)?)?;
    Ok(Some(look(&View::new(&*store))?))
}

fn print(explanation: &Explanation, agent: &str) {
    println!("canonical  {}", explanation.url);
    println!("surt       {}", explanation.surt);
    for known in &explanation.known {
        print_known(known, &explanation.host);
    }
    if explanation.known.is_empty() {
        println!("state      unknown: no page that was fetched links to it");
    }
    let by = |text: &str| match text {
        "" => String::new(),
        // The rules of a robots.txt are untrusted text.
        text => format!(", {}", sanitize::shown(text)),
    };
    let scope = &explanation.scope;
    match scope.allowed {
        Some(false) => println!("scope      outside: {}", scope.by),
        _ => println!("scope      within{}", by(&scope.by)),
    }
    print_budget(&explanation.budget);
    let robots = &explanation.robots;
    match robots.allowed {
        Some(true) => println!("robots     allowed to {agent}{}", by(&robots.by)),
        Some(false) => println!("robots     forbidden to {agent}{}", by(&robots.by)),
        None => println!("robots     not known yet{}", by(&robots.by)),
    }
}

/// Prints the terms of use: where each is stated, and what they forbid together.
fn print_terms(config: &Config, explanation: &Explanation) {
    let mut stated = explanation.stated.clone();
    let own = logged_terms(&config.job_folder(), &explanation.url);
    if let Some((time, terms)) = own {
        // The row has those of the host as it was then, and of the page or image itself.
        let known: Vec<String> = stated.iter().flat_map(|(_, terms)| terms.words()).collect();
        if terms.words().iter().any(|words| !known.contains(words)) {
            stated.push((format!("its answer of {time}"), terms));
        }
    }
    let mut seen = Vec::new();
    for (place, terms) in &stated {
        let mut new = terms.words();
        new.retain(|words| !seen.contains(words));
        let place = sanitize::shown(place);
        println!("terms      {}: {}", place, sanitize::shown(&new.join("; ")));
        seen.extend(new);
    }
    if stated.is_empty() {
        println!("terms      nothing is stated");
        return;
    }
    let all = stated.into_iter().map(|(_, terms)| terms);
    let all = all.fold(Terms::default(), Terms::then);
    let mut forbidden = Vec::new();
    for (what, name) in Use::ALL.iter().zip(["text", "images", "index", "archive"]) {
        let by = all.forbids(*what, &config.consent.obey, now());
        if !by.is_empty() {
            forbidden.push(format!("{name} by {}", by.join(", ")));
        }
    }
    match forbidden.as_slice() {
        [] => println!("forbids    nothing"),
        some => println!("forbids    {}", some.join("; ")),
    }
}

/// The time and the terms of the last row of an address at the end of the job's log.
fn logged_terms(folder: &Path, url: &PageUrl) -> Option<(String, Terms)> {
    let mark = format!("\"url\":\"{url}\"");
    end_of_log(folder)?.lines().rev().find_map(|line| {
        let row: serde_json::Value = serde_json::from_str(line)
            .ok()
            .filter(|_| line.contains(&mark))?;
        let is_answer = matches!(row["kind"].as_str(), Some("page" | "image"))
            && row["status"].as_u64().is_some_and(|status| status == 200);
        let terms = serde_json::from_value(row["terms"].clone()).unwrap_or_default();
        is_answer.then(|| (row["time"].as_str().unwrap_or_default().to_owned(), terms))
    })
}

fn print_known(known: &Known, host: &HostReport) {
    print_state(known, host);
    print_rating(known);
    print_visits(&known.record);
    if let Some(formula) = &known.formula {
        println!("score      {formula}");
    }
    print_origin(known);
}

fn print_state(known: &Known, host: &HostReport) {
    let record = &known.record;
    let state = match &record.state {
        State::Queued if known.leased => "leased: it is being fetched now".to_owned(),
        State::Queued => "queued".to_owned(),
        State::Waiting { .. } => "waiting to be retried".to_owned(),
        State::Done { id } => format!("done, number {id}"),
        State::Redirected { id, to } => format!("done, number {id}: redirected to {to}"),
        State::Dropped { reason } => format!("dropped: {}", reason.name()),
    };
    let kind = match known.kind {
        TaskKind::Image => "image",
        TaskKind::Sitemap => "sitemap",
        TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => "page",
    };
    println!("state      {kind} {state}");
    if let Some(decided) = &known.decided_by {
        println!("decided    {}", sanitize::shown(decided));
    }
    if let Some(due) = known.due {
        println!("due        {}", due_text(due, known, host));
    }
}

fn print_rating(known: &Known) {
    let record = &known.record;
    let bucket = match record.state {
        State::Dropped { .. } => "none",
        _ => record.bucket.name(),
    };
    println!(
        "rated      {:.3}, bucket {bucket}, {} hops, found as number {}",
        record.score, record.hops, record.seq
    );
    if known.control {
        println!("control    drawn at random for the control sample");
    }
    if let Some(parts) = &record.parts {
        println!(
            "parts      document {:.3}, anchor {:.3}, keyword {:.6}",
            parts.document, parts.anchor, parts.keyword
        );
    }
    if let Some(judged) = record.judged {
        println!("judged     {}", judged_text(judged));
    }
    if let Some(learned) = &known.learned {
        if let Some(likely) = learned.likely {
            println!("learned    {:.0} % likely on topic", likely * 100.0);
            if let Some(weight) = learned.weight {
                println!(
                    "           of that {:.0} % by what it has learned, {:.0} % by the formula of `link`",
                    weight * 100.0,
                    (1.0 - weight) * 100.0
                );
            }
        }
        for part in learned.parts.iter().filter(|part| part.adds != 0.0) {
            println!(
                "           {:>+7.3} by {} {:.3}",
                part.adds, part.name, part.value
            );
        }
    }
}

fn print_visits(record: &UrlRecord) {
    if let Some(visit) = &record.visit {
        if visit.last > 0 {
            println!(
                "visited    {} times, changed {} times, last {}",
                visit.visits,
                visit.changes,
                timestamp(visit.last)
            );
        }
        let rule = if visit.scheduled {
            "by its schedule"
        } else {
            "by [recrawl]"
        };
        match visit.due {
            Some(due) => println!(
                "next       {}, {:.3} s after the last, {rule}",
                timestamp(due),
                visit.interval as f64 / 1000.0
            ),
            None => println!("next       none planned"),
        }
    }
}

/// How often it failed, and where it was found.
fn print_origin(known: &Known) {
    let record = &known.record;
    if record.attempts > 0 {
        println!("failed     {} times", record.attempts);
    }
    match (record.anchor(), record.note()) {
        (Some(words), _) => println!("anchor     {}", sanitize::shown(words)),
        (None, Some(note)) => println!("kept as    {note}"),
        (None, None) => {}
    }
    match known.via.split_first() {
        None => println!("via        a seed"),
        Some((nearest, further)) => {
            println!("via        {nearest}");
            for url in further {
                println!("           {url}");
            }
        }
    }
}

/// The words of a kept image on the page that ranks it best, and which of its texts they are.
fn print_words(config: &Config, explanation: &Explanation) {
    let files = explanation.known.iter();
    let files = files.filter_map(|known| known.record.note());
    for file in files.filter(|file| file.starts_with("images/")) {
        let Ok(sidecar) = Sidecar::load(&config.job_folder(), file) else {
            continue;
        };
        if let Some(best) = sidecar.best_context()
            && let Some(words) = best.words()
        {
            let text: Vec<&str> = words.text.split_whitespace().collect();
            let text: String = text.join(" ").chars().take(MAX_WORDS).collect();
            let from = words.from.name();
            println!("words      {} ({from})", sanitize::shown(&text));
            println!("           on {}", best.page);
        }
    }
}

/// The probability that a page is on topic, and its correction.
fn judged_text(judged: Judged) -> String {
    let percent = |likely: Likelihood| format!("{:.0} %", likely.get() * 100.0);
    let text = format!("{} likely on topic by its text", percent(judged.text));
    if judged.text == judged.on_topic {
        text
    } else {
        format!(
            "{text}, corrected to {} by the targets of its links",
            percent(judged.on_topic)
        )
    }
}

/// When it is due, and what it waits for.
fn due_text(due: u64, known: &Known, host: &HostReport) -> String {
    let record = host.record.as_ref();
    let parked = record.is_some_and(|h| h.parked_until.is_some_and(|until| until > now()));
    let mut text = match due.saturating_sub(now()) {
        0 => "now".to_owned(),
        wait => format!(
            "not before {}, in {:.1} s",
            timestamp(due),
            wait as f64 / 1000.0
        ),
    };
    if known.ahead.is_some() && parked {
        text.push_str(", because its host is parked");
    } else if known.ahead.is_some() && record.is_some_and(|h| h.failures > 0) {
        text.push_str(", because its host backs off");
    }
    match known.ahead {
        Some(0) => text.push_str(", the next of its kind at its host"),
        Some(MAX_AHEAD) => text.push_str(&format!(", {MAX_AHEAD} or more before it at its host")),
        Some(n) => text.push_str(&format!(", {n} before it at its host")),
        None => {}
    }
    text
}

fn print_report(report: &HostReport, config: &Config) {
    match &report.record {
        Some(host) => print_host(&report.host, host, config),
        None => println!("host       {} was never contacted", report.host),
    }
    for (name, group) in &report.groups {
        println!("shared     {name}: {}", shared_clock(group));
    }
    if report.running {
        println!("open       {} requests", report.open);
    }
}

/// Prints the last failure of a host, if its log has one.
fn print_failure(config: &Config, host: &HostKey) {
    if let Some((time, why)) = last_failure(&config.job_folder(), host) {
        println!("failed     {time}: {}", sanitize::shown(&why));
    }
}

/// When and why a request to a host last failed, according to the end of the job's log.
fn last_failure(folder: &Path, host: &HostKey) -> Option<(String, String)> {
    let end = end_of_log(folder)?;
    let mut failed = end.lines().rev().filter(|line| line.contains("\"error\":"));
    failed.find_map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).ok()?;
        let url = PageUrl::parse(row["url"].as_str()?).ok()?;
        let why = row["error"].as_str().filter(|_| url.host_key() == *host)?;
        Some((row["time"].as_str()?.to_owned(), why.to_owned()))
    })
}

/// The last megabytes of the job's log.
fn end_of_log(folder: &Path) -> Option<String> {
    const END: u64 = 16 << 20;
    let mut log = spoor::fs::open(folder.join("logs/crawl.jsonl")).ok()?;
    let length = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(END))).ok()?;
    let mut end = Vec::new();
    log.take(END).read_to_end(&mut end).ok()?;
    Some(String::from_utf8_lossy(&end).into_owned())
}

fn shared_clock(group: &GroupRecord) -> String {
    let delay = group.delay as f64 / 1000.0;
    match (group.due.saturating_sub(now()), group.failures) {
        (wait, 1..) if wait > 0 => format!(
            "backs off until {}, after failures of several hosts",
            timestamp(group.due)
        ),
        (0, _) => format!("ready now, {delay:.3} s between requests"),
        (wait, _) => format!(
            "in {:.1} s, {delay:.3} s between requests",
            wait as f64 / 1000.0
        ),
    }
}

fn print_budget(budget: &Budget) {
    let Budget {
        prefixes,
        fetched,
        fruitful,
        left,
    } = budget;
    println!(
        "budget     {}: {} of {} pages brought something new, {} of {} in all of {}; {}",
        prefixes.narrow,
        fruitful.0,
        fetched.0,
        fruitful.1,
        fetched.1,
        prefixes.wide,
        match left {
            0 => "nothing is left".to_owned(),
            n => format!("{n} more pages without anything new are allowed"),
        }
    );
}

fn print_host(key: &HostKey, host: &HostRecord, config: &Config) {
    println!("host       {key}: {} pages fetched", host.documents);
    match host.due.saturating_sub(now()) {
        0 => println!("clock      ready now"),
        wait => println!(
            "clock      not before {}, in {:.1} s",
            timestamp(host.due),
            wait as f64 / 1000.0
        ),
    }
    println!(
        "delay      {:.3} s between requests",
        host.delay as f64 / 1000.0
    );
    if let Some(address) = host.located.as_ref().and_then(|l| l.address) {
        println!("address    {address}");
    }
    if let Some(delay) = host.crawl_delay {
        println!(
            "           {:.3} s by its robots.txt",
            delay as f64 / 1000.0
        );
        let longest = config.politeness.max_crawl_delay;
        if u128::from(delay) > longest.as_millis() {
            println!(
                "           more than politeness.max_crawl_delay ({:.0} s), so it gets no other \
                 requests;\n           with a longer one it is asked at that pace",
                longest.as_secs_f64()
            );
        }
    }
    if host.failures > 0 {
        println!("failures   {} in a row", host.failures);
    }
    if let Some(until) = host.parked_until {
        println!("parked     until {}", timestamp(until));
    }
    for (scheme, state) in ["http", "https"].into_iter().zip(&host.robots) {
        let state = match state {
            RobotsState::Unknown => continue,
            RobotsState::Awaiting => "redirected, under way".to_owned(),
            RobotsState::Known { at, missing: true } => format!("none, asked {}", timestamp(*at)),
            RobotsState::Known { at, .. } => format!("known, asked {}", timestamp(*at)),
            RobotsState::Unreachable => "unreachable: everything is forbidden".to_owned(),
        };
        println!("robots     {scheme}: {state}");
    }
}
