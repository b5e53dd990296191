//! Which machine has a host, and what it knows of it: for `spoor explain` and `spoor host`.

use std::path::Path;

use anyhow::{Result, bail};
use spoor::address::HostKey;
use spoor::config::Config;
use spoor::crawl::cluster::SessionId;
use spoor::crawl::frontier::CellCount;
use spoor::daemon::control::{Client, ControlError};

use super::Asked;

/// The machine that has a host.
pub struct Owner {
    asked: Asked,
    session: SessionId,
}

impl Owner {
    /// Finds it by the keys at the brokers, so that it does not matter where this is asked.
    ///
    /// # Errors
    /// Says who will have the host where nobody has it now.
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
        if let Some(session) = survey.owner_of(cell).cloned() {
            return Ok(Self { asked, session });
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

    /// Asks it.
    ///
    /// # Errors
    /// Names the machine that does not answer.
    pub fn ask<T, F>(&self, question: impl FnOnce(Client) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, ControlError>>,
    {
        let client = self.asked.client_of(&self.session);
        Ok(self.asked.runtime.block_on(question(client))?)
    }
}
