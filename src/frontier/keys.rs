//! How the frontier's keys are laid out in the store.
//!
//! | key | value |
//! |---|---|
//! | `M` | [`Meta`](super::record::Meta): format, counters, output offsets |
//! | `H host` | [`HostRecord`](super::record::HostRecord): clock, back-off, robots state |
//! | `B host 0 scheme` | the body of robots.txt |
//! | `T host 0 scheme` | [`TdmRecord`](super::host_files::TdmRecord): the rules of tdmrep.json |
//! | `r host 0 scheme` | [`RslRecord`](super::host_files::RslRecord)s by address: the RSL files of the host |
//! | `J host 0 scheme` | the robots rules changed: the `U` key at which to look again begins, or nothing |
//! | `U host 0 kind scheme path?query` | [`UrlRecord`](super::record::UrlRecord); kind `p`age, `i`mage or site`m`ap |
//! | `Q host 0 class rank` | the `U` key of a queued URL |
//! | `W due rank` | the `U` key of a URL that waits to be tried again |
//! | `V scheduled due seq` | the `U` key of a page to be visited again |
//! | `C image-U-key 0 page-url` | a context of an image that is not kept yet |
//! | `D id` | URL of the finished page with that number |
//! | `O U-key` | what redirects to that address state about its use: [`Terms`](crate::page::Terms) in JSON |
//! | `A group` | [`GroupRecord`](super::record::GroupRecord) of a group of hosts that backs off |
//! | `P host 0 prefix` | [`PrefixRecord`](super::record::PrefixRecord): the budget of a prefix; as `sitemaps:` what the sitemaps of the host have listed, and as `sitemaps:*` those of its domain |
//! | `F host 0 band bits simhash` | number of the page with that simhash |
//! | `G domain` | how many pages the registered domain has given |
//! | `R host 0 hash` | [`AltRecord`](super::images::alts::AltRecord) of an alt text on the pages of the host |
//! | `I sha256` | the file that was first kept with these bytes, whose SHA-256 is in hexadecimal |
//! | `w sha1` | the time and the address with which a body with this SHA-1, in bytes, was archived first |
//! | `S` | [`Sample`](super::control_sample::Sample): the control sample |
//! | `N number` | the `U` key of a link that the control sample may draw; numbers from 0 without a gap |
//! | `K U-key` | nothing; that link was drawn |
//! | `L` | [`Scores`](super::ratings::Scores): the rating of all links, and how far a re-rating has come |
//! | `E U-key` | [`Clues`](crate::page::Clues) of a link that a learning crawl knows, and how far on topic it was where it was fetched |
//! | `X` | what was learned, up to some example |
//! | `Z` | [`ImageLedger`](super::image_ledger::ImageLedger): what share of the requests goes to images |
//! | `Y number` | [`Example`](super::ratings::clues::Example) since then |
//! | `j place` | the pages that the judge of a learning crawl is calibrated by: its seeds and the last ones it saw |
//! | `o cell commit` | of several cells: [`Referral`](super::referral::Referral)s of that commit to another cell |
//! | `l` | of several cells: up to where a cell has read its log ([`LogPlace`](super::cells::LogPlace)) |
//! | `t` | the time of a cell's last flush |
//!
//! `class` is 0 for robots.txt that other hosts redirect to, 1 for pages and sitemaps, 2 for
//! images; `rank` is bucket, score and sequence number, so that the order of the bytes is the order
//! of leasing. `scheduled` is 1 for pages with their own schedule and 0 for the others, which
//! are not visited while `[recrawl]` is off. `bits` are 16 of the simhash's, the first, second,
//! third or fourth by `band` (0 to 3). Hosts contain no NUL byte, so none is a prefix of another's
//! keys. Everything about a host is stored under that host's name. Shared records (`A`, `G`) are
//! sums; if a file was kept twice (`I`), either may count as the first.
//!
//! Each cell ([`cell`](super::cell)) has these keys in its own space, except the shared ones
//! (`I`, `w`, `X`, `Y`, `j`). A `D` key is looked up in the cell that assigned its number.

