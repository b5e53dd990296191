//! `spoor demo`: the whole journey on a built-in web, offline.

mod web;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use spoor::config::Config;
use spoor::corpus::report;
use spoor::crawl::pipeline::{Control, End};
use spoor::daemon::{self, Summary};
use spoor::outputs;
use spoor::settings::StrategyKind;
use spoor::topic::strategy;
use tokio::net::TcpListener;

use super::exit;
use super::progress::Progress;
use web::DemoWeb;

/// The demo's job file, the same as in `config/`.
const JOB: &str = include_str!("../../../config/demo.toml");

/// Its topic.
const TOPIC: &str = "lighthouses";

/// Train and crawl the built-in web.
#[derive(Debug, Args)]
pub struct Demo {
    /// Start over: remove the results of an earlier demo.
    #[arg(long)]
    fresh: bool,
}

impl Demo {
    /// Returns the exit code.
    pub fn run(self) -> Result<u8> {
        let runtime = daemon::runtime()?;
        let web = Arc::new(DemoWeb::read(TOPIC)?);
        let serving = "serving the built-in web on 127.0.0.1";
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.context(serving)?;
        let address = listener.local_addr().context(serving)?;
        // The task ends with the runtime.
        runtime.spawn(axum::serve(listener, web.router()).into_future());
        let focused = job(StrategyKind::Learn, address)?;
        let plain = job(StrategyKind::Unfocused, address)?;
        if self.fresh {
            for folder in [
                &focused.job_folder(),
                &plain.job_folder(),
                &focused.model_folder(),
            ] {
                remove(folder)?;
            }
        }
        write_texts(&focused, &web.texts)?;
        println!(
            "A web of {} pages, {} of them about {}, is served\non http://{}.",
            web.pages,
            web.on_topic.len(),
            TOPIC,
            address
        );
        let mut lines = Vec::new();
        let mut focus = None;
        let mut code = 0;
        for config in [&focused, &plain] {
            let label = if strategy::prefers(config.strategy.kind) {
                "focused"
            } else {
                "unfocused"
            };
            let mut progress = Progress::crawl(config, Some(label));
            let control = Control::default();
            let handle = daemon::control_handle(config, &control);
            let crawled = daemon::crawl(config, runtime.handle(), &mut progress, control, handle);
            progress.finish();
            let summary = crawled?;
            lines.push(line(config, &summary, &web)?);
            focus = focus.or(Some(summary.focus));
            if summary.end == End::Stopped {
                println!("Stopped; run the demo again to continue.");
                code = exit::of_crawl(&summary);
                break;
            }
        }
        println!("\nstrategy   requests  on topic  share  images kept  seconds");
        for line in lines {
            println!("{line}");
        }
        if let Some(focus) = focus {
            println!("\n{}", focus.sentence(TOPIC));
        }
        print_end(&focused)?;
        Ok(code)
    }
}

/// Writes the report of the focused crawl and lists the results and suggestions for what
/// to try next.
fn print_end(focused: &Config) -> Result<()> {
    let results = focused.job_folder();
    let report = report::report(std::slice::from_ref(focused), None)?;
    let html = report.write(&results.join("report"))?;
    println!("\nThe report of the focused crawl, to open in a browser:");
    println!("  {}", address(&html));
    println!("Its results:");
    for (what, place) in [
        (
            "images, each with the words around it",
            results.join("images"),
        ),
        ("the text of each page", results.join("documents")),
        ("one line per request", results.join("logs/crawl.jsonl")),
        ("the model", focused.model_folder()),
    ] {
        println!("  {what:<37}  {}", place.display());
    }
    let job = results.join("job.toml");
    let job = job.display();
    println!("Next:");
    for (command, what) in [
        (
            format!("spoor export {job} --text"),
            "the text of its pages as a corpus",
        ),
        (
            "spoor crawl --seed URL --contact YOUR-ADDRESS".to_owned(),
            "a crawl of the web itself, from a page about your topic",
        ),
        (
            "spoor demo --fresh".to_owned(),
            "the same from the beginning",
        ),
    ] {
        println!("  {command}\n      {what}");
    }
    Ok(())
}

/// The address of a file, for a browser.
fn address(file: &Path) -> String {
    let whole = std::fs::canonicalize(file).ok();
    let url = whole.and_then(|whole| url::Url::from_file_path(whole).ok());
    url.map_or_else(|| file.display().to_string(), String::from)
}

/// The demo's job with one strategy, at the address of its web. The unfocused one is kept
/// separately for comparison and shares the model.
fn job(kind: StrategyKind, web: SocketAddr) -> Result<Config> {
    let text = format!("{JOB}\n[strategy]\nkind = \"{}\"\n", kind.name())
        .replace("127.0.0.1:8080", &web.to_string());
    let text = if strategy::prefers(kind) {
        text
    } else {
        text.replace("name = \"lighthouses\"", "name = \"lighthouses-unfocused\"")
    };
    let model = "\n[model]\nname = \"lighthouses\"\n";
    Ok(Config::parse(
        &format!("{text}{model}"),
        "config/demo.toml",
    )?)
}

fn line(config: &Config, summary: &Summary, web: &DemoWeb) -> Result<String> {
    let urls = outputs::fetched_pages(&config.job_folder())?;
    let found: HashSet<&String> = urls
        .iter()
        .filter(|url| web.on_topic.contains(*url))
        .collect();
    Ok(format!(
        "{:<10} {:>8}  {:>8} {:>5.0}%  {:>11}  {:>7.1}",
        config.strategy.kind.name(),
        urls.len(),
        found.len(),
        found.len() as f64 / (urls.len() as f64).max(1.0) * 100.0,
        summary.status.images,
        summary.status.active_seconds
    ))
}

/// Writes the training texts as a user would provide them: one file per document.
fn write_texts(config: &Config, texts: &[(String, Vec<u8>)]) -> Result<()> {
    let lists = [
        (config.train.positive.as_slice(), "positive/"),
        (config.train.neutral.texts(), "neutral/"),
    ];
    for (sources, kind) in lists {
        let folder = PathBuf::from(sources.first().map(ToString::to_string).unwrap_or_default());
        // Otherwise texts of an earlier version would be used for training as well.
        remove(&folder)?;
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        for (name, text) in texts {
            let Some(file) = name.strip_prefix(kind) else {
                continue;
            };
            let path = folder.join(file);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}
