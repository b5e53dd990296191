//! What an operator tells one machine of a cluster, for all of them.
//!
//! The machine that is told checks a request as ever, and then appends it to the log of orders.
//! It applies it when it comes back from there, as every other machine does, and answers the
//! request after that. So all machines apply the same orders one after the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::reload::{keys, merged, with};
use super::{Change, ControlError, ControlHandle, Entry, NewSeeds, SeedResult, Seeded, Who, seed};
use crate::address::PageUrl;
use crate::clock::{now, timestamp};
use crate::config::{Changed, Config};
use crate::crawl::cluster::orders::{Act, Order};
use crate::crawl::cluster::settings::Settings;
use crate::crawl::frontier::Cells;
use crate::crawl::frontier::store::StoreError;
use crate::crawl::node::{Errands, Obey, Scribe, settings_of};
use crate::settings::Politeness;

/// How long a request waits until this machine has applied it.
const APPLIED: Duration = Duration::from_secs(40);
/// How long it waits for the other machines then, and how often it looks.
const OTHERS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(200);

/// How many machines have applied a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machines {
    /// Those that have.
    pub applied: usize,
    /// All that are not known to be off.
    pub live: usize,
    /// Those that keep a more polite value of their own; see [`Kept`].
    pub keep: usize,
}

impl std::fmt::Display for Machines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.applied, self.live, self.keep)
    }
}

impl std::str::FromStr for Machines {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.split('/').map(str::parse);
        let mut next = || numbers.next().unwrap_or(Ok(0));
        Ok(Self {
            applied: next()?,
            live: next()?,
            keep: next()?,
        })
    }
}

/// The result of a request, and who has applied it where several machines crawl the job.
#[derive(Debug, Clone, PartialEq)]
pub struct Told<T> {
    /// The result on this machine.
    pub value: T,
    /// `None` where it is the only one, or the others could not be asked.
    pub machines: Option<Machines>,
}

impl<T> Told<T> {
    /// The result of a machine that crawls alone.
    pub(super) fn alone(value: T) -> Self {
        let machines = None;
        Self { value, machines }
    }
}

/// The result of an order here.
pub(super) enum Outcome {
    /// The changed keys, and whether all links are re-rated.
    Changed(Vec<Change>, bool),
    /// Whether there was something to change.
    Done(bool),
    /// The result for each seed.
    Seeded(Vec<Seeded>),
}

/// A request that waits until its order was applied.
struct Waiting {
    /// What was asked for.
    sent: Order,
    /// The job file of this machine that is to be applied.
    own: Option<Config>,
    done: oneshot::Sender<(u64, Result<Outcome, ControlError>)>,
}

/// What a machine shares its orders by.
pub(super) struct Shared {
    scribe: Arc<dyn Scribe>,
    errands: Errands,
    /// Orders up to this one have nothing to change in the configuration.
    since: u64,
    /// By the ids of the orders.
    waiting: Mutex<HashMap<String, Waiting>>,
    bounds: Mutex<Bounds>,
}

/// How far orders of other machines go here.
struct Bounds {
    /// Of the job file of this machine.
    own: Politeness,
    /// By their keys.
    kept: BTreeMap<String, Kept>,
}

/// A key of `[politeness]` that keeps its value although an order of another machine has a less
/// polite one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The full key, such as `politeness.min_delay`.
    pub key: String,
    /// The value in force as TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value of the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<String>,
    /// The number of the order.
    pub order: u64,
    /// The client that gave it, and its machine.
    pub by: String,
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, by, .. } = self;
        let [value, ordered] = [&self.value, &self.ordered];
        let [value, ordered] = [value, ordered].map(|value| value.as_deref().unwrap_or("none"));
        write!(
            f,
            "{key} stays {value}, as the job file of this machine says; {ordered}, which {by} \
             ordered, is less polite"
        )
    }
}

impl Bounds {
    /// What is to be in force on this machine after an order of another one.
    fn bounded(&mut self, now: &Config, new: Config, number: u64, order: &Order) -> Config {
        let before = self.kept.clone();
        self.forget(&order.act);
        let bounded = new.clone().bounded(now, &self.own);
        for Changed { key, from, to } in bounded.changes(&new) {
            let kept = Kept {
                key: key.clone(),
                value: from,
                ordered: to,
                order: number,
                by: format!("{} on {}", order.by, order.node),
            };
            let known = before.get(&key);
            if known.is_none_or(|known| known.ordered != kept.ordered) {
                tracing::warn!("{kept}; to allow it, change the job file here and reload it here");
            }
            self.kept.insert(key, kept);
        }
        bounded
    }

