//! `spoor takedown JOB.toml --url URL | --host HOST | --sha256 HEX`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use spoor::address::PageUrl;
use spoor::clock::now;
use spoor::config::Config;
use spoor::corpus::takedown::{Request, take_down};
use spoor::sanitize;
use spoor::web::scope::{HostRange, Sha256Hex, Target};

/// Remove samples from a job, and never fetch them again.
#[derive(Debug, Args)]
pub struct Takedown {
    /// The job's TOML file.
    job: PathBuf,
    /// An address, as a page and as an image, with either scheme.
    #[arg(long, value_name = "URL")]
    url: Vec<PageUrl>,
    /// A host at its port, as www.example.org or 127.0.0.1:8080; *.example.org is
    /// that domain and all hosts below it, at any port.
    #[arg(long, value_name = "HOST")]
    host: Vec<HostRange>,
    /// All images with these bytes, at any address.
    #[arg(long, value_name = "HEX")]
    sha256: Vec<Sha256Hex>,
    /// The reason, kept in the list of takedowns and in the receipt.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only show what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Print the receipt as JSON.
    #[arg(long)]
    json: bool,
}

impl Takedown {
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.job)?;
        let urls = self.url.into_iter().map(Target::Url);
        let hosts = self.host.into_iter().map(Target::Host);
        let bytes = self.sha256.into_iter().map(Target::Sha256);
        let request = Request {
            targets: urls.chain(hosts).chain(bytes).collect(),
            reason: self.reason,
            dry_run: self.dry_run,
        };
        let (receipt, path) = take_down(&config, &request, now())?;
        if self.json {
            println!(
                "{}",
                sanitize::json(&serde_json::to_string_pretty(&receipt)?)
            );
            return Ok(());
        }
        print!("{receipt}");
        if let Some(path) = path {
            println!("receipt: {}", path.display());
        }
        Ok(())
    }
}
