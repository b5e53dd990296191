//! The files with a host's terms of use in the frontier: `/.well-known/tdmrep.json` (TDM
//! Reservation Protocol, W3C Community Group) and RSL files (Really Simple Licensing 1.0). When they
//! are requested, and which part of them is stored.
//!
//! They are requested before a host's first page or image, separately for each scheme, and again
//! when they have reached the maximum age of robots rules, an RSL file that only pages name when one of
//! them names it again. The host's clock applies to them as to
//! any request, and they are not requested where robots.txt forbids it.
//!
//! | answer | means |
//! |---|---|
//! | 2xx | these are the rules; if they are unreadable, all is reserved |
//! | 3xx to the same host and scheme | it is there; followed five times in a row |
//! | none, or a temporary failure (5xx, 429) | requested again, five times in a row; what was known stays valid, at first all is reserved |
//! | all else | a tdmrep.json says nothing; an RSL file, which the publisher names, reserves all |
//!
//! A redirect to another host is not followed: that host has its own file, which covers pages that
//! moved there. Unlike with robots.txt, pages are requested while a file is unavailable, because
//! their links are followed even if all is reserved. If the name of the host could not be resolved,
//! nothing was requested, and the request is still due.
//!
//! RSL files are named by robots.txt, which is known before, and by pages and images. If one of
//! these names an unknown file, it is requested again after that file. Files of other hosts are not
//! requested, so that they reserve all.

use serde::{Deserialize, Serialize};

use crate::address::{HostKey, PageUrl};
use crate::codec;
use crate::keys;
use crate::outcome::Settled;
use crate::page::{MAX_RSL_FILES, Outcome, Reason, RslTerms, Signal, TaskKind, Terms};
use crate::policy::Policy;
use crate::settings;
use crate::store::{Readable, StoreError};
use crate::transaction::Transaction;
use crate::web::robots::{
    Robots, RslContent, TDMREP_PATH, TdmRule, parse_rsl, parse_tdmrep, reserve_all, rsl_terms,
    tdm_terms,
};

/// Most redirects and retries in a row; the protocols name no number, so it is that of robots.txt.
const MAX_REDIRECTS: u8 = 5;

/// The stored state of a file, for one host and scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord<R> {
    /// Time of the request, or when a page named the file, in milliseconds since 1970; 0 if neither.
    pub at: u64,
    /// Where it is still to be requested: the target of a redirect on the same host, or the address
    /// that did not answer.
    pub moved: Option<String>,
    /// Redirects and retries so far.
    pub redirects: u8,
    /// Its rules.
    pub rules: R,
}

/// The state of a tdmrep.json, with its rules in the order of the file.
pub type TdmRecord = FileRecord<Vec<TdmRule>>;

/// The state of an RSL file; without rules it cannot be read.
pub type RslRecord = FileRecord<Option<Vec<RslContent>>>;

/// A file with terms of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermsFile {
    /// The tdmrep.json.
    Tdmrep,
    /// The RSL file at this address.
    Rsl(String),
}

/// A request for such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TermsRequest {
    /// The requested file.
    pub file: TermsFile,
    /// For pages with `http` or `https`.
    pub scheme: &'static str,
    /// Redirects that led here.
    pub redirects: u8,
}

impl TermsRequest {
    /// The kind of its task.
    pub fn kind(&self) -> TaskKind {
        match self.file {
            TermsFile::Tdmrep => TaskKind::Tdmrep,
            TermsFile::Rsl(_) => TaskKind::Rsl,
        }
    }
}

/// The files of one host and scheme.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TermsFiles {
    /// The tdmrep.json, if it was requested.
    tdmrep: Option<TdmRecord>,
    /// RSL files by their addresses.
    rsl: Vec<(String, RslRecord)>,
}

impl Policy {
    /// The same, with the signals that `section` obeys. `keeps` is whether the job keeps
    /// anything that a reservation could apply to.
    pub fn with_consent(self, section: &settings::Consent, keeps: bool) -> Self {
        Self {
            tdmrep: section.tdmrep && keeps,
            rsl: section.obey.contains(&Signal::Rsl) && keeps,
            obeyed: section.obey.clone(),
            ..self
        }
    }
}

