//! `spoor ui [FOLDER] [--listen ADDRESS]`

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use spoor::config::Config;
use spoor::corpus::report;
use spoor::daemon::control::Entrance;
use spoor::daemon::{self, overview};
use spoor::settings::{Control, Listen};

/// The port that is tried first.
const PORT: u16 = 8460;

/// Show all jobs of a folder on one local page.
#[derive(Debug, Args)]
pub struct Ui {
    /// The folder that contains the jobs' folders.
    #[arg(default_value = "jobs", value_name = "FOLDER")]
    folder: PathBuf,
    /// Where to listen, on this machine; by default 127.0.0.1:8460, or the next free port.
    /// For an explicit address, access requires only the token in SPOOR_CONTROL_TOKEN, if
    /// it is set.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

impl Ui {
    pub fn run(self) -> Result<()> {
        let section = Control {
            listen: match self.listen {
                Some(address) if !address.ip().is_loopback() => bail!(
                    "--listen {address}: the page is for this machine only; use a tunnel (ssh -L) to see \
                     it from another one"
                ),
                Some(address) => Listen::At(address),
                None => Listen::Auto,
            },
            token_file: None,
        };
        let entrance = Entrance::open_from(&section, PORT)?.context("no port is available")?;
        daemon::runtime()?.block_on(async {
            // Before the address is printed, because its reader may stop the server.
            let mut signals = daemon::Signals::listen().context("listening for signals")?;
            println!("the jobs in {} on {}", self.folder.display(), entrance.link);
            // Scripts wait for the first line.
            std::io::stdout().flush().context("printing the address")?;
            let stop = async move {
                signals.next().await;
            };
            let served = overview::serve(self.folder, entrance, write_report, stop).await;
            served.context("serving the page")
        })
    }
}

/// Writes the report of a job when a user of the page asks for it.
fn write_report(config: Config, folder: &Path) -> Result<(), String> {
    let report = report::report(&[config.settings], None).map_err(|e| e.to_string())?;
    report.write(folder).map(|_| ()).map_err(|e| e.to_string())
}
