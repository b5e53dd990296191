//! The control sample of a focused crawl, compared with an unfocused crawl of the same web.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;
use spoor::config::Config;
use spoor::crawl::pipeline::Control;
use spoor::daemon::{self, Summary};
use spoor::settings::StrategyKind;
use spoor_lab::demo;

use crate::support::demo_job::{Silent, demo_job};

/// One request after the other and without pauses: the next request depends on what was read and
/// never on the clock, so chance is the same in every run of this test.
fn job(folder: &Path, name: &str, kind: StrategyKind, web: SocketAddr) -> Config {
    let kind = kind.name();
    let mut text = demo_job(folder, name, 300, web);
    for (pauses, none) in [
        ("concurrency = 4", "concurrency = 1"),
        (
            "min_delay = \"5ms\"",
            "min_delay = \"0ms\"\naddress_delay = \"0ms\"",
        ),
        ("max_delay = \"100ms\"", "max_delay = \"0ms\""),
        ("retries = 1", "retries = 0"),
    ] {
        assert!(text.contains(pauses), "{pauses}: {text}");
        text = text.replace(pauses, none);
    }
    let more = format!(
        "\n[strategy]\nkind = \"{kind}\"\n[model]\nname = \"demo\"\nfolder = {folder:?}\n\
         [buckets]\nboundaries = \"fixed\"\nhigh = 200\nmedium = 300\nnormal = 500\nrazor = 1500\n\
         [control_sample]\nshare = 0.2\n"
    );
    // The training texts are so uniform that the model's own boundary is below most pages about
    // lighthouses, which are at 170 to 260; other pages begin at some 400.
    Config::parse(&format!("{text}{more}"), "demo.toml").unwrap()
}

fn log(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("logs/crawl.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The demo's web is so small that a focused crawl knows nearly all of it. So the share found by
/// the control sample must be that of an unfocused crawl.
#[test]
fn the_control_sample_estimates_the_share_of_an_unfocused_crawl() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = daemon::runtime().unwrap();
    let mut web = demo::web();
    // A `Crawl-delay` would be a pause too.
    for (_, robots) in &mut web.robots {
        let lines = robots.split_inclusive('\n');
        *robots = lines.filter(|l| !l.starts_with("Crawl-delay")).collect();
    }
    let server = spoor_lab::spawn(web.lab(), SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = runtime.block_on(server).unwrap();
    let training = demo::training();
    for (name, documents) in [
        ("positive", training.positive),
        ("neutral", training.neutral),
    ] {
        let texts = folder.path().join("texts").join(name);
        std::fs::create_dir_all(&texts).unwrap();
        for (file, text) in documents {
            std::fs::write(texts.join(file), text).unwrap();
        }
    }
    let crawl = |name, kind| -> Summary {
        let config = job(folder.path(), name, kind, server.addr);
        let control = Control::default();
        let handle = daemon::control_handle(&config, &control);
        daemon::crawl(&config, runtime.handle(), &mut Silent, control, handle).unwrap()
    };
    let link = crawl("link", StrategyKind::Link);
    let plain = crawl("plain", StrategyKind::Unfocused);
    assert_eq!(crawl("again", StrategyKind::Link).focus, link.focus);
    let truth = plain.focus.focused.share().unwrap();
    let (low, high) = link.focus.control.interval().unwrap();
    // The interval is right 19 times out of 20; 1.7 times as wide, 999 times out of 1,000.
    let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0 * 1.7);
    assert!(
        (truth - middle).abs() < half,
        "{truth} in {low} to {high}: {:?}",
        link.focus
    );
    assert!(high - low < 0.3, "{low} to {high}");
    assert!(
        link.focus.gain_interval().unwrap().0 > 1.0,
        "{:?}",
        link.focus
    );
    assert_eq!(plain.focus.control.fetches, 0, "{:?}", plain.focus);

    let control = |row: &&Value| row["control"] == true;
    let rows = log(&link.folder);
    let drawn: Vec<&Value> = rows.iter().filter(control).collect();
    assert!(drawn.len() as u64 >= link.focus.control.fetches);
    assert!(
        (45..=65).contains(&drawn.len()),
        "a fifth of 300, but for the seeds: {}",
        drawn.len()
    );
    assert!(
        drawn
            .iter()
            .all(|row| row["kind"] == "page" && row["bucket"] != "seed")
    );
    assert_eq!(log(&plain.folder).iter().filter(control).count(), 0);

    // The share that each crawl claims matches the labels of the same pages.
    let labels = spoor_lab::Labels::parse(&web.labels).unwrap();
    for summary in [&link, &plain] {
        let pages: Vec<Value> = log(&summary.folder)
            .into_iter()
            .filter(|row| row["kind"] == "page" && row["bucket"] != "seed")
            .filter(|row| row["control"] != true && row.get("on_topic").is_some())
            .collect();
        let url = |row: &Value| row["url"].as_str().unwrap().to_owned();
        let right = pages
            .iter()
            .filter(|row| labels.on_topic(&url(row), demo::TOPIC))
            .count();
        let truth = right as f64 / pages.len() as f64;
        let headline = summary.focus.headline(demo::TOPIC);
        let claimed = headline.share.unwrap();
        assert_eq!(headline.pages, pages.len() as u64);
        assert!(
            (claimed - truth).abs() < 0.1,
            "{headline}, but it is {truth}"
        );
    }
    runtime.block_on(server.stop()).unwrap();
}