impl TermsFiles {
    /// The stored state of a host's files. Read for every page and image: most hosts have
    /// no file, and their records have a few bytes.
    pub fn of(
        store: &dyn Readable,
        (tdmrep, rsl): (bool, bool),
        host: &HostKey,
        scheme: &str,
    ) -> Result<Self, StoreError> {
        let mut files = Self::default();
        if tdmrep {
            files.tdmrep = codec::get(store, &keys::tdmrep(host, scheme))?;
        }
        if rsl {
            let known = codec::get(store, &keys::rsl(host, scheme))?;
            files.rsl = known.unwrap_or_default();
        }
        Ok(files)
    }

    /// What they and `robots`, the rules of the host, state about `url`.
    pub fn terms(&self, robots: &Robots, url: &PageUrl) -> Terms {
        let known = self.tdmrep.as_ref();
        let mut terms = known.map_or_else(Terms::default, |known| tdm_terms(&known.rules, url));
        terms.content_signals = robots.content_signals(url);
        let known = self.known_rsl(url);
        for file in named_by(robots, url) {
            let stated = known.iter().find(|rsl| rsl.file == file).cloned();
            terms.name_rsl(stated.unwrap_or_else(|| RslTerms::unread(file)));
        }
        terms
    }

    /// What every RSL file of the host states about `url`, which may name it.
    pub fn known_rsl(&self, url: &PageUrl) -> Vec<RslTerms> {
        let stated = |(file, record): &(String, RslRecord)| match &record.rules {
            None => RslTerms::unread(file.clone()),
            Some(contents) => rsl_terms(contents, file, url),
        };
        self.rsl.iter().map(stated).collect()
    }

