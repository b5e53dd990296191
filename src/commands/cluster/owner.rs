//! Which machine owns a host: for `spoor explain` and `spoor host`.

use std::path::Path;

use anyhow::{Result, bail};
use spoor::address::HostKey;
use spoor::cluster::node;
use spoor::config::Config;
use spoor::daemon::control::{Client, ControlError};
use spoor::frontier::CellCount;

use super::Asked;

/// This machine, which owns a host.
pub struct Owner {
    asked: Asked,
}

impl Owner {
    /// Reads the keys at the brokers.
    ///
    /// # Errors
    /// Names the machine that owns the host if it is another one, and says who will own it if no
    /// machine does now.
    pub fn of(job: &Path, config: Config, host: &HostKey) -> Result<Self> {
        let asked = Asked::with(job, config)?;
        let survey = &asked.survey;
        let cells = survey
            .job
            .as_ref()
            .and_then(|job| CellCount::new(job.cells));
        let Some(cells) = cells else {
            bail!(
                "no machine has begun; `spoor crawl {}` on any of them does",
                job.display()
            );
        };
        let cell = cells.cell_of(host);
        if let Some(session) = survey.owner_of(cell) {
            let node = &session.node;
            if node::name_of(&asked.config)? != *node {
                bail!("the machine `{node}` has {host}; run the command there");
            }
            return Ok(Self { asked });
        }
        if survey.live().next().is_none() {
            bail!(
                "no machine has {host} now, as none lives; what is known of it is in the checkpoints, \
                 and a machine has it again some {} s after `spoor crawl {}` is started",
                (asked.config.cluster.term * 2).as_secs(),
                job.display()
            );
        }
        bail!(
            "no machine has {host} now, because {cell} goes from one to another; ask again in some \
             {} s",
            (asked.config.cluster.term * 2).as_secs()
        )
    }

    /// Asks the crawl of this machine.
    ///
    /// # Errors
    /// Says that no crawl runs in the job's folder.
    pub fn ask<T, F>(&self, question: impl FnOnce(Client) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, ControlError>>,
    {
        let client = Client::new(&self.asked.config.job_folder());
        Ok(self.asked.runtime.block_on(question(client))?)
    }
}
