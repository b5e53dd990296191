//! `spoor annotate JOB.toml [--top N] [--listen ADDRESS] [--allow-remote]`

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use spoor::config::Config;
use spoor::corpus::annotate::{self, Session};
use spoor::daemon;
use spoor::topic::model;
use tokio::net::TcpListener;

use super::serve_page;

/// Serve a page on which people judge a job's images.
#[derive(Debug, Args)]
pub struct Annotate {
    /// The job's TOML file.
    job: PathBuf,
    /// Judge the best N of the ranking; by default those of the last run, or all.
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Allow access from other machines, to everybody who has the link. There is no encryption:
    /// anyone who intercepts the traffic can read the link.
    #[arg(long)]
    allow_remote: bool,
}

impl Annotate {
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.job)?;
        let listen = self.listen;
        if !listen.ip().is_loopback() && !self.allow_remote {
            bail!(
                "--listen {listen}: other machines could reach the page, and nothing is \
                 encrypted on the way; say --allow-remote if they may"
            );
        }
        // Without a model the topic is known only by its name.
        let keywords = model::keywords_in(&config.model_folder());
        let keywords = keywords.map(|table| {
            let ranked = table.ranked().iter();
            ranked.map(|(word, _)| word.clone()).collect::<Vec<_>>()
        });
        let session = Session::open(&config, self.top)?.about(keywords.unwrap_or_default());
        daemon::runtime()?.block_on(async {
            let listener = TcpListener::bind(listen).await;
            let listener = listener.with_context(|| format!("listening on {listen}"));
            let what = format!("judging {} images", session.images());
            serve_page(listener, &what, |access, listener, stop| {
                annotate::serve(session, access, listener, stop)
            })
            .await
        })
    }
}