    /// The next request for a file, with its address; `None` while the stored states are valid, which
    /// they are for `max_age` milliseconds. The flags say which kinds are requested.
    pub fn next_request(
        &self,
        (host, scheme): (&HostKey, &'static str),
        robots: &Robots,
        (tdmrep, rsl): (bool, bool),
        max_age: u64,
        now: u64,
    ) -> Option<(PageUrl, TermsRequest)> {
        let own = format!("{scheme}://{host}{TDMREP_PATH}");
        let mut due = Vec::new();
        if tdmrep {
            due.extend(next(
                self.tdmrep.as_ref(),
                &own,
                TermsFile::Tdmrep,
                max_age,
                now,
            ));
        }
        if rsl {
            let base = PageUrl::parse(&own).ok();
            let mut named = base.map_or_else(Vec::new, |base| named_by(robots, &base));
            named.retain(|file| is_at(file, host));
            named.truncate(MAX_RSL_FILES);
            named.retain(|file| self.rsl.iter().all(|(known, _)| known != file));
            let known = self.rsl.iter().map(|(file, record)| (file, Some(record)));
            for (file, record) in named.iter().map(|file| (file, None)).chain(known) {
                due.extend(next(
                    record,
                    file,
                    TermsFile::Rsl(file.clone()),
                    max_age,
                    now,
                ));
            }
        }
        due.into_iter().find_map(|(address, file, redirects)| {
            let url = PageUrl::parse(&address).ok()?;
            let request = TermsRequest {
                file,
                scheme,
                redirects,
            };
            robots.allows(&url).then_some((url, request))
        })
    }

    /// The state after an outcome, and the result of the task.
    pub fn after(
        mut self,
        host: &HostKey,
        asked: &TermsRequest,
        outcome: &Outcome,
        body: &[u8],
        now: u64,
    ) -> (Settled, Self) {
        let scheme = asked.scheme;
        let settled;
        match &asked.file {
            TermsFile::Tdmrep => {
                let own = format!("{scheme}://{host}{TDMREP_PATH}");
                let known = self.tdmrep.take().unwrap_or_default();
                let read = || parse_tdmrep(body).map_err(|error| error.to_string());
                let absent = Vec::new();
                let closed = (reserve_all(), absent);
                let asked = (host, own.as_str(), asked);
                let record;
                (settled, record) = known.after(asked, outcome, read, closed, now);
                self.tdmrep = Some(record);
            }
            TermsFile::Rsl(file) => {
                let at = self.rsl.iter().position(|(known, _)| known == file);
                let known = at.map(|at| self.rsl.remove(at).1).unwrap_or_default();
                let read = || parse_rsl(body).map(Some).map_err(|error| error.to_string());
                let asked = (host, file.as_str(), asked);
                let record;
                (settled, record) = known.after(asked, outcome, read, (None, None), now);
                self.rsl.push((file.clone(), record));
                self.bound();
            }
        }
        (settled, self)
    }

    /// Writes the state of one of the files.
    pub(crate) fn write(
        &self,
        tx: &mut Transaction<'_>,
        host: &HostKey,
        asked: &TermsRequest,
    ) -> Result<(), StoreError> {
        match &asked.file {
            TermsFile::Tdmrep => {
                let record = self.tdmrep.as_ref();
                record.map_or(Ok(()), |it| tx.write(keys::tdmrep(host, asked.scheme), it))
            }
            TermsFile::Rsl(_) => self.write_rsl(tx, host, asked.scheme),
        }
    }

    /// Writes the states of the RSL files.
    pub(crate) fn write_rsl(
        &self,
        tx: &mut Transaction<'_>,
        host: &HostKey,
        scheme: &str,
    ) -> Result<(), StoreError> {
        tx.write(keys::rsl(host, scheme), &self.rsl)
    }

    /// Adds RSL files that a page or image names, so that they are requested next, as far as there
    /// is room for them: files that were requested `max_age` milliseconds ago take none.
    pub fn want(&mut self, files: &[String], max_age: u64, now: u64) {
        for file in files {
            let room = self.rsl.iter().filter(|(_, it)| it.holds(max_age, now));
            let room = MAX_RSL_FILES.saturating_sub(room.count());
            let known = self.rsl.iter_mut().find(|(known, _)| known == file);
            match known.map(|(_, record)| record) {
                Some(record) if record.holds(max_age, now) => {}
                _ if room == 0 => {}
                // Its rules stay valid until it answers.
                Some(record) => record.want(file, now),
                None => {
                    let mut record = RslRecord::default();
                    record.want(file, now);
                    self.rsl.push((file.clone(), record));
                }
            }
        }
        self.bound();
    }

    /// Forgets RSL files that were requested `max_age` milliseconds ago and that robots.txt does not
    /// name: if a page still names one, it is requested again.
    pub fn forget(
        &mut self,
        (host, scheme): (&HostKey, &str),
        robots: &Robots,
        max_age: u64,
        now: u64,
    ) {
        if self.rsl.is_empty() {
            return;
        }
        let base = PageUrl::parse(&format!("{scheme}://{host}/")).ok();
        let named = base.map_or_else(Vec::new, |base| named_by(robots, &base));
        let is_named = |file: &String| named.contains(file);
        self.rsl
            .retain(|(file, record)| record.holds(max_age, now) || is_named(file));
    }

    /// The number of known RSL files.
    pub fn rsl_len(&self) -> usize {
        self.rsl.len()
    }

    /// Keeps the number of RSL files bounded: those that were requested first go.
    fn bound(&mut self) {
        let surplus = self.rsl.len().saturating_sub(2 * MAX_RSL_FILES);
        if surplus > 0 {
            self.rsl.sort_by_key(|(_, record)| record.at);
            self.rsl.drain(..surplus);
        }
    }
}

impl RslRecord {
    fn want(&mut self, file: &str, now: u64) {
        self.at = now;
        self.moved = Some(file.to_owned());
        self.redirects = 0;
    }
}

impl<R: Clone + Default> FileRecord<R> {
    /// Whether it is valid or is still to be requested, for which there is more time: others may be
    /// requested before. (One that robots.txt forbids is never requested.)
    fn holds(&self, max_age: u64, now: u64) -> bool {
        let age = match self.moved {
            Some(_) => max_age.saturating_mul(MAX_RSL_FILES as u64),
            None => max_age,
        };
        now < self.at.saturating_add(age)
    }

