//! Requests to one machine of a cluster that affect all of them.
//!
//! The machine that receives a request checks it as usual, and then changes the wanted state of the
//! cluster ([`crate::cluster::wanted`]). It applies that state like every other machine, and
//! responds after that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::reload::{keys, merged, with};
use super::{
    AuditLine, Change, ControlError, ControlHandle, NewSeeds, SeedResult, Seeded, Who, seed,
};
use crate::address::PageUrl;
use crate::clock::{now, timestamp};
use crate::cluster::node::{Obey, WantedErrand, WantedErrands, settings_of};
use crate::cluster::wanted::{SetKey, WantedBy, WantedEdit, WantedList, WantedState};
use crate::config::{Changed, Config};
use crate::frontier::store::StoreError;
use crate::settings::Politeness;

/// How long a request waits until this machine has applied the new state.
const APPLIED: Duration = Duration::from_secs(40);
/// How long it then waits for the other machines, and how often it checks.
const OTHERS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(200);
/// How many of the last states are remembered, with their effects on this machine.
const REMEMBERED: usize = 64;

/// How many machines have applied a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machines {
    /// Machines that have applied it.
    pub applied: usize,
    /// Machines that are not known to be off.
    pub live: usize,
    /// Machines that keep a more polite value of their own; see [`KeptKey`].
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

/// The result of a request, and how many machines have applied it.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestResult<T> {
    /// The result on this machine.
    pub value: T,
    /// `None` if a single machine crawls the job, or the others could not be asked.
    pub machines: Option<Machines>,
}

impl<T> RequestResult<T> {
    /// The result on a machine that crawls alone.
    pub(super) fn alone(value: T) -> Self {
        let machines = None;
        Self { value, machines }
    }

    /// The same with a value derived from the result.
    pub(super) fn map<U>(self, value: impl FnOnce(T) -> U) -> RequestResult<U> {
        RequestResult {
            value: value(self.value),
            machines: self.machines,
        }
    }
}

/// The effects of a wanted state on this machine.
#[derive(Debug, Clone, Default)]
pub(super) struct AppliedState {
    version: u64,
    /// The changed keys, and whether all links are re-rated.
    pub changed: Vec<Change>,
    pub rates: bool,
    /// Whether the crawl was paused, or resumed.
    pub phase: bool,
    /// The result for each new seed.
    seeded: Vec<Seeded>,
    /// Why some of it could not be applied.
    error: Option<String>,
}

/// What a machine needs to take part in the wanted state of its cluster.
pub(super) struct SharedControl {
    errands: WantedErrands,
    own: Mutex<OwnFile>,
    applied: watch::Sender<VecDeque<AppliedState>>,
}

/// The settings of this machine alone.
struct OwnFile {
    /// Its job file.
    file: Config,
    /// The least polite values that its operator has allowed.
    floor: Politeness,
    /// The values that it keeps, by key.
    kept: BTreeMap<String, KeptKey>,
}

/// A key of `[politeness]` that keeps its value although an operator of another machine has set a
/// less polite one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptKey {
    /// The full key, such as `politeness.min_delay`.
    pub key: String,
    /// The value in force as TOML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value that was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<String>,
    /// The version of the wanted state that set it.
    pub version: u64,
    /// Who has set it.
    pub by: String,
}

impl std::fmt::Display for KeptKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, by, .. } = self;
        let [value, ordered] = [&self.value, &self.ordered];
        let [value, ordered] = [value, ordered].map(|value| value.as_deref().unwrap_or("none"));
        write!(
            f,
            "{key} stays {value}, as the job file of this machine says; {ordered}, which {by} \
             set, is less polite"
        )
    }
}