use super::cell::CellId;
use super::record::GroupKey;
use crate::address::{HostKey, PageUrl};
use crate::page::{Bucket, TaskKind};

/// Sort key of a queued task: bucket, then score, then age. Its byte form has the same
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    pub bucket: Bucket,
    /// Bits of a non-negative score, which sort in the order of the numbers.
    score: u64,
    pub seq: u64,
}

impl Rank {
    pub fn new(bucket: Bucket, score: f64, seq: u64) -> Self {
        // The formulas give no negative scores and no NaN; `max` maps both to 0, and
        // adding 0.0 turns -0.0 into +0.0.
        let score = (score.max(0.0) + 0.0).to_bits();
        Self { bucket, score, seq }
    }

    /// The score.
    pub fn score(&self) -> f64 {
        f64::from_bits(self.score)
    }

    /// Whether this goes before `other` for another reason than age.
    pub fn is_better_than(&self, other: &Rank) -> bool {
        (self.bucket, self.score) < (other.bucket, other.score)
    }

    fn push(&self, key: &mut Vec<u8>) {
        key.push(self.bucket as u8);
        key.extend_from_slice(&self.score.to_be_bytes());
        key.extend_from_slice(&self.seq.to_be_bytes());
    }

    /// Reads the rank at the end of a queue key.
    pub fn of_key(key: &[u8]) -> Option<Self> {
        let tail = key.last_chunk::<17>()?;
        let bucket = *Bucket::ALL.get(usize::from(tail[0]))?;
        let number = |from: usize| {
            tail.get(from..from + 8)
                .and_then(|b| b.try_into().ok())
                .map(u64::from_be_bytes)
        };
        Some(Self {
            bucket,
            score: number(1)?,
            seq: number(9)?,
        })
    }
}

/// Queue classes of a host.
pub(super) mod class {
    pub const ROBOTS: u8 = 0;
    pub const PAGE: u8 = 1;
    pub const IMAGE: u8 = 2;
    /// How many there are.
    pub const ALL: usize = 3;
}

pub(super) const META: &[u8] = b"M";
pub(super) const HOSTS: &[u8] = b"H";
pub(super) const GROUPS: &[u8] = b"A";
pub(super) const URLS: &[u8] = b"U";
pub(super) const QUEUES: &[u8] = b"Q";
pub(super) const WAITING: &[u8] = b"W";
pub(super) const RECHECKS: &[u8] = b"J";
pub(super) const ALTS: &[u8] = b"R";
pub(super) const BODIES: &[u8] = b"w";
pub(super) const VISITS: &[u8] = b"V";
pub(super) const CONTEXTS: &[u8] = b"C";
pub(super) const SAMPLE: &[u8] = b"S";
pub(super) const LISTED: &[u8] = b"N";
pub(super) const DRAWN: &[u8] = b"K";
pub(super) const SCORES: &[u8] = b"L";
pub(super) const LEARNED: &[u8] = b"X";
pub(super) const EXAMPLES: &[u8] = b"Y";
pub(super) const JUDGED: &[u8] = b"j";
/// The prefix for the `U` key of their address.
pub(super) const CLUES: u8 = b'E';
pub(super) const IMAGES: &[u8] = b"Z";
/// What is to be added to other cells.
pub(super) const REFERRALS: &[u8] = b"o";
/// What pages taught and was not sent to other machines yet.
pub(super) const LESSONS: &[u8] = b"y";
/// The position up to which a cell has read what other machines have found for it.
pub(super) const LOG: &[u8] = b"l";
/// The time of the last flush, at which the pauses of a cell were correct.
pub(super) const FLUSHED_AT: &[u8] = b"t";
/// The prefix for a key of another space, followed by that space: see [`elsewhere`].
pub(super) const ELSEWHERE: u8 = 0xfe;

/// Every class with pairs that are facts by themselves, in the order of a dump; among the
/// queues these are only the errands. All other classes are derived. Add each new class
/// of facts here.
pub(super) const FACTS: [&[u8]; 24] = [
    SAMPLE, IMAGES, HOSTS, b"B", b"T", b"D", URLS, CONTEXTS, GROUPS, RECHECKS, b"P", b"G", b"I",
    BODIES, ALTS, DRAWN, SCORES, LEARNED, EXAMPLES, JUDGED, b"E", b"r", b"O", QUEUES,
];

