//! Exit codes, from which a script can see how a command ended without parsing its output.

use spoor::cluster::node::NodeError;
use spoor::config::new_job::StartError;
use spoor::config::{ContactMissing, FileErrors};
use spoor::crawl::checkpoint::OpenError;
use spoor::crawl::pipeline::Stop;
use spoor::crawl::saved::SaveError;
use spoor::crawl::train::TrainError;
use spoor::daemon::control::ControlError;
use spoor::daemon::{DaemonError, Summary};
use spoor::tool_error::{ToolError, ToolFault};

/// It failed while working.
pub const FAILED: u8 = 1;
/// The command line is wrong; a query is part of it.
pub const USAGE: u8 = 2;
/// It needs a running crawl, and there is none.
const NOT_RUNNING: u8 = 3;
/// A crawl has not fetched a single page, in this run or before.
const NOTHING: u8 = 4;
/// It was refused at the start: the job file has to be changed first.
const REFUSED: u8 = 5;
/// Another spoor is using the job, or the folder that is to be written.
const BUSY: u8 = 6;
/// A crawl was stopped by Ctrl-C or over the control API; it can be continued.
const STOPPED: u8 = 130;
/// The same by SIGTERM.
const TERMINATED: u8 = 143;

/// The table for `--help` and the manual page; the guide's topic `operating` has the same
/// one.
pub const HELP: &str = "Exit codes:
  0    done: nothing is left to fetch, or a limit of the job is reached
  1    failed on the way; what was fetched is kept
  2    the command line is wrong
  3    no crawl runs (ctl, reload)
  4    a crawl has not fetched a single page; the message says why
  5    the job file has to be changed first
  6    another spoor is using the job, or the folder to write to
  130  a crawl was stopped by Ctrl-C or `spoor ctl JOB stop`; it can be continued
  143  a crawl was stopped by SIGTERM; it can be continued";

/// The exit code of a crawl that ended in good order.
pub fn of_crawl(summary: &Summary) -> u8 {
    match summary.stop {
        Some(Stop::Terminated) => TERMINATED,
        Some(Stop::Interrupted | Stop::Told) => STOPPED,
        Some(Stop::Hopeless) => FAILED,
        None if summary.status.pages == 0 && !summary.is_shared => NOTHING,
        None => 0,
    }
}

/// The exit code of a command that failed.
pub fn of_error(error: &anyhow::Error) -> u8 {
    if let Some(ControlError::NotRunning(_)) = error.downcast_ref() {
        return NOT_RUNNING;
    }
    if error.is::<FileErrors>() || error.is::<ContactMissing>() || error.is::<StartError>() {
        return REFUSED;
    }
    match error.downcast_ref().map(ToolError::fault) {
        Some(ToolFault::Usage) => return USAGE,
        Some(ToolFault::Busy) => return BUSY,
        _ => {}
    }
    let saved = match error.downcast_ref() {
        Some(DaemonError::Saved(saved)) => Some(saved),
        _ => error.downcast_ref(),
    };
    match saved {
        Some(SaveError::Alive { .. } | SaveError::Overtaken { .. }) => return BUSY,
        Some(SaveError::Open(OpenError::Busy { .. })) => return BUSY,
        Some(SaveError::OtherJob { .. }) => return REFUSED,
        _ => {}
    }
    match error.downcast_ref() {
        Some(DaemonError::Node(NodeError::Open(OpenError::Busy { .. }))) => return BUSY,
        Some(DaemonError::Node(NodeError::JobFile(_))) => return REFUSED,
        _ => {}
    }
    let open = match error.downcast_ref() {
        Some(
            DaemonError::Contact(_)
            | DaemonError::Config(_)
            | DaemonError::Boundaries(_)
            | DaemonError::Train(TrainError::TooLittle { .. }),
        ) => return REFUSED,
        Some(DaemonError::Open(open)) => Some(open),
        _ => error.downcast_ref(),
    };
    match open {
        Some(OpenError::Busy { .. }) => BUSY,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_another_spoor_uses_has_its_own_code() {
        let job = || OpenError::Busy {
            folder: "job".into(),
            pid: None,
        };
        let corpus = ToolError::busy(Path::new("corpus"), "another spoor writes it");
        for error in [
            anyhow::Error::from(job()),
            DaemonError::Open(job()).into(),
            ToolError::from(job()).into(),
            corpus.into(),
        ] {
            assert_eq!(of_error(&error), BUSY, "{error}");
        }
        assert_eq!(of_error(&ToolError::new("a problem").into()), FAILED);
        assert_eq!(of_error(&ToolError::usage("a query").into()), USAGE);
        assert_eq!(of_error(&anyhow::anyhow!("another problem")), FAILED);
    }
}