impl OwnFile {
    /// Combines the present configuration, this machine's job file and the wanted state.
    fn configuration(
        &mut self,
        now: &Config,
        wanted: &WantedState,
    ) -> Result<Config, ControlError> {
        let file = match &wanted.settings {
            Some(settings) if settings.job != self.file.shared() => {
                self.file.with_shared(&settings.job)?
            }
            _ => self.file.clone(),
        };
        let mut new = merged(now, &file);
        let all = wanted.keys.iter();
        let all = all.map(|(key, set)| (key.clone(), set.value.clone()));
        match set(&new, &all.clone().collect()) {
            Ok(set) => new = set,
            // A key may come from another version of spoor; the others still apply.
            Err(_) => {
                for one in all {
                    match set(&new, &BTreeMap::from([one])) {
                        Ok(set) => new = set,
                        Err(error) => tracing::warn!("what was set for all machines: {error}"),
                    }
                }
            }
        }
        let bounded = new.clone().bounded(now, &self.floor);
        let before = std::mem::take(&mut self.kept);
        for Changed { key, from, to } in bounded.changes(&new) {
            let said = wanted
                .keys
                .get(&key)
                .map_or(&wanted.reloaded, |set| &set.said);
            let kept = KeptKey {
                key: key.clone(),
                value: from,
                ordered: to,
                version: said.version,
                by: said.by.clone(),
            };
            if before
                .get(&key)
                .is_none_or(|known| known.ordered != kept.ordered)
            {
                tracing::warn!("{kept}; to allow it, change the job file here and reload it here");
            }
            self.kept.insert(key, kept);
        }
        Ok(bounded)
    }
}

impl SharedControl {
    fn own(&self) -> MutexGuard<'_, OwnFile> {
        // No code that can panic runs while it is half changed.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys that keep their values.
    pub(super) fn kept(&self) -> Vec<KeptKey> {
        self.own().kept.values().cloned().collect()
    }

    /// The version of the wanted state that is applied here.
    pub(super) fn version(&self) -> u64 {
        let applied = self.applied.borrow();
        applied.back().map_or(0, |applied| applied.version)
    }

    /// Records that the operator of this machine allows these values here.
    pub(super) fn allow(&self, values: &BTreeMap<String, Value>) {
        let mut own = self.own();
        let mut allowed = own.file.clone();
        allowed.politeness = own.floor.clone();
        if let Ok(allowed) = set(&allowed, values) {
            own.floor = allowed.settings.politeness;
        }
    }

    /// Replaces the job file of this machine.
    pub(super) fn replace_file(&self, file: &Config) {
        let mut own = self.own();
        own.floor = file.politeness.clone();
        own.file = file.clone();
    }
}

/// Applies the wanted state of the cluster to a crawl.
pub struct Obedient(ControlHandle);

impl Obey for Obedient {
    async fn obey(&mut self, wanted: &WantedState, lists: Vec<WantedList>) {
        if let Some(shared) = self.0.0.shared.get() {
            self.0.obey(shared, wanted, lists).await;
        }
    }
}

impl ControlHandle {
    /// From now on, requests to this machine affect all machines, and the result applies the
    /// wanted state here. `file` is the job file of this machine.
    pub fn share(&self, errands: WantedErrands, file: &Config) -> Obedient {
        let own = OwnFile {
            floor: file.politeness.clone(),
            file: file.clone(),
            kept: BTreeMap::new(),
        };
        let shared = SharedControl {
            errands,
            own: Mutex::new(own),
            applied: watch::Sender::default(),
        };
        // Each handle belongs to one crawl.
        self.0.shared.set(shared).ok();
        Obedient(self.clone())
    }

    /// The shared part; `None` if the machine crawls alone.
    pub(super) fn shared(&self) -> Result<Option<&SharedControl>, ControlError> {
        match self.0.shared.get() {
            None if self.0.is_shared => {
                let doing = "the machine has not joined the cluster yet";
                Err(ControlError::Preparing(doing.to_owned()))
            }
            shared => Ok(shared),
        }
    }

    /// Names the author of a request, for all machines.
    pub(super) fn said(&self, who: &Who) -> WantedBy {
        let place = self.0.cluster.get();
        let node = place.map_or("", |place| place.session.node.as_str());
        WantedBy {
            version: 0,
            by: format!("{} on {node}", who.0),
            time: timestamp(now()),
        }
    }