/// The key of a group, which contains the group's name.
pub(super) fn group(group: &GroupKey) -> Vec<u8> {
    stored_group(&group.to_string())
}

/// The key of a group by its name, such as `address 192.0.2.1`.
pub(super) fn stored_group(name: &str) -> Vec<u8> {
    join(b'A', name.as_bytes())
}

/// The key of the features of the address with this `U` key.
pub(super) fn clues(url_key: &[u8]) -> Vec<u8> {
    join(CLUES, url_key)
}

/// The key of an example by its number.
pub(super) fn example(number: u64) -> Vec<u8> {
    join(b'Y', &number.to_be_bytes())
}

/// The key of what a page taught, by its cell and the commit of that cell.
pub(super) fn lesson(cell: CellId, commit: u64) -> Vec<u8> {
    let number = [&cell.number().to_be_bytes()[..], &commit.to_be_bytes()].concat();
    join(b'y', &number)
}

/// The key of a part of the judge's state, by its place.
pub(super) fn judged(place: u16) -> Vec<u8> {
    join(b'j', &place.to_be_bytes())
}

pub(super) fn host(host: &HostKey) -> Vec<u8> {
    join(b'H', host.as_str().as_bytes())
}

pub(super) fn robots_body(host: &HostKey, scheme: &str) -> Vec<u8> {
    by_scheme(b'B', host, scheme)
}

pub(super) fn rechecked(host: &HostKey, scheme: &str) -> Vec<u8> {
    by_scheme(b'J', host, scheme)
}

pub(super) fn tdmrep(host: &HostKey, scheme: &str) -> Vec<u8> {
    by_scheme(b'T', host, scheme)
}

pub(super) fn on_way(url_key: &[u8]) -> Vec<u8> {
    join(b'O', url_key)
}

pub(super) fn rsl(host: &HostKey, scheme: &str) -> Vec<u8> {
    by_scheme(b'r', host, scheme)
}

fn by_scheme(prefix: u8, host: &HostKey, scheme: &str) -> Vec<u8> {
    let mut key = join(prefix, host.as_str().as_bytes());
    key.push(0);
    key.push(scheme_byte(scheme));
    key
}

/// The host and scheme of a `B`, `J` or `T` key.
pub(super) fn host_and_scheme(key: &[u8]) -> Option<(HostKey, &'static str)> {
    let rest = key.get(1..)?;
    let nul = rest.iter().position(|b| *b == 0)?;
    let host = std::str::from_utf8(rest.get(..nul)?).ok()?;
    let scheme = match rest.get(nul + 1)? {
        b's' => "https",
        _ => "http",
    };
    Some((HostKey::from_stored(host), scheme))
}

pub(super) fn url(url: &PageUrl, kind: TaskKind) -> Vec<u8> {
    let (host, path) = (url.authority().as_bytes(), url.path_and_query().as_bytes());
    let kind = match kind {
        TaskKind::Image => b'i',
        TaskKind::Sitemap => b'm',
        TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => b'p',
    };
    let behind_host = [0, kind, scheme_byte(url.scheme())];
    // Each link of a page has one, so it is written in one piece.
    [URLS, host, &behind_host, path].concat()
}

/// The common prefix of all `U` keys of a host.
pub(super) fn urls_of(host: &HostKey) -> Vec<u8> {
    let mut key = join(b'U', host.as_str().as_bytes());
    key.push(0);
    key
}

/// The common prefix of the `U` keys of a host's sitemaps.
pub(super) fn sitemaps_of(host: &HostKey) -> Vec<u8> {
    let mut key = urls_of(host);
    key.push(b'm');
    key
}

