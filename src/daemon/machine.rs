//! The machine's place in a cluster, if the job has one.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::control::ControlHandle;
use super::error::DaemonError;
use super::observer::Observer;
use crate::address::PageUrl;
pub use crate::cluster::Nats as Broker;
use crate::cluster::node::{self, Beginning, Commits, Joined, Node, NodeError};
use crate::config::Config;
use crate::control::StatusReports;
use crate::crawl::metrics::Metrics;
use crate::crawl::pipeline::{Crawl, CrawlError};
use crate::crawl::saved::Keeper;
use crate::frontier::Cells;

/// The pause between two steps of a machine that is leaving.
const LOOK: Duration = Duration::from_millis(20);

/// The longest time between two rounds of a cluster machine's crawl: links are received and sent
/// between rounds.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// A machine that has joined.
pub(super) type Machine = Joined<Broker>;
/// The same while it crawls.
pub(super) type Member = Node<Broker>;

/// Joins the cluster of a job, if it has one. The returned file keeps other processes out of the
/// job's folder.
///
/// # Errors
/// [`DaemonError`], if the brokers cannot be reached or the machine cannot join the cluster.
pub(super) fn join(
    config: &Config,
    runtime: &Handle,
    observer: &mut dyn Observer,
) -> Result<Option<(Machine, File)>, DaemonError> {
    if !config.cluster.is_there() {
        return Ok(None);
    }
    observer.say("joining the cluster");
    let mut say = |text: &str| observer.say(text);
    let connected = node::insist(&mut say, || connect(config, runtime));
    let broker = Arc::new(connected?);
    Ok(Some(node::join(
        broker,
        (config, config.shared()),
        runtime,
        &mut say,
    )?))
}

/// Connects to the brokers of a job's cluster.
///
/// # Errors
/// [`NodeError`], if they cannot be reached.
pub fn connect(config: &Config, runtime: &Handle) -> Result<Broker, NodeError> {
    let section = &config.cluster;
    let servers = section.brokers.iter();
    let place = crate::cluster::Place {
        servers: servers.map(|server| server.as_str().to_owned()).collect(),
        job: config.job.name.as_str().to_owned(),
        replicas: section.replicas,
        credentials: section.credentials.clone(),
    };
    Ok(runtime.block_on(Broker::connect(place))?)
}

/// The brokers of a job's cluster that do not respond, each with the reason.
pub fn silent_brokers(config: &Config, runtime: &Handle) -> Vec<(String, String)> {
    let servers = config.cluster.brokers.iter();
    let servers: Vec<_> = servers.map(|server| server.as_str().to_owned()).collect();
    runtime.block_on(crate::cluster::silent_servers(&servers))
}

/// Makes the machine's cluster available to requests, and reports the machine's status to the
/// others until the result is dropped.
pub(super) fn show(machine: &Machine, runtime: &Handle, desk: &ControlHandle) -> StatusReports {
    desk.join_cluster(
        machine.engine(),
        machine.session().clone(),
        machine.standing(),
    );
    desk.report_status(runtime)
}

/// The initial content of each part of the frontier.
pub(super) fn beginning(config: &Config, seeds: &[PageUrl]) -> Beginning {
    let watched = config.seeds.watch.iter();
    Beginning {
        seeds: seeds.to_vec(),
        watched: watched.map(|w| (w.url.clone(), w.every)).collect(),
    }
}

/// Continues with the cells that the machine has, alongside their crawl.
///
/// # Errors
/// [`DaemonError`] if the store fails.
pub(super) fn member(
    machine: Machine,
    config: &Config,
    beginning: Beginning,
    (keeper, commits): (Option<Keeper>, Commits),
    (metrics, frontier): (&Metrics, &mut Cells),
) -> Result<Member, DaemonError> {
    // A store of several cells logs its changes, so it has a keeper.
    let keeper = keeper.ok_or_else(NodeError::no_store)?;
    let with = (metrics.clone(), frontier);
    Ok(Node::new(
        machine,
        config,
        beginning,
        (keeper, commits),
        with,
    )?)
}

/// Applies the wanted state of the cluster to this machine, and shares requests to this machine
/// with all others. `config` is the machine's own.
pub(super) fn obey(member: &mut Member, desk: &ControlHandle, runtime: &Handle, config: &Config) {
    if let Some(reader) = member.wanted_reader() {
        let obedient = desk.share(reader.errands(), config);
        runtime.spawn(reader.run(obedient));
    }
}

/// Gives the hosts of this machine to the others when its crawl is over.
///
/// # Errors
/// [`CrawlError`] if the store or an output fails.
pub(super) fn leave(
    handler: &mut Crawl<'_>,
    frontier: &mut Cells,
    patience: Duration,
) -> Result<(), CrawlError> {
    let has_left = handler.leave(frontier, patience, &mut || std::thread::sleep(LOOK))?;
    if !has_left {
        tracing::warn!(
            "the hosts of this machine could not be given to others in time; they take them after \
             a while, unless this machine is started again first and continues with them"
        );
    }
    Ok(())
}
