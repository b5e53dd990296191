//! The machine's place in a cluster, where the job has one.

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
use crate::control::Telling;
use crate::crawl::metrics::Metrics;
use crate::crawl::pipeline::{Crawl, CrawlError};
use crate::crawl::saved::Keeper;
use crate::frontier::Cells;

/// Between two turns of a machine that leaves.
const LOOK: Duration = Duration::from_millis(20);

/// The longest time between two rounds of the crawl of a machine of a cluster: links are read
/// and sent between them.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// A machine that has joined.
pub(super) type Machine = Joined<Broker>;
/// The same beside its crawl.
pub(super) type Member = Node<Broker>;

/// Joins the cluster of a job, if it has one. The file keeps other processes off the job's
/// folder.
///
/// # Errors
/// [`DaemonError`], where the brokers cannot be reached or the machine cannot be one of the
/// cluster.
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
/// [`NodeError`], where they cannot be reached.
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

/// The brokers of a job's cluster that do not answer, each with the reason.
pub fn silent_brokers(config: &Config, runtime: &Handle) -> Vec<(String, String)> {
    let servers = config.cluster.brokers.iter();
    let servers: Vec<_> = servers.map(|server| server.as_str().to_owned()).collect();
    runtime.block_on(crate::cluster::silent_servers(&servers))
}

/// Shows the cluster of a machine, and has the others know how its crawl is until the result is
/// dropped.
pub(super) fn show(machine: &Machine, runtime: &Handle, desk: &ControlHandle) -> Telling {
    desk.join_cluster(
        machine.engine(),
        machine.session().clone(),
        machine.standing(),
    );
    desk.tell_others(runtime)
}

/// What each part of the frontier begins with.
pub(super) fn beginning(config: &Config, seeds: &[PageUrl]) -> Beginning {
    let watched = config.seeds.watch.iter();
    Beginning {
        seeds: seeds.to_vec(),
        watched: watched.map(|w| (w.url.clone(), w.every)).collect(),
    }
}

/// Goes on with what the machine has, beside the crawl of these cells.
///
/// # Errors
/// [`DaemonError`] where the store fails.
pub(super) fn member(
    machine: Machine,
    config: &Config,
    beginning: Beginning,
    (keeper, commits): (Option<Keeper>, Commits),
    (metrics, frontier): (&Metrics, &mut Cells),
) -> Result<Member, DaemonError> {
    // A store of several cells has its changes logged, and so a keeper.
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

/// Has applied to this machine what all machines of the cluster are to do, and has it tell all what
/// it is told. `config` is its own.
pub(super) fn obey(member: &mut Member, desk: &ControlHandle, runtime: &Handle, config: &Config) {
    if let Some(reader) = member.wanted_reader() {
        let obedient = desk.share(reader.errands(), config);
        runtime.spawn(reader.run(obedient));
    }
}

/// Gives the hosts of this machine to the others, when its crawl is over.
///
/// # Errors
/// [`CrawlError`] where the store or an output fails.
pub(super) fn leave(
    handler: &mut Crawl<'_>,
    frontier: &mut Cells,
    patience: Duration,
) -> Result<(), CrawlError> {
    let has_left = handler.leave(frontier, patience, &mut || std::thread::sleep(LOOK))?;
    if !has_left {
        tracing::warn!(
            "the hosts of this machine could not be given to others in time; they take them \
             after a while, or this machine goes on with them if it is started again before"
        );
    }
    Ok(())
}