/// The address and kind of a `U` key.
pub(super) fn url_of_key(key: &[u8]) -> Option<(PageUrl, TaskKind)> {
    let rest = key.strip_prefix(b"U")?;
    let nul = rest.iter().position(|b| *b == 0)?;
    let host = std::str::from_utf8(rest.get(..nul)?).ok()?;
    let kind = kind_of_key(key)?;
    let scheme = match rest.get(nul + 2)? {
        b's' => "https",
        _ => "http",
    };
    let path = std::str::from_utf8(rest.get(nul + 3..)?).ok()?;
    PageUrl::from_stored(&format!("{scheme}://{host}{path}"))
        .ok()
        .map(|url| (url, kind))
}

/// The kind of a `U` key.
pub(super) fn kind_of_key(key: &[u8]) -> Option<TaskKind> {
    let nul = key.iter().position(|b| *b == 0)?;
    Some(match key.get(nul + 1)? {
        b'i' => TaskKind::Image,
        b'm' => TaskKind::Sitemap,
        _ => TaskKind::Page,
    })
}

/// The static name of a scheme.
pub(super) fn scheme_name(scheme: &str) -> &'static str {
    if scheme == "https" { "https" } else { "http" }
}

/// The scheme byte of a `U` key.
pub(super) fn scheme_of_key(key: &[u8]) -> &'static str {
    let nul = key.iter().position(|b| *b == 0).unwrap_or(key.len());
    match key.get(nul + 2) {
        Some(b's') => "https",
        _ => "http",
    }
}

pub(super) fn queue_class(host: &HostKey, class: u8) -> Vec<u8> {
    let mut key = join(b'Q', host.as_str().as_bytes());
    key.push(0);
    key.push(class);
    key
}

pub(super) fn queue(host: &HostKey, class: u8, rank: &Rank) -> Vec<u8> {
    let mut key = queue_class(host, class);
    rank.push(&mut key);
    key
}

/// The first key after the entry with this rank, in the queue with this prefix.
pub(super) fn after_in_queue(queue: &[u8], rank: &Rank) -> Vec<u8> {
    let mut key = queue.to_vec();
    rank.push(&mut key);
    key.push(0);
    key
}

/// The name of the host, the class and the rank of a queue key.
pub(super) fn parts_of_queue_key(key: &[u8]) -> Option<(&[u8], u8, Rank)> {
    let rest = key.strip_prefix(QUEUES)?;
    let nul = rest.iter().position(|b| *b == 0)?;
    let (host, rest) = rest.split_at_checked(nul)?;
    let (class, rank) = rest.get(1..)?.split_first()?;
    let rank = Rank::of_key(rank).filter(|_| rank.len() == 17)?;
    Some((host, *class, rank))
}

/// The host of a queue key.
pub(super) fn host_of_queue_key(key: &[u8]) -> Option<HostKey> {
    let rest = key.strip_prefix(QUEUES)?;
    let nul = rest.iter().position(|b| *b == 0)?;
    std::str::from_utf8(rest.get(..nul)?)
        .ok()
        .map(HostKey::from_stored)
}

/// The first key after all queues of `host`.
pub(super) fn after_queues_of(host: &HostKey) -> Vec<u8> {
    let mut key = join(b'Q', host.as_str().as_bytes());
    key.push(1);
    key
}

pub(super) fn waiting(due: u64, rank: &Rank) -> Vec<u8> {
    let mut key = waiting_until(due);
    rank.push(&mut key);
    key
}

/// The common prefix of the keys of all URLs that wait until `due`.
pub(super) fn waiting_until(due: u64) -> Vec<u8> {
    join(b'W', &due.to_be_bytes())
}

pub(super) fn due_of_waiting_key(key: &[u8]) -> Option<u64> {
    key.get(1..9)?.try_into().ok().map(u64::from_be_bytes)
}

/// The common prefix of all coming visits of one kind.
pub(super) fn visits(scheduled: bool) -> [u8; 2] {
    [b'V', u8::from(scheduled)]
}

