//! `spoor search JOB|FOLDER [QUERY] [--serve]`

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use spoor::daemon;
use spoor::sanitize;
use spoor::search::{
    self, Filters, Home, Indexer, Occurring, Request, Search as Index, SearchResult, Style, Within,
};
use tokio::net::TcpListener;

use super::index::{home, threads};
use super::screen::counted;
use super::{print_json, serve_page};

/// The port that is tried first, and how many are tried.
const PORT: u16 = 8450;
const TRIES: u16 = 10;

/// The most columns of results, also on wider terminals.
const WIDEST: usize = 100;

/// Search the documents that `spoor index` has indexed.
#[derive(Debug, Args)]
pub struct Search {
    /// A job's TOML file or folder, or the folder that `spoor corpus build` wrote.
    #[arg(value_name = "JOB|FOLDER")]
    of: PathBuf,
    /// The words, which must all occur: `light*`, `"a phrase"`, `-without`, `one OR other`,
    /// `title:word`, brackets. Without any, all documents, the newest first.
    #[arg(value_name = "QUERY")]
    query: Vec<String>,
    /// Only from this host and those below it; may be repeated.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Only in this language, as `en`; may be repeated.
    #[arg(long, value_name = "CODE")]
    language: Vec<String>,
    /// Only with this class of perplexity, as `high`; may be repeated.
    #[arg(long, value_name = "CLASS")]
    bucket: Vec<String>,
    /// Only from this day, month or year, or later.
    #[arg(long, value_name = "DATE")]
    from: Option<String>,
    /// Only from this day, month or year, or earlier.
    #[arg(long, value_name = "DATE")]
    to: Option<String>,
    /// Only with at most this perplexity.
    #[arg(long, value_name = "NUMBER")]
    max_perplexity: Option<f64>,
    /// Only where the words occur with this entity, by its name or identifier; may be
    /// repeated. Needs `spoor index --entities`.
    #[arg(long, value_name = "ENTITY")]
    with: Vec<String>,
    /// How near to the entity the words must be.
    #[arg(long, value_enum, default_value_t = Near::Sentence)]
    within: Near,
    /// Instead of documents, list the entities of this class that occur with the words, and
    /// how often.
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// Show at most this many hits.
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Skip this many hits.
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
    /// Print the hits as JSON, with counts by host, year, language and class.
    #[arg(long)]
    json: bool,
    /// Serve a page on this machine, and index new documents while it runs.
    #[arg(long, conflicts_with_all = ["query", "json", "host", "language", "bucket", "from",
        "to", "max_perplexity", "limit", "offset", "with", "within", "class"])]
    pub serve: bool,
    /// Where the page listens, on this machine; by default 127.0.0.1:8450, or the next free
    /// port.
    #[arg(long, value_name = "ADDRESS", requires = "serve")]
    listen: Option<SocketAddr>,
}

/// How near.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Near {
    /// In the same sentence.
    Sentence,
    /// In the same paragraph.
    Paragraph,
    /// In the same document.
    Document,
}

impl From<Near> for Within {
    fn from(near: Near) -> Self {
        match near {
            Near::Sentence => Self::Sentence,
            Near::Paragraph => Self::Paragraph,
            Near::Document => Self::Document,
        }
    }
}

/// The result as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    query: &'a str,
    #[serde(flatten)]
    found: &'a SearchResult,
}

impl Search {
    pub fn run(self) -> Result<()> {
        let home = home(&self.of)?;
        let _samples = home.lock()?;
        if self.serve {
            return serve(home, self.listen);
        }
        let index = Index::open(&home)?;
        let request = Request {
            query: self.query.join(" "),
            filters: Filters {
                hosts: self.host,
                languages: self.language,
                buckets: self.bucket,
                from: self.from,
                to: self.to,
                max_perplexity: self.max_perplexity,
                ..Filters::default()
            },
            offset: self.offset,
            limit: self.limit,
            facets: self.json,
            with: self.with,
            within: self.within.into(),
        };
        if let Some(class) = &self.class {
            let all = index.occurring(&request, class)?;
            if self.json {
                return print_json(&all);
            }
            for Occurring { entity, count } in all.iter().take(self.limit) {
                println!("{:>9}  {}", counted(*count), sanitize::shown(entity));
            }
            return Ok(());
        }
        let found = index.find(&request)?;
        let behind = index.behind()?;
        if behind > 0 {
            eprintln!(
                "{} KiB of documents are not indexed yet; `spoor index {}` adds them",
                counted(behind.div_ceil(1 << 10)),
                self.of.display()
            );
        }
        if self.json {
            return print_json(&Answer {
                query: &request.query,
                found: &found,
            });
        }
        let terminal = std::io::stdout().is_terminal();
        let width = console::Term::stdout().size_checked();
        let width = width.map_or(80, |(_, columns)| usize::from(columns));
        let style = Style {
            width: if terminal { width.min(WIDEST) } else { 80 },
            bold: terminal && console::colors_enabled(),
        };
        print!("{}", search::text(&found, &request, style));
        Ok(())
    }
}

fn serve(home: Home, listen: Option<SocketAddr>) -> Result<()> {
    if let Some(address) = listen.filter(|address| !address.ip().is_loopback()) {
        bail!(
            "--listen {address}: the page is for this machine only; use a tunnel (ssh -L) to see \
             it from another one"
        );
    }
    let indexer = match Indexer::open(&home, threads()) {
        Ok(indexer) => Some(indexer),
        // Another process is indexing, so this page need not.
        Err(error) if error.is_busy() => {
            eprintln!("{error}; the page shows what that has indexed");
            None
        }
        Err(error) => return Err(error.into()),
    };
    daemon::runtime()?.block_on(async {
        let what = format!("searching {}", home.folder().display());
        serve_page(bind(listen).await, &what, |access, listener, stop| {
            search::serve(home, indexer, access, listener, stop)
        })
        .await
    })
}

/// Listens on the user's address, or else on the first free port.
async fn bind(listen: Option<SocketAddr>) -> Result<TcpListener> {
    if let Some(address) = listen {
        let bound = TcpListener::bind(address).await;
        return bound.with_context(|| format!("listening on {address}"));
    }
    for port in PORT..PORT + TRIES {
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            return Ok(listener);
        }
    }
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    bound.context("listening on 127.0.0.1")
}