    /// Changes the wanted state, and returns the effects on this machine.
    pub(super) async fn give(
        &self,
        shared: &SharedControl,
        list: Option<WantedList>,
        edit: &WantedEdit<'_>,
    ) -> Result<RequestResult<AppliedState>, ControlError> {
        let place = self.0.cluster.get().ok_or(ControlError::Ended)?;
        let changed = place.peers.change(list.as_ref(), edit).await;
        let wanted = changed.map_err(|error| ControlError::Order(error.to_string()))?;
        let mut applied = shared.applied.subscribe();
        let is_there = |all: &VecDeque<AppliedState>| {
            all.back()
                .is_some_and(|last| last.version >= wanted.version)
        };
        let waits = async { applied.wait_for(is_there).await.map(drop) };
        match timeout(APPLIED, waits).await {
            Ok(heard) => heard.map_err(|_| ControlError::Ended)?,
            Err(_) => {
                return Err(ControlError::Order(
                    "the change is recorded for all machines, but this one has not applied it \
                     yet; like all others, it does so before it sends more requests to hosts"
                        .to_owned(),
                ));
            }
        }
        let value = {
            let all = shared.applied.borrow();
            let first = all.iter().find(|applied| applied.version >= wanted.version);
            first.cloned().unwrap_or_default()
        };
        if let Some(error) = value.error {
            return Err(ControlError::Order(error));
        }
        let machines = self.machines(wanted.version).await;
        Ok(RequestResult { value, machines })
    }

    /// How many machines have applied a state; waits for all of them, but not for long.
    async fn machines(&self, version: u64) -> Option<Machines> {
        let place = self.0.cluster.get()?;
        let begun = Instant::now();
        let mut known: Option<Machines> = None;
        while known.is_none_or(|known| known.applied != known.live) && begun.elapsed() <= OTHERS {
            if known.is_some() {
                sleep(LOOK).await;
            }
            match place.peers.survey().await {
                Ok(survey) => {
                    let (applied, not) = survey.applied(version);
                    known = Some(Machines {
                        applied: applied.len(),
                        live: applied.len() + not.len(),
                        keep: super::cluster::that_keep(&survey, version),
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "the machines cannot be counted");
                    sleep(LOOK).await;
                }
            }
        }
        known
    }

    /// Brings the crawl into the wanted state.
    async fn obey(&self, shared: &SharedControl, wanted: &WantedState, lists: Vec<WantedList>) {
        let takedowns = lists.iter().flat_map(|list| list.takedowns.clone());
        let seeds = lists.iter().flat_map(|list| &list.seeds);
        let errand = WantedErrand {
            takedowns: takedowns.collect(),
            // Seeds come first, so that none is lost if its cell is opened meanwhile.
            seeds: seeds.filter_map(|url| PageUrl::parse(url).ok()).collect(),
            is_paused: wanted.paused,
        };
        if !errand.takedowns.is_empty() {
            tracing::info!(
                targets = errand.takedowns.len(),
                "taking down, as requested"
            );
        }
        shared.errands.run(errand).await;
        let mut applied = AppliedState {
            version: wanted.version,
            ..AppliedState::default()
        };
        let done = self.apply(shared, wanted, lists, &mut applied).await;
        if let Err(error) = done
            && !matches!(error, ControlError::Ended)
        {
            tracing::warn!("the changes for all machines cannot be applied to this one: {error}");
            applied.error = Some(error.to_string());
        }
        shared.applied.send_modify(|all| {
            all.push_back(applied);
            if all.len() > REMEMBERED {
                all.pop_front();
            }
        });
        self.0.report_due.notify_one();
    }

    async fn apply(
        &self,
        shared: &SharedControl,
        wanted: &WantedState,
        lists: Vec<WantedList>,
        applied: &mut AppliedState,
    ) -> Result<(), ControlError> {
        let WantedBy { by, time, .. } = &wanted.paused_by;
        let who = Who(by.clone());
        applied.phase = self.set_paused_here(wanted.paused, &who, time).await?;
        for WantedList { seeds, said, .. } in lists {
            let seeded = self.seed_here(&seeds, &Who(said.by)).await?;
            applied.seeded.extend(seeded);
        }
        if let Some(place) = self.0.cluster.get()
            && wanted.leaving.contains(&place.session)
        {
            self.stop(&Who("spoor cluster drain".to_owned())).await?;
        }
        let mut held = self.0.in_force.lock().await;
        let new = shared.own().configuration(&held, wanted)?;
        let last = wanted.keys.values().map(|set| &set.said);
        let last = last
            .chain([&wanted.reloaded])
            .max_by_key(|said| said.version);
        let who = Who(last.map_or_else(String::new, |said| said.by.clone()));
        (applied.changed, applied.rates) = self.put(&mut held, new, &who).await?;
        Ok(())
    }

    pub(super) async fn seed_here(
        &self,
        urls: &[String],
        who: &Who,
    ) -> Result<Vec<Seeded>, ControlError> {
        let mut all = Vec::with_capacity(urls.len());
        for part in urls.chunks(super::SEEDS_AT_ONCE) {
            let part = part.to_vec();
            let answer = self.0.asker.ask(move |cells| {
                let seeded = part.into_iter().map(|url| seed(cells, url));
                seeded.collect::<Result<Vec<Seeded>, StoreError>>()
            });
            all.extend(answer.await.ok_or(ControlError::Ended)??);
        }
        for seeded in all.iter().filter(|s| s.result != SeedResult::Refused) {
            let mut entry = AuditLine::of(who, "seed");
            entry.to = Some(seeded.url.clone());
            self.record(entry).await;
        }
        Ok(all)
    }

    /// Sets keys on all machines.
    pub(super) async fn give_keys(
        &self,
        shared: &SharedControl,
        values: BTreeMap<String, Value>,
        who: &Who,
    ) -> Result<RequestResult<AppliedState>, ControlError> {
        let said = self.said(who);
        let edit: &WantedEdit<'_> = &|wanted| {
            let said = said.in_version(wanted.version);
            for (key, value) in values.clone() {
                let said = said.clone();
                wanted.keys.insert(key, SetKey { value, said });
            }
        };
        shared.allow(&values);
        self.give(shared, None, edit).await
    }