pub(super) fn visit(scheduled: bool, due: u64, seq: u64) -> Vec<u8> {
    let mut key = visits(scheduled).to_vec();
    key.extend_from_slice(&due.to_be_bytes());
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

pub(super) fn due_of_visit_key(key: &[u8]) -> Option<u64> {
    key.get(2..10)?.try_into().ok().map(u64::from_be_bytes)
}

pub(super) fn contexts_of(image_key: &[u8]) -> Vec<u8> {
    let mut key = join(b'C', image_key);
    key.push(0);
    key
}

pub(super) fn context(image_key: &[u8], page: &PageUrl) -> Vec<u8> {
    let mut key = contexts_of(image_key);
    key.extend_from_slice(page.as_str().as_bytes());
    key
}

/// The image's `U` key and the page of a `C` key.
pub(super) fn parts_of_context_key(key: &[u8]) -> Option<(&[u8], PageUrl)> {
    let nul = key.iter().rposition(|b| *b == 0)?;
    let page = std::str::from_utf8(key.get(nul + 1..)?).ok()?;
    Some((key.get(1..nul)?, PageUrl::from_stored(page).ok()?))
}

/// The key of what one commit refers to another cell.
pub(super) fn referrals(to: CellId, commit: u64) -> Vec<u8> {
    let mut key = join(b'o', &to.number().to_be_bytes());
    key.extend_from_slice(&commit.to_be_bytes());
    key
}

/// The cell and the commit of such a key.
pub(super) fn parts_of_referrals_key(key: &[u8]) -> Option<(u16, u64)> {
    let (to, commit) = key.strip_prefix(REFERRALS)?.split_first_chunk()?;
    let commit = commit.try_into().ok()?;
    Some((u16::from_be_bytes(*to), u64::from_be_bytes(commit)))
}

/// A key of another cell over the same store, to be written in the same batch.
pub(super) fn elsewhere(cell: CellId, key: &[u8]) -> Vec<u8> {
    let space = cell.space();
    join(ELSEWHERE, &[space.as_slice(), key].concat())
}

/// A key that a cell's batch writes in the shared space.
pub(super) fn shared(key: &[u8]) -> Vec<u8> {
    join(ELSEWHERE, key)
}

pub(super) fn document(id: u64) -> Vec<u8> {
    join(b'D', &id.to_be_bytes())
}

pub(super) fn prefix(host: &HostKey, prefix: &str) -> Vec<u8> {
    let mut key = of_host(b'P', host);
    key.extend_from_slice(prefix.as_bytes());
    key
}

/// The host and the prefix of a `P` key.
pub(super) fn parts_of_prefix_key(key: &[u8]) -> Option<(HostKey, String)> {
    let rest = std::str::from_utf8(key.strip_prefix(b"P")?).ok()?;
    let (host, prefix) = rest.split_once('\0')?;
    Some((HostKey::from_stored(host), prefix.to_owned()))
}

/// The common prefix of the keys of all simhashes that share the bits of one of four
/// bands with `simhash`.
pub(super) fn simhash_band(host: &HostKey, band: u8, simhash: u64) -> Vec<u8> {
    let bits = (simhash >> (16 * u32::from(band))) as u16;
    let mut key = of_host(b'F', host);
    key.push(band);
    key.extend_from_slice(&bits.to_be_bytes());
    key
}

pub(super) fn simhash(host: &HostKey, band: u8, simhash: u64) -> Vec<u8> {
    let mut key = simhash_band(host, band, simhash);
    key.extend_from_slice(&simhash.to_be_bytes());
    key
}

/// The simhash at the end of an `F` key.
pub(super) fn simhash_of_key(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// The key of an alt text; `alt` is a hash of the text.
pub(super) fn alt(host: &HostKey, alt: u64) -> Vec<u8> {
    let mut key = of_host(b'R', host);
    key.extend_from_slice(&alt.to_be_bytes());
    key
}

/// The host and the hash of an `R` key.
pub(super) fn parts_of_alt_key(key: &[u8]) -> Option<(HostKey, u64)> {
    let (rest, hash) = key.strip_prefix(b"R")?.split_last_chunk()?;
    let host = std::str::from_utf8(rest.strip_suffix(&[0])?).ok()?;
    Some((HostKey::from_stored(host), u64::from_be_bytes(*hash)))
}

pub(super) fn domain(domain: &str) -> Vec<u8> {
    join(b'G', domain.as_bytes())
}

pub(super) fn kept(sha256: &str) -> Vec<u8> {
    join(b'I', sha256.as_bytes())
}

/// The key of a body in the archive, by its SHA-1.
pub(super) fn stored_body(sha1: &[u8; 20]) -> Vec<u8> {
    join(b'w', sha1)
}

/// The digest of a `w` key; `None` if it is not one.
pub(super) fn sha1_of_key(key: &[u8]) -> Option<[u8; 20]> {
    key.strip_prefix(BODIES)?.try_into().ok()
}

/// The digest of an `I` key; `None` if it is not one.
pub(super) fn sha256_of_key(key: &[u8]) -> Option<&str> {
    let digest = std::str::from_utf8(key.strip_prefix(b"I")?).ok()?;
    let is_hex = digest
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    (digest.len() == 64 && is_hex).then_some(digest)
}

/// The key of an entry in the list that the control sample draws from.
pub(super) fn listed(number: u64) -> Vec<u8> {
    join(b'N', &number.to_be_bytes())
}

/// The key of the mark of a drawn link, by its `U` key.
pub(super) fn drawn(url_key: &[u8]) -> Vec<u8> {
    join(b'K', url_key)
}

fn of_host(class: u8, host: &HostKey) -> Vec<u8> {
    let mut key = join(class, host.as_str().as_bytes());
    key.push(0);
    key
}

fn scheme_byte(scheme: &str) -> u8 {
    if scheme == "https" { b's' } else { b'h' }
}

fn join(prefix: u8, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(rest.len() + 24);
    key.push(prefix);
    key.extend_from_slice(rest);
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bucket() -> impl Strategy<Value = Bucket> {
        proptest::sample::select(Bucket::ALL.to_vec())
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn queue_keys_sort_as_ranks(
            a in (bucket(), 0.0..1e300_f64, any::<u64>()),
            b in (bucket(), 0.0..1e300_f64, any::<u64>()),
        ) {
            let host = HostKey::from_stored("example.org");
            let a = Rank::new(a.0, a.1, a.2);
            let b = Rank::new(b.0, b.1, b.2);
            let (ka, kb) = (queue(&host, 1, &a), queue(&host, 1, &b));
            prop_assert_eq!(a.cmp(&b), ka.cmp(&kb));
            prop_assert_eq!(Rank::of_key(&ka), Some(a));
            prop_assert_eq!(host_of_queue_key(&ka), Some(host.clone()));
            prop_assert_eq!(parts_of_queue_key(&ka), Some((&b"example.org"[..], 1, a)));
            let after = after_in_queue(&queue_class(&host, 1), &a);
            prop_assert!(after > ka && (kb <= ka || after < kb));
            prop_assert!(after_queues_of(&host) > ka);
        }

        #[test]
        fn url_keys_name_their_url(
            host in "[a-z]{1,8}(\\.[a-z]{2,4}){1,2}", path in "/[a-z%/ü]{0,12}", https: bool,
            kind in proptest::sample::select(vec![TaskKind::Page, TaskKind::Image, TaskKind::Sitemap])
        ) {
            let scheme = if https { "https" } else { "http" };
            let address = PageUrl::parse(&format!("{scheme}://{host}:8080{path}?q")).unwrap();
            let key = url(&address, kind);
            prop_assert_eq!(url_of_key(&key), Some((address, kind)));
            prop_assert_eq!(scheme_of_key(&key), scheme);
        }
    }

    #[test]
    fn odd_scores_have_a_rank() {
        for odd in [f64::NAN, -1.0, -0.0] {
            assert_eq!(
                Rank::new(Bucket::Low, odd, 1),
                Rank::new(Bucket::Low, 0.0, 1)
            );
        }
        assert!(Rank::new(Bucket::Low, f64::INFINITY, 1) > Rank::new(Bucket::Low, 1e308, 1));
        assert!(Rank::new(Bucket::High, 9.0, 1) < Rank::new(Bucket::Low, 1.0, 1));
    }
}