    /// Forgets what earlier orders said of the keys that this one has.
    fn forget(&mut self, act: &Act) {
        self.kept.retain(|key, _| match act {
            Act::Set { values } => !values.contains_key(key),
            _ => false,
        });
    }
}

impl Shared {
    fn bounds(&self) -> MutexGuard<'_, Bounds> {
        // The same.
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys that keep their values.
    pub(super) fn kept(&self) -> Vec<Kept> {
        self.bounds().kept.values().cloned().collect()
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        // No code that can panic runs while it is half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies the orders of the cluster to a crawl.
pub struct Obedient(ControlHandle);

impl Obey for Obedient {
    async fn obey(&mut self, orders: Vec<(u64, Order)>) {
        if let Some(shared) = self.0.0.shared.get() {
            self.0.obey(shared, orders).await;
        }
    }
}

impl ControlHandle {
    /// From now on what is told this machine is an order for all, and what is told others is
    /// applied here by the result. Orders up to `since` have nothing to change in the
    /// configuration. `own` is what the job file of this machine says.
    pub fn share(
        &self,
        scribe: Arc<dyn Scribe>,
        errands: Errands,
        since: u64,
        own: Politeness,
    ) -> Obedient {
        let kept = BTreeMap::new();
        let shared = Shared {
            bounds: Mutex::new(Bounds { own, kept }),
            scribe,
            errands,
            since,
            waiting: Mutex::default(),
        };
        // A handle has one crawl.
        self.0.shared.set(shared).ok();
        Obedient(self.clone())
    }

    /// What orders are shared by; `None` where the machine crawls alone.
    pub(super) fn shared(&self) -> Result<Option<&Shared>, ControlError> {
        match self.0.shared.get() {
            None if self.0.is_shared => {
                let doing = "the machine has not joined the cluster yet";
                Err(ControlError::Preparing(doing.to_owned()))
            }
            shared => Ok(shared),
        }
    }

    /// Gives an order to all machines, and returns what it did here. `own` is the job file that
    /// is applied here, where the order is to apply one.
    pub(super) async fn give(
        &self,
        shared: &Shared,
        act: Act,
        own: Option<Config>,
        who: &Who,
    ) -> Result<Told<Outcome>, ControlError> {
        let id = id().ok_or_else(|| ControlError::Order("the system gives no number".into()))?;
        let node = shared.scribe.node().to_owned();
        let is_bounded = matches!(act, Act::Set { .. } | Act::Reload { .. });
        let order = Order::new(id.clone(), who.0.clone(), node, timestamp(now()), act);
        let sent = order.clone();
        let (done, is_done) = oneshot::channel();
        shared
            .waiting()
            .insert(id.clone(), Waiting { sent, own, done });
        let appended = shared.scribe.append(order).await;
        if let Err(error) = appended {
            shared.waiting().remove(&id);
            return Err(ControlError::Order(error.to_string()));
        }
        let Ok(heard) = timeout(APPLIED, is_done).await else {
            return Err(ControlError::Order(
                "the order is given, but this machine has not applied it yet; it does so, as all \
                 others do, before it asks hosts again"
                    .to_owned(),
            ));
        };
        let (number, outcome) = heard.map_err(|_| ControlError::Ended)?;
        let value = outcome?;
        let mut machines = self.machines(shared, number).await;
        if let Some(machines) = machines.as_mut().filter(|_| is_bounded) {
            machines.keep = self.that_keep(number).await;
        }
        Ok(Told { value, machines })
    }

    /// How many machines have applied an order, when all have or after a while.
    async fn machines(&self, shared: &Shared, number: u64) -> Option<Machines> {
        let begun = Instant::now();
        let mut known = None;
        loop {
            match shared.scribe.applied(number).await {
                Ok((applied, live)) => {
                    known = Some(Machines {
                        applied,
                        live,
                        keep: 0,
                    });
                }
                Err(error) => tracing::debug!(%error, "the machines cannot be counted"),
            }
            let has_all = known.is_some_and(|known| known.applied == known.live);
            if has_all || begun.elapsed() > OTHERS {
                return known;
            }
            sleep(LOOK).await;
        }
    }

    /// Applies orders: one, or all that are in the log when the machine begins.
    async fn obey(&self, shared: &Shared, orders: Vec<(u64, Order)>) {
        let waiting: Vec<Option<Waiting>> = {
            let mut waiting = shared.waiting();
            let ids = orders.iter().map(|(_, order)| waiting.remove(&order.id));
            ids.collect()
        };
        let takedowns = orders.iter().flat_map(|(_, order)| order.takedowns());
        let takedowns = Vec::from_iter(takedowns);
        if !takedowns.is_empty() {
            tracing::info!(targets = takedowns.len(), "taking down, as was ordered");
            shared.errands.take_down(takedowns).await;
        }
        let mut outcomes = self.configure(shared, &orders, &waiting).await;
        let last = orders
            .iter()
            .rev()
            .find(|(_, order)| matches!(order.act, Act::Pause | Act::Resume));
        if let Some((number, order)) = last {
            let done = self.obey_pause(shared, order).await;
            outcomes.insert(*number, done.map(Outcome::Done));
        }
        for (number, order) in &orders {
            if let Act::Seeds { urls } = &order.act {
                let seeded = self
                    .obey_seeds(shared, urls, &who_gave(shared, order))
                    .await;
                outcomes.insert(*number, seeded.map(Outcome::Seeded));
            }
        }
        for ((number, order), waiting) in orders.into_iter().zip(waiting) {
            let outcome = outcomes.remove(&number).unwrap_or(Ok(Outcome::Done(true)));
            match (waiting, outcome) {
                // Whoever asked may have given up.
                (Some(waiting), outcome) => drop(waiting.done.send((number, outcome))),
                (None, Err(ControlError::Ended)) | (None, Ok(_)) => {}
                (None, Err(error)) => {
                    let Order { by, node, .. } = order;
                    tracing::warn!(
                        "order {number}, which {by} gave on {node}, cannot be applied to this \
                         machine: {error}"
                    );
                }
            }
        }
    }

    /// Changes the configuration by all orders at once.
    async fn configure(
        &self,
        shared: &Shared,
        orders: &[(u64, Order)],
        waiting: &[Option<Waiting>],
    ) -> HashMap<u64, Result<Outcome, ControlError>> {
        let mut outcomes = HashMap::new();
        let mut held = self.0.in_force.lock().await;
        let mut wanted = Config::clone(&held);
        let mut changing = Vec::new();
        for ((number, order), waiting) in orders.iter().zip(waiting) {
            // What comes back has to be what was asked for here: the brokers are not this machine.
            let asked = waiting.as_ref().filter(|asked| asked.sent == *order);
            let own = asked.and_then(|asked| asked.own.as_ref());
            let new = match &order.act {
                Act::Set { values } => set(&wanted, values),
                Act::Reload { file, .. } => reloaded(&wanted, file, own),
                _ => continue,
            };
            match new {
                _ if *number <= shared.since => {}
                Ok(new) => {
                    let mut bounds = shared.bounds();
                    wanted = match (asked, own) {
                        (None, _) => bounds.bounded(&wanted, new, *number, order),
                        (Some(_), own) => {
                            if let Some(own) = own {
                                bounds.own = own.politeness.clone();
                            }
                            bounds.forget(&order.act);
                            new
                        }
                    };
                    changing.push((*number, order));
                }
                Err(error) => drop(outcomes.insert(*number, Err(error))),
            }
        }
        let Some((last, order)) = changing.last() else {
            return outcomes;
        };
        let put = self.put(&mut held, wanted, &who_gave(shared, order)).await;
        drop(held);
        let put = put.map(|(changed, rates)| Outcome::Changed(changed, rates));
        outcomes.insert(*last, put);
        for (number, order) in &changing {
            if let Act::Reload { file, model } = &order.act {
                let settings = Settings {
                    config: file.clone(),
                    model: model.clone(),
                    order: *number,
                };
                if let Err(error) = shared.scribe.renew(settings).await {
                    tracing::warn!(
                        "{error}; until the next reload machines with the new job file are refused"
                    );
                }
            }
        }
        outcomes
    }

    async fn obey_pause(&self, shared: &Shared, order: &Order) -> Result<bool, ControlError> {
        let pauses = order.act == Act::Pause;
        shared.errands.pause(pauses).await;
        let who = who_gave(shared, order);
        if pauses {
            self.pause_here(&who, &order.time).await
        } else {
            self.resume_here(&who).await
        }
    }

    async fn obey_seeds(
        &self,
        shared: &Shared,
        urls: &[String],
        who: &Who,
    ) -> Result<Vec<Seeded>, ControlError> {
        let parsed = urls.iter().filter_map(|url| PageUrl::parse(url).ok());
        // First, so that none is forgotten whose cell is opened meanwhile.
        shared.errands.seeds(parsed.collect()).await;
        let mut all = Vec::with_capacity(urls.len());
        for part in urls.chunks(super::SEEDS_AT_ONCE) {
            let part = part.to_vec();
            let answer = self.0.asker.ask(move |cells| seed_own(cells, part));
            all.extend(answer.await.ok_or(ControlError::Ended)??);
        }
        self.record_seeds(&all, who).await;
        Ok(all)
    }

    /// Gives seeds to all machines; those that are no addresses are refused here.
    pub(super) async fn give_seeds(
        &self,
        shared: &Shared,
        seeds: NewSeeds,
        who: &Who,
    ) -> Result<Told<Vec<Seeded>>, ControlError> {
        let mut value = Vec::with_capacity(seeds.urls.len());
        let mut urls = Vec::new();
        for url in seeds.urls {
            match PageUrl::parse(&url) {
                Ok(_) => urls.push(url),
                Err(error) => value.push(Seeded {
                    url,
                    result: SeedResult::Refused,
                    reason: Some(error.to_string()),
                }),
            }
        }
        if urls.is_empty() {
            return Ok(Told::alone(value));
        }
        let told = self.give(shared, Act::Seeds { urls }, None, who).await?;
        if let Outcome::Seeded(seeded) = told.value {
            value.extend(seeded);
        }
        let machines = told.machines;
        Ok(Told { value, machines })
    }

    /// The order that applies a job file.
    pub(super) async fn reload_order(config: &Config) -> Result<Act, ControlError> {
        let config = config.clone();
        let settings = tokio::task::spawn_blocking(move || settings_of(&config)).await;
        let settings = settings.map_err(|_| ControlError::Ended)?;
        let Settings { config, model, .. } =
            settings.map_err(|error| ControlError::Ratings(error.to_string()))?;
        let file = config;
        Ok(Act::Reload { file, model })
    }

    pub(super) async fn record_seeds(&self, seeded: &[Seeded], who: &Who) {
        for seeded in seeded.iter().filter(|s| s.result != SeedResult::Refused) {
            let mut entry = Entry::of(who, "seed");
            entry.to = Some(seeded.url.clone());
            self.record(entry).await;
        }
    }
}

/// The client behind an order, and its machine if that is another one.
fn who_gave(shared: &Shared, order: &Order) -> Who {
    if order.node == shared.scribe.node() {
        return Who(order.by.clone());
    }
    Who(format!("{} on {}", order.by, order.node))
}

/// A configuration with other values of single keys.
pub(super) fn set(
    config: &Config,
    values: &std::collections::BTreeMap<String, Value>,
) -> Result<Config, ControlError> {
    let wanted = with(config, values.clone())?;
    let new = merged(config, &wanted);
    let fixed = keys(&new, &wanted);
    if fixed.is_empty() {
        return Ok(new);
    }
    let fixed = fixed.join(", ");
    let live = super::reload::LIVE;
    Err(ControlError::Change(format!("{fixed} is fixed: {live}")))
}

/// A configuration after a reload: by the own file, or by what is common in another's.
fn reloaded(config: &Config, file: &str, own: Option<&Config>) -> Result<Config, ControlError> {
    if let Some(own) = own {
        return Ok(merged(config, own));
    }
    let shared = Config::parse(file, "the job file of the order")?;
    Ok(merged(config, &config.with_shared(shared)))
}

/// Adds the seeds whose hosts are this machine's, and says of the others whose they are.
fn seed_own(cells: &mut Cells, urls: Vec<String>) -> Result<Vec<Seeded>, StoreError> {
    let mut seeded = Vec::with_capacity(urls.len());
    for url in urls {
        let elsewhere = PageUrl::parse(&url).ok().filter(|url| {
            let home = cells.home_of(url);
            !cells.opened().any(|cell| cell == home)
        });
        let Some(parsed) = elsewhere else {
            seeded.extend(seed(cells, vec![url])?);
            continue;
        };
        let objection = cells.scope().judge_page(&parsed, 0).err();
        let (result, reason) = match objection {
            Some(objection) => (SeedResult::Refused, objection.to_string()),
            None => (
                SeedResult::Added,
                "by the machine that has its host".to_owned(),
            ),
        };
        let reason = Some(reason);
        seeded.push(Seeded {
            url,
            result,
            reason,
        });
    }
    Ok(seeded)
}

/// A number that no other order has.
fn id() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(base16ct::lower::encode_string(&bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use serde_json::json;

    fn config(more: &str) -> Config {
        let text = format!(
            "[job]\nname = \"x\"\nfolder = \"own\"\n[frontier]\nstore = \"fjall\"\n[cluster]\n\
             brokers = [\"nats://n1:4222\"]\nnode = \"m1\"\nstore = \"file:///s\"\n{more}"
        );
        Config::parse(&text, "x").unwrap()
    }

    #[test]
    fn an_order_that_this_version_does_not_know_names_the_key() {
        let own = config("");
        let values = |key: &str| BTreeMap::from([(key.to_owned(), json!(7))]);
        let changed = set(&own, &values("limits.documents")).unwrap();
        assert_eq!(changed.limits.documents, Some(7));
        for key in ["limits.unheard_of", "cluster.cells", "cluster.weight"] {
            let said = set(&own, &values(key)).unwrap_err().to_string();
            assert!(said.contains(key), "{said}");
        }
    }

    #[test]
    fn the_job_file_of_another_machine_changes_nothing_that_is_its_own() {
        let own = config("[rules]\nfiles = [\"own.toml\"]\n[control]\nlisten = false\n");
        let other = config("[rules]\nfiles = [\"other.toml\"]\n[limits]\nfetches = 9\n");
        let new = reloaded(&own, &other.shared(), None).unwrap();
        assert_eq!(new.limits.fetches, Some(9));
        assert_eq!(new.rules.files, [PathBuf::from("own.toml")]);
        let expected = Config {
            limits: other.limits.clone(),
            ..own.clone()
        };
        assert_eq!(new, expected);
        // The machine that was told reads what its own file names.
        let told = reloaded(&own, &other.shared(), Some(&other)).unwrap();
        assert_eq!(told.rules.files, [PathBuf::from("other.toml")]);
        assert!(reloaded(&own, "[later]\nkey = 1\n", None).is_err());
    }

    #[test]
    fn no_order_of_another_machine_makes_this_one_less_polite_than_its_job_file() {
        let own = config("[politeness]\nmin_delay = \"5s\"\nretries = 1\n");
        let mut bounds = Bounds {
            own: own.politeness.clone(),
            kept: BTreeMap::new(),
        };
        let order = |values: Value| {
            let values = serde_json::from_value(values).unwrap();
            let [id, by, node, time] = ["7f", "socket", "m2", "t"].map(str::to_owned);
            Order::new(id, by, node, time, Act::Set { values })
        };
        let apply = |bounds: &mut Bounds, now: &Config, number: u64, values: Value| {
            let order = order(values);
            let Act::Set { values } = &order.act else {
                unreachable!()
            };
            bounds.bounded(now, set(now, values).unwrap(), number, &order)
        };
        let ruder = json!({
            "politeness.min_delay": "0s", "politeness.retries": 9,
            "politeness.connections_per_host": 16, "limits.documents": 7,
        });
        let now = apply(&mut bounds, &own, 3, ruder);
        assert_eq!(now.politeness, own.politeness);
        assert_eq!(now.limits.documents, Some(7), "the rest is applied");
        let keys: Vec<&str> = bounds.kept.keys().map(String::as_str).collect();
        let all = [
            "politeness.connections_per_host",
            "politeness.min_delay",
            "politeness.retries",
        ];
        assert_eq!(keys, all);
        let said = bounds.kept["politeness.min_delay"].to_string();
        assert_eq!(
            said,
            "politeness.min_delay stays \"5s\", as the job file of this machine says; \"0s\", \
             which socket on m2 ordered, is less polite"
        );
        // Another key leaves them, and what is more polite is applied and told no more.
        let now = apply(&mut bounds, &now, 4, json!({"limits.documents": 8}));
        assert_eq!(bounds.kept.len(), 3);
        let now = apply(&mut bounds, &now, 5, json!({"politeness.min_delay": "9s"}));
        assert_eq!(now.politeness.min_delay, Duration::from_secs(9));
        assert_eq!(bounds.kept.len(), 2);
        // A whole file of another machine is bounded too.
        let file = config("[politeness]\nmin_delay = \"1s\"\nretries = 0\n").shared();
        let new = reloaded(&now, &file, None).unwrap();
        let model = None;
        let mut order = order(json!({}));
        order.act = Act::Reload { file, model };
        let now = bounds.bounded(&now, new, 6, &order);
        assert_eq!(now.politeness.min_delay, Duration::from_secs(5));
        assert_eq!(now.politeness.retries, 0);
        let keys: Vec<&str> = bounds.kept.keys().map(String::as_str).collect();
        assert_eq!(keys, ["politeness.min_delay"]);
        assert_eq!(bounds.kept["politeness.min_delay"].order, 6);
    }

    #[test]
    fn machines_are_counted_in_a_header() {
        let machines = Machines {
            applied: 2,
            live: 3,
            keep: 1,
        };
        assert_eq!(machines.to_string().parse(), Ok(machines));
        assert!("many".parse::<Machines>().is_err());
    }
}