    /// The state after an outcome, and the result of the task. `self` is the previous state, `own`
    /// the address of the file; `closed` are the rules if it cannot be read, `absent` those if it is
    /// not there.
    fn after(
        self,
        (host, own, asked): (&HostKey, &str, &TermsRequest),
        outcome: &Outcome,
        read: impl FnOnce() -> Result<R, String>,
        (closed, absent): (R, R),
        now: u64,
    ) -> (Settled, Self) {
        let known = |rules| Self {
            at: now,
            rules,
            ..Self::default()
        };
        // A server that is down for an hour does not lift a reservation.
        let earlier = if self.at == 0 {
            closed.clone()
        } else {
            self.rules
        };
        let again = |address: String| Self {
            moved: Some(address).filter(|_| asked.redirects < MAX_REDIRECTS),
            redirects: asked.redirects + 1,
            ..known(earlier)
        };
        match outcome {
            Outcome::Done => match read() {
                Ok(rules) => (Settled::Done, known(rules)),
                Err(error) => {
                    tracing::warn!("{own}: {error}; all its pages count as reserved");
                    (dropped(Reason::Protocol), known(closed))
                }
            },
            Outcome::Redirect { to } if to.host_key() == *host && to.scheme() == scheme_of(own) => {
                let known = again(to.as_str().to_owned());
                let settled = match known.moved {
                    Some(_) => Settled::Redirected,
                    None => dropped(Reason::BadRedirect),
                };
                (settled, known)
            }
            Outcome::Redirect { .. } => (dropped(Reason::BadRedirect), known(absent)),
            Outcome::Unchanged => (dropped(Reason::Protocol), known(absent)),
            Outcome::Retry { reason, .. } => {
                let again = again(self.moved.unwrap_or_else(|| own.to_owned()));
                (dropped(*reason), again)
            }
            Outcome::Drop { reason } => (dropped(*reason), known(absent)),
        }
    }
}

/// The next request for a file at `own`: its address, and the redirects so far.
fn next<R>(
    known: Option<&FileRecord<R>>,
    own: &str,
    file: TermsFile,
    max_age: u64,
    now: u64,
) -> Option<(String, TermsFile, u8)> {
    match known {
        Some(FileRecord {
            moved: Some(moved),
            redirects,
            ..
        }) => Some((moved.clone(), file, *redirects)),
        Some(known) if known.at > 0 && now < known.at.saturating_add(max_age) => None,
        _ => Some((own.to_owned(), file, 0)),
    }
}

/// The addresses of the RSL files that a robots.txt names; `url` is any address of its host.
fn named_by(robots: &Robots, url: &PageUrl) -> Vec<String> {
    let named = robots.licenses().iter();
    let root = url.join("/robots.txt").ok();
    let named = named.filter_map(|written| root.as_ref()?.join(written).ok());
    named.map(|file| file.to_string()).collect()
}

/// Whether an RSL file is at a host.
fn is_at(file: &str, host: &HostKey) -> bool {
    PageUrl::parse(file).is_ok_and(|file| file.host_key() == *host)
}

fn scheme_of(address: &str) -> &str {
    address
        .split_once(':')
        .map_or(address, |(scheme, _)| scheme)
}

fn dropped(reason: Reason) -> Settled {
    Settled::Dropped { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;
    const PROHIBITED: &[u8] =
        b"<rsl><content url='/'><license><prohibits>search</prohibits></license></content></rsl>";
    const RSL: &str = "http://a.example/rsl.xml";

    fn host() -> HostKey {
        PageUrl::parse("http://a.example/").unwrap().host_key()
    }

    fn request(file: TermsFile, redirects: u8) -> TermsRequest {
        TermsRequest {
            file,
            scheme: "http",
            redirects,
        }
    }

    fn files() -> [TermsFile; 2] {
        [TermsFile::Tdmrep, TermsFile::Rsl(RSL.to_owned())]
    }

    /// What the file reserves now: what it says in the tests, everything, or nothing.
    fn state(files: &TermsFiles, file: &TermsFile) -> &'static str {
        let robots = Robots::parse("spoor", b"License: /rsl.xml");
        let url = PageUrl::parse("http://a.example/x").unwrap();
        let terms = files.terms(&robots, &url);
        match file {
            TermsFile::Tdmrep
                if files
                    .tdmrep
                    .as_ref()
                    .is_some_and(|r| r.rules == reserve_all()) =>
            {
                "all"
            }
            TermsFile::Tdmrep if terms.tdm_reservation == Some(true) => "said",
            TermsFile::Tdmrep => "nothing",
            TermsFile::Rsl(_) if !terms.rsl[0].read => "all",
            TermsFile::Rsl(_) if terms.rsl[0].prohibits == ["search"] => "said",
            TermsFile::Rsl(_) => "nothing",
        }
    }

    fn known(file: &TermsFile) -> TermsFiles {
        let body = match file {
            TermsFile::Tdmrep => br#"[{"location": "/x", "tdm-reservation": 1}]"#,
            TermsFile::Rsl(_) => PROHIBITED,
        };
        let asked = request(file.clone(), 0);
        let files = TermsFiles::default();
        let (settled, files) = files.after(&host(), &asked, &Outcome::Done, body, 1);
        assert_eq!((settled, state(&files, file)), (Settled::Done, "said"));
        files
    }

    #[test]
    fn trouble_keeps_what_was_reserved_and_an_answer_replaces_it() {
        let retry = Outcome::Retry {
            reason: Reason::Overloaded,
            retry_after: None,
            host_backs_off: true,
        };
        let gone = Outcome::Drop {
            reason: Reason::Gone,
        };
        for file in files() {
            let asked = request(file.clone(), 0);
            let is_rsl = file != TermsFile::Tdmrep;
            let open: &[u8] = if is_rsl {
                b"<rsl><content/></rsl>"
            } else {
                b"[]"
            };
            for (outcome, body, before, after) in [
                (&Outcome::Done, open, "nothing", "nothing"),
                (&Outcome::Done, b"[{", "all", "all"),
                (&retry, b"", "all", "said"),
                (
                    &gone,
                    b"",
                    if is_rsl { "all" } else { "nothing" },
                    if is_rsl { "all" } else { "nothing" },
                ),
            ] {
                for (files, expected) in [(TermsFiles::default(), before), (known(&file), after)] {
                    let (_, files) = files.after(&host(), &asked, outcome, body, 7);
                    assert_eq!(state(&files, &file), expected, "{file:?} {outcome:?}");
                }
            }
            let (_, files) = known(&file).after(&host(), &asked, &retry, b"", 7);
            let next = files.next_request(
                (&host(), "http"),
                &Robots::allow_all(),
                (true, true),
                DAY,
                7,
            );
            let (_, next) = next
                .filter(|(_, next)| next.file == file || is_rsl)
                .unwrap();
            assert!(next.file != file || next.redirects == 1);
        }
    }

    #[test]
    fn redirects_are_followed_on_the_host_and_end() {
        let to = PageUrl::parse("http://a.example/moved").unwrap();
        let outcome = Outcome::Redirect { to: to.clone() };
        for file in files() {
            let next = |files: &TermsFiles, now| {
                let asks = (file == TermsFile::Tdmrep, true);
                files.next_request((&host(), "http"), &Robots::allow_all(), asks, DAY, now)
            };
            let mut files = known(&file);
            for redirects in 0..MAX_REDIRECTS {
                let asked = request(file.clone(), redirects);
                let settled;
                (settled, files) = files.after(&host(), &asked, &outcome, b"", 7);
                assert_eq!(settled, Settled::Redirected);
                let expected = request(file.clone(), redirects + 1);
                assert_eq!(next(&files, 7), Some((to.clone(), expected)));
            }
            let asked = request(file.clone(), MAX_REDIRECTS);
            let (settled, files) = files.after(&host(), &asked, &outcome, b"", 7);
            let reason = Reason::BadRedirect;
            assert_eq!(settled, Settled::Dropped { reason });
            // Requested again at the maximum age of robots rules.
            assert_eq!(next(&files, 7), None);
            let again = next(&files, 7 + DAY);
            assert_eq!(again.map(|(_, next)| next), Some(request(file.clone(), 0)));
            let other = PageUrl::parse("http://b.example/").unwrap();
            let outcome = Outcome::Redirect { to: other };
            let (_, files) =
                known(&file).after(&host(), &request(file.clone(), 0), &outcome, b"", 7);
            let expected = if file == TermsFile::Tdmrep {
                "nothing"
            } else {
                "all"
            };
            assert_eq!(state(&files, &file), expected);
        }
    }

    #[test]
    fn the_files_that_a_robots_txt_or_a_page_names_are_requested() {
        let text = b"License: /rsl.xml\nLicense: https://b.example/\nUser-agent: *\nDisallow: /no";
        let robots = Robots::parse("spoor", text);
        let url = PageUrl::parse("http://a.example/x").unwrap();
        let mut files = known(&TermsFile::Tdmrep);
        let next = |files: &TermsFiles| {
            let next = files.next_request((&host(), "http"), &robots, (true, true), DAY, 1);
            next.map(|(url, _)| url.to_string())
        };
        assert_eq!(next(&files).as_deref(), Some(RSL));
        let terms = files.terms(&robots, &url);
        assert!(terms.rsl.len() == 2 && terms.rsl.iter().all(|rsl| !rsl.read));
        let asked = request(TermsFile::Rsl(RSL.to_owned()), 0);
        (_, files) = files.after(&host(), &asked, &Outcome::Done, PROHIBITED, 1);
        assert_eq!(next(&files), None, "the other is on another host");
        files.want(&["http://a.example/no".to_owned()], DAY, 1);
        assert_eq!(next(&files), None, "robots.txt forbids it");
        let wanted = "http://a.example/other".to_owned();
        files.want(&[wanted.clone(), RSL.to_owned()], DAY, 1);
        assert_eq!(next(&files), Some(wanted));
        let read: Vec<bool> = files.known_rsl(&url).iter().map(|rsl| rsl.read).collect();
        assert_eq!(read, [true, false, false]);
        let many: Vec<_> = (0..MAX_RSL_FILES)
            .map(|n| format!("http://a.example/{n}"))
            .collect();
        files.want(&many, DAY, 2);
        assert_eq!(files.rsl.len(), MAX_RSL_FILES);
        // Those that robots.txt names are requested all the same, and stay.
        let text: String = many
            .iter()
            .map(|file| format!("License: {file}0\n"))
            .collect();
        let more = Robots::parse("spoor", text.as_bytes());
        let (url, _) = files
            .next_request((&host(), "http"), &more, (false, true), DAY, 3)
            .unwrap();
        assert_eq!(url.as_str(), "http://a.example/00");
        // What robots.txt does not name is forgotten at the end of its time.
        for (file, record) in &mut files.rsl {
            record.moved.take_if(|_| file != "http://a.example/no");
        }
        let left = |now| {
            let mut files = files.clone();
            files.forget((&host(), "http"), &robots, DAY, now);
            let left = files.rsl.into_iter().map(|(file, _)| file);
            left.collect::<Vec<_>>()
        };
        assert_eq!(left(DAY).len(), MAX_RSL_FILES);
        assert_eq!(left(2 + DAY), [RSL, "http://a.example/no"]);
        assert_eq!(left(2 + 20 * DAY), [RSL]);
        // It has room again, and a page that names it again waits for it, with its earlier rules.
        let asked = request(TermsFile::Rsl(many[0].clone()), 0);
        (_, files) = files.after(&host(), &asked, &Outcome::Done, PROHIBITED, 3);
        let before = files.rsl.len();
        files.want(&[many[0].clone()], DAY, 3 + DAY);
        assert_eq!(
            (files.rsl.len(), next(&files)),
            (before, Some(many[0].clone()))
        );
        let record = files.rsl.iter().find(|(file, _)| *file == many[0]);
        assert!(record.is_some_and(|(_, record)| record.rules.is_some()));
        for n in 0..100 {
            let file = format!("http://a.example/x{n}");
            files.want(&[file], DAY, 2 * DAY * (n + 2));
        }
        assert_eq!(files.rsl.len(), 2 * MAX_RSL_FILES);
    }
}