    /// Applies a job file on all machines.
    pub(super) async fn give_file(
        &self,
        shared: &SharedControl,
        file: &Config,
        who: &Who,
    ) -> Result<RequestResult<AppliedState>, ControlError> {
        let config = file.clone();
        let settings =
            tokio::task::spawn_blocking(move || settings_of(&config, config.shared())).await;
        let settings = settings.map_err(|_| ControlError::Ended)?;
        let settings = settings.map_err(|error| ControlError::Ratings(error.to_string()))?;
        let said = self.said(who);
        let edit: &WantedEdit<'_> = &|wanted| {
            wanted.settings = Some(settings.clone());
            wanted.keys.clear();
            wanted.reloaded = said.in_version(wanted.version);
        };
        shared.replace_file(file);
        self.give(shared, None, edit).await
    }

    /// Passes seeds to all machines; invalid addresses are refused here.
    pub(super) async fn give_seeds(
        &self,
        shared: &SharedControl,
        seeds: NewSeeds,
        who: &Who,
    ) -> Result<RequestResult<Vec<Seeded>>, ControlError> {
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
            return Ok(RequestResult::alone(value));
        }
        let list = WantedList {
            seeds: urls.clone(),
            said: self.said(who),
            ..WantedList::default()
        };
        let given = self.give(shared, Some(list), &|_| {}).await?;
        Ok(given.map(|applied| {
            // The same state may include another request.
            let own = applied.seeded.into_iter();
            value.extend(own.filter(|seeded| urls.contains(&seeded.url)));
            value
        }))
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::cluster::shared_settings::SharedSettings;
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

    fn own(file: &Config) -> OwnFile {
        OwnFile {
            file: file.clone(),
            floor: file.politeness.clone(),
            kept: BTreeMap::new(),
        }
    }

    fn of_file(file: &Config) -> WantedState {
        let settings = SharedSettings {
            job: file.shared(),
            model: None,
        };
        WantedState {
            settings: Some(settings),
            ..WantedState::default()
        }
    }

    fn set_in(wanted: &mut WantedState, version: u64, values: Value) {
        let values: BTreeMap<String, Value> = serde_json::from_value(values).unwrap();
        for (key, value) in values {
            let said = WantedBy {
                version,
                by: "socket on m2".to_owned(),
                time: "t".to_owned(),
            };
            wanted.keys.insert(key, SetKey { value, said });
        }
    }

    #[test]
    fn the_job_file_of_another_machine_changes_nothing_that_is_its_own() {
        let file = config("[rules]\nfiles = [\"own.toml\"]\n[control]\nlisten = false\n");
        let other = config("[rules]\nfiles = [\"other.toml\"]\n[limits]\nfetches = 9\n");
        let new = own(&file).configuration(&file, &of_file(&other)).unwrap();
        assert_eq!(new.limits.fetches, Some(9));
        assert_eq!(new.rules.files, [PathBuf::from("own.toml")]);
        let mut expected = file.clone();
        expected.limits = other.limits.clone();
        assert_eq!(new, expected);
        // The machine that received the job file reads the rules that its own file names.
        let receiver = own(&other).configuration(&file, &of_file(&other)).unwrap();
        assert_eq!(receiver.rules.files, [PathBuf::from("other.toml")]);
        // A key that this version does not know does not prevent the others from being applied.
        let mut wanted = of_file(&other);
        set_in(
            &mut wanted,
            3,
            json!({"limits.fetches": 8, "limits.unheard_of": 1}),
        );
        let new = own(&file).configuration(&file, &wanted).unwrap();
        assert_eq!(new.limits.fetches, Some(8));
    }

    #[test]
    fn no_request_to_another_machine_makes_this_one_less_polite_than_its_job_file() {
        let file = config("[politeness]\nmin_delay = \"5s\"\nretries = 1\n");
        let mut own = own(&file);
        let mut wanted = of_file(&file);
        let ruder = json!({
            "politeness.min_delay": "0s", "politeness.retries": 9,
            "politeness.connections_per_host": 16, "limits.documents": 7,
        });
        set_in(&mut wanted, 3, ruder);
        let now = own.configuration(&file, &wanted).unwrap();
        assert_eq!(now.politeness, file.politeness);
        assert_eq!(now.limits.documents, Some(7), "the rest is applied");
        let keys: Vec<&str> = own.kept.keys().map(String::as_str).collect();
        let all = [
            "politeness.connections_per_host",
            "politeness.min_delay",
            "politeness.retries",
        ];
        assert_eq!(keys, all);
        let said = own.kept["politeness.min_delay"].to_string();
        assert_eq!(
            said,
            "politeness.min_delay stays \"5s\", as the job file of this machine says; \"0s\", \
             which socket on m2 set, is less polite"
        );
        // Setting another key leaves them. A more polite value is applied, and its key is no longer
        // reported.
        set_in(&mut wanted, 4, json!({"limits.documents": 8}));
        let now = own.configuration(&now, &wanted).unwrap();
        assert_eq!(own.kept.len(), 3);
        set_in(&mut wanted, 5, json!({"politeness.min_delay": "9s"}));
        let now = own.configuration(&now, &wanted).unwrap();
        assert_eq!(now.politeness.min_delay, Duration::from_secs(9));
        assert_eq!(own.kept.len(), 2);
        // The limit also applies to a whole job file of another machine.
        let ruder = config("[politeness]\nmin_delay = \"1s\"\nretries = 0\n");
        let mut wanted = of_file(&ruder);
        wanted.reloaded.version = 6;
        let now = own.configuration(&now, &wanted).unwrap();
        assert_eq!(now.politeness.min_delay, Duration::from_secs(5));
        assert_eq!(now.politeness.retries, 0);
        let keys: Vec<&str> = own.kept.keys().map(String::as_str).collect();
        assert_eq!(keys, ["politeness.min_delay"]);
        assert_eq!(own.kept["politeness.min_delay"].version, 6);
        // The operator of this machine may allow it here.
        let shared = SharedControl {
            errands: crate::cluster::node::WantedErrands::to_no_crawl(),
            own: Mutex::new(own),
            applied: watch::Sender::default(),
        };
        shared.allow(&BTreeMap::from([(
            "politeness.min_delay".to_owned(),
            json!("1s"),
        )]));
        let now = shared.own().configuration(&now, &wanted).unwrap();
        assert_eq!(now.politeness.min_delay, Duration::from_secs(1));
        assert!(shared.kept().is_empty());
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
