//! The effect of another rating on stored records.

mod drawn;

use std::sync::Arc;

use super::*;
use crate::ratings::{self, Scores};
use crate::topic::strategy::{self, Score};

over_all! {
    a_changed_rating_is_taken_at_opening_and_goes_on_after_a_crash
}

/// Scores are `(document + anchor) * weight * (1 - keyword)`, or 0 without focus.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rated {
    weight: f64,
    high: f64,
    razor: f64,
    /// The one keyword; its score is its share of the anchor's words.
    keyword: &'static str,
    focused: bool,
}

const FIRST: Rated = Rated {
    weight: 1.0,
    high: 100.0,
    razor: 1_000.0,
    keyword: "cat",
    focused: true,
};

impl Rated {
    fn bucket(&self, score: f64) -> Option<Bucket> {
        match (self.focused, score) {
            (false, _) => Some(Bucket::Normal),
            (true, s) if s <= self.high => Some(Bucket::High),
            (true, s) if s <= self.razor => Some(Bucket::Low),
            (true, _) => None,
        }
    }
}

impl strategy::Strategy for Rated {
    fn link(&self, _: &PageUrl, parts: &LinkParts) -> Score {
        let score = (parts.document + parts.anchor) * self.weight * (1.0 - parts.keyword);
        let score = if self.focused { score } else { 0.0 };
        (score, self.bucket(score))
    }

    fn image(&self, document: f64) -> Score {
        let score = if self.focused { document } else { 0.0 };
        (score, self.bucket(score))
    }

    fn listed(&self) -> Score {
        let score = if self.focused { self.razor } else { 0.0 };
        (score, Some(Bucket::Normal))
    }

    fn formula(&self, _: &PageUrl, parts: &LinkParts) -> String {
        format!("{parts:?}")
    }

    fn prefers(&self) -> bool {
        self.focused
    }
}

impl Rating for Rated {
    fn digest(&self) -> u64 {
        let numbers = [self.weight, self.high, self.razor, f64::from(self.focused)];
        numbers
            .iter()
            .fold(0, |sum, n| sum.wrapping_mul(31) ^ n.to_bits())
    }

    fn keywords(&self) -> u64 {
        self.keyword
            .bytes()
            .fold(7, |sum, b| sum * 31 + u64::from(b))
    }

    fn keyword(&self, anchor: &str) -> f64 {
        let words: Vec<&str> = anchor.split(' ').collect();
        words.iter().filter(|w| **w == self.keyword).count() as f64 / words.len() as f64
    }
}

/// A link from a page whose words were rated by `rated`.
fn link(rated: &Rated, address: &str, document: f64, anchor: &str) -> NewTask {
    let parts = LinkParts {
        document,
        anchor: anchor.len() as f64,
        keyword: rated.keyword(anchor),
    };
    let target = url(address);
    let (score, bucket) = strategy::Strategy::link(rated, &target, &parts);
    NewTask {
        url: target,
        bucket,
        score,
        parts: Some(parts),
        anchor: Some(anchor.to_owned()),
        clues: None,
    }
}

fn effects(rated: &Rated, links: Vec<NewTask>) -> Effects {
    Effects {
        links,
        keywords: Some(rated.keywords()),
        ..Effects::default()
    }
}

/// A frontier that is rated by [`FIRST`] and has fetched one seed with these links: an
/// address each, with the perplexity of its page, which no anchor changes.
fn with_links(path: &Path, links: &[(&str, f64)]) -> (Frontier, u64) {
    let mut f = open(path, 0);
    assert!(!f.set_rating(Arc::new(FIRST)).unwrap(), "nothing to rate");
    f.add_seeds(&[url("http://s.org/")], 0).unwrap();
    let mut now = 0;
    let task = lease(&mut f, &mut now).unwrap();
    let links = links
        .iter()
        .map(|(a, document)| link(&FIRST, a, *document, ""));
    let effects = effects(&FIRST, links.collect());
    finish(&mut f, &task, Outcome::Done, effects, now);
    (f, now)
}

/// Re-rates everything; the store must hold together after every slice.
fn rescore_all(f: &mut Frontier, now: u64) -> Rescored {
    loop {
        assert!(f.is_rescoring());
        let done = f.rescore_slice(now).unwrap();
        check(f);
        if let Some(done) = done {
            assert!(!f.is_rescoring());
            assert_eq!(f.rescore_slice(now).unwrap(), None);
            assert_eq!(f.rescored(), done);
            return done;
        }
    }
}

fn known(f: &Frontier, address: &str) -> UrlRecord {
    f.look_up(&url(address), TaskKind::Page).unwrap().unwrap()
}

fn rest(f: &mut Frontier, now: &mut u64) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(task) = lease(f, now) {
        order.push(task.url.as_str().to_owned());
        done(f, &task, vec![], *now);
    }
    order
}

const RAZORED: State = State::Dropped {
    reason: Reason::Razor,
};

/// `n` links on three hosts, each 10 worse than the one before.
fn ladder(n: usize) -> Vec<(String, f64)> {
    let address = |i: usize| format!("http://h{}.org/{i}", i % 3);
    (1..=n).map(|i| (address(i), 10.0 * i as f64)).collect()
}

fn with_ladder(path: &Path, n: usize) -> (Frontier, u64) {
    let ladder = ladder(n);
    let links: Vec<(&str, f64)> = ladder.iter().map(|(a, s)| (a.as_str(), *s)).collect();
    with_links(path, &links)
}

#[test]
fn other_boundaries_move_raze_and_bring_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_ladder(folder.path(), 30);
    assert_eq!(f.counts().queued, [0, 10, 0, 0, 20]);
    assert!(!f.set_rating(Arc::new(FIRST)).unwrap(), "the same");
    let narrow = Rated {
        high: 50.0,
        razor: 200.0,
        ..FIRST
    };
    assert!(f.set_rating(Arc::new(narrow)).unwrap());
    assert!(!f.is_exhausted());
    let came = rescore_all(&mut f, now);
    let expected = Rescored {
        seen: 31,
        rescored: 5,
        moved: 5,
        razored: 10,
        revived: 0,
    };
    assert_eq!(came, expected);
    assert_eq!(f.counts().queued, [0, 5, 0, 0, 15]);
    assert_eq!(f.counts().dropped[&Reason::Razor], 10);

    // Half the weight: the ranks change, and links above the razor return.
    let light = Rated {
        weight: 0.5,
        ..narrow
    };
    assert!(f.set_rating(Arc::new(light)).unwrap());
    let came = rescore_all(&mut f, now);
    assert_eq!((came.rescored, came.moved), (20, 5));
    assert_eq!((came.razored, came.revived), (0, 10));
    let record = known(&f, "http://h0.org/30");
    assert_eq!((record.score, record.bucket), (150.0, Bucket::Low));
    let ladder = ladder(30);
    let best_first: Vec<&String> = ladder.iter().map(|(address, _)| address).collect();
    let order = rest(&mut f, &mut now);
    assert_eq!(order.iter().collect::<Vec<_>>(), best_first);
}

#[test]
fn the_razor_holds_before_anything_is_rated_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_ladder(folder.path(), 30);
    let narrow = Rated {
        razor: 100.0,
        ..FIRST
    };
    f.set_rating(Arc::new(narrow)).unwrap();
    for _ in 0..100 {
        // While links are re-rated there is always something to do at once.
        assert_eq!(f.next_event(), Some(0));
        now += 60_000;
        match f.lease(now).unwrap() {
            Some(task) if task.kind == TaskKind::Robots => {
                robots(&mut f, &task, RobotsAnswer::Missing, now);
            }
            Some(task) => {
                assert!(task.score <= 100.0);
                done(&mut f, &task, vec![], now);
            }
            None => {}
        }
    }
    assert_eq!(f.counts().documents, 11);
    let came = rescore_all(&mut f, now);
    assert_eq!(
        came.razored, 0,
        "all were met when they would have been leased"
    );
    assert_eq!(f.counts().dropped[&Reason::Razor], 20);
    // The record keeps its score, so a wider razor brings it back.
    f.set_rating(Arc::new(FIRST)).unwrap();
    assert_eq!(rescore_all(&mut f, now).revived, 20);
}

fn a_changed_rating_is_taken_at_opening_and_goes_on_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let (f, now) = with_ladder(folder.path(), 30);
    f.close().unwrap();
    let narrow = Rated {
        razor: 100.0,
        ..FIRST
    };
    let mut f = open(folder.path(), now);
    assert_eq!(f.rescore_slice(now).unwrap(), None, "no rating was set");
    assert!(f.set_rating(Arc::new(narrow)).unwrap());
    for _ in 0..2 {
        assert_eq!(f.rescore_slice(now).unwrap(), None);
    }
    let before = f.rescored();
    assert_eq!(before.seen, 14);
    assert!(before.razored > 0);
    // A simulated crash: nothing is closed cleanly.
    drop(f);
    let mut f = open(folder.path(), now);
    assert!(!f.set_rating(Arc::new(narrow)).unwrap(), "begun already");
    let came = rescore_all(&mut f, now);
    assert_eq!((came.seen, came.razored), (31 - 14, 20 - before.razored));
    drop(f);
    let mut f = open(folder.path(), now);
    f.set_rating(Arc::new(narrow)).unwrap();
    assert!(!f.is_rescoring());
    // A further change half-way restarts it.
    f.set_rating(Arc::new(FIRST)).unwrap();
    assert_eq!(f.rescore_slice(now).unwrap(), None);
    f.set_rating(Arc::new(narrow)).unwrap();
    assert_eq!(rescore_all(&mut f, now).seen, 31);
    assert_eq!(f.counts().dropped[&Reason::Razor], 20);

    // A store without a record of its rating is re-rated at once.
    let mut batch = store::Batch::default();
    batch.delete(keys::SCORES.to_vec());
    f.ledger.store_mut().apply(batch).unwrap();
    assert!(f.set_rating(Arc::new(FIRST)).unwrap());
    assert_eq!(rescore_all(&mut f, now).revived, 20);
}

#[test]
fn an_import_goes_on_rating_where_the_export_was() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, now) = with_ladder(&folder.path().join("first"), 30);
    let narrow = Rated {
        razor: 100.0,
        keyword: "dog",
        ..FIRST
    };
    f.set_rating(Arc::new(narrow)).unwrap();
    assert_eq!(f.rescore_slice(now).unwrap(), None);
    let (lines, found) = exported(f.ledger.store());
    assert!(found.is_whole());
    assert!(lines.iter().any(|l| l.starts_with("{\"fact\":\"scores\"")));
    let second = folder.path().join("second");
    drop(imported(&lines, &second));
    let mut g = open(&second, now);
    g.set_rating(Arc::new(narrow)).unwrap();
    let stored = |f: &Frontier| -> Scores {
        let bytes = f.ledger.store().get(keys::SCORES).unwrap().unwrap();
        postcard::from_bytes(&bytes).unwrap()
    };
    assert_eq!(stored(&f), stored(&g));
    let before = f.rescored();
    let (came, all) = (rescore_all(&mut g, now), rescore_all(&mut f, now));
    assert_eq!((all.seen, all.razored), (31, 20));
    assert_eq!((came.seen, came.razored), (31 - 7, 20 - before.razored));
}

#[test]
fn links_of_pages_in_work_are_rated_by_the_rating_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let (mut f, mut now) = with_links(folder.path(), &[("http://a.org/", 1.0)]);
    let task = lease(&mut f, &mut now).unwrap();
    let other = Rated {
        weight: 2.0,
        keyword: "dog",
        ..FIRST
    };
    f.set_rating(Arc::new(other)).unwrap();
    rescore_all(&mut f, now);
    // Rated under the first rating; the long anchor is rated in full.
    let long = "dog ".repeat(MAX_ANCHOR).trim_end().to_owned();
    let links = vec![
        link(&FIRST, "http://b.org/cat", 90.0, "cat dog"),
        link(&FIRST, "http://b.org/far", 600.0, "cat cat"),
        link(&FIRST, "http://b.org/long", 90.0, &long),
    ];
    assert_eq!(links[1].score, 0.0);
    let effects = effects(&FIRST, links);
    finish(&mut f, &task, Outcome::Done, effects, now);
    check(&f);
    let cat = known(&f, "http://b.org/cat");
    assert_eq!(cat.score, (90.0 + 7.0) * 2.0 * 0.5);
    assert_eq!((cat.bucket, cat.anchor()), (Bucket::High, Some("cat dog")));
    let far = known(&f, "http://b.org/far");
    assert_eq!((far.state, far.score), (RAZORED, 607.0 * 2.0));
    let long = known(&f, "http://b.org/long");
    assert_eq!(
        (long.score, long.anchor()),
        (0.0, None),
        "too long to be kept"
    );
}

#[test]
fn new_keywords_rate_the_anchors_that_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = open(folder.path(), 0);
    f.set_rating(Arc::new(FIRST)).unwrap();
    f.add_seeds(&[url("http://s.org/")], 0).unwrap();
    let mut now = 0;
    let task = lease(&mut f, &mut now).unwrap();
    let long = format!("cat {}", "x".repeat(MAX_ANCHOR));
    let links = vec![
        link(&FIRST, "http://a.org/cat", 150.0, "cat cat"),
        link(&FIRST, "http://a.org/dog", 150.0, "dog dog"),
        link(&FIRST, "http://a.org/razored", 2_000.0, "dog"),
        link(&FIRST, "http://a.org/long", 100.0, &long),
    ];
    finish(&mut f, &task, Outcome::Done, effects(&FIRST, links), now);
    assert_eq!(known(&f, "http://a.org/razored").state, RAZORED);
    let before = known(&f, "http://a.org/long");
    let dogs = Rated {
        keyword: "dog",
        ..FIRST
    };
    assert!(f.set_rating(Arc::new(dogs)).unwrap());
    let came = rescore_all(&mut f, now);
    assert_eq!((came.rescored, came.moved, came.revived), (2, 2, 1));
    let dog = known(&f, "http://a.org/dog");
    assert_eq!((dog.score, dog.parts.unwrap().keyword), (0.0, 1.0));
    assert_eq!(known(&f, "http://a.org/cat").score, 157.0);
    assert_eq!(known(&f, "http://a.org/long"), before, "as it was met");
    // Found again through a better link, it has that link's words.
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), "http://a.org/dog");
    let better = link(&dogs, "http://a.org/cat", 1.0, "a dog");
    finish(
        &mut f,
        &task,
        Outcome::Done,
        effects(&dogs, vec![better]),
        now,
    );
    assert_eq!(known(&f, "http://a.org/cat").anchor(), Some("a dog"));
    // A redirect carries the words along, and finished pages need none.
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(task.url.as_str(), "http://a.org/razored");
    let to = url("http://b.org/");
    finish(
        &mut f,
        &task,
        Outcome::Redirect { to },
        Effects::default(),
        now,
    );
    assert_eq!(known(&f, "http://b.org/").anchor(), Some("dog"));
    for done in ["http://a.org/razored", "http://a.org/dog"] {
        assert_eq!(known(&f, done).anchor(), None);
    }
    check(&f);
}

#[test]
fn what_is_leased_moves_and_is_razored_when_it_would_be_leased_again() {
    let folder = tempfile::tempdir().unwrap();
    let links = [("http://a.org/1", 50.0), ("http://a.org/2", 60.0)];
    let (mut f, mut now) = with_links(folder.path(), &links);
    let task = lease(&mut f, &mut now).unwrap();
    let narrow = Rated {
        high: 10.0,
        razor: 20.0,
        ..FIRST
    };
    f.set_rating(Arc::new(narrow)).unwrap();
    assert_eq!(rescore_all(&mut f, now).razored, 1);
    let leased = known(&f, "http://a.org/1");
    assert_eq!((leased.state, leased.bucket), (State::Queued, Bucket::Low));
    assert_eq!(f.leased(), 1);
    let retry = |host_backs_off| Outcome::Retry {
        reason: Reason::Timeout,
        retry_after: None,
        host_backs_off,
    };
    finish(&mut f, &task, retry(true), Effects::default(), now);
    check(&f);
    assert_eq!(lease(&mut f, &mut now), None);
    assert_eq!(known(&f, "http://a.org/1").state, RAZORED);
    check(&f);
    // Finished after it moved, it leaves the queue at its present place.
    f.set_rating(Arc::new(FIRST)).unwrap();
    assert_eq!(rescore_all(&mut f, now).revived, 2);
    now += 1_000_000;
    let task = lease(&mut f, &mut now).unwrap();
    let heavy = Rated {
        weight: 3.0,
        ..FIRST
    };
    f.set_rating(Arc::new(heavy)).unwrap();
    assert_eq!(rescore_all(&mut f, now).moved, 2);
    done(&mut f, &task, vec![], now);
    check(&f);
    assert_eq!(f.counts().queued, [0, 0, 0, 0, 1]);
}

#[test]
fn what_waits_is_rated_anew() {
    let folder = tempfile::tempdir().unwrap();
    let links = [("http://a.org/1", 50.0), ("http://b.org/2", 60.0)];
    let (mut f, mut now) = with_links(folder.path(), &links);
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        let retry = Outcome::Retry {
            reason: Reason::Protocol,
            retry_after: None,
            host_backs_off: false,
        };
        finish(&mut f, &task, retry, Effects::default(), now);
    }
    assert_eq!(f.counts().waiting, 2);
    let narrow = Rated {
        high: 10.0,
        razor: 55.0,
        ..FIRST
    };
    f.set_rating(Arc::new(narrow)).unwrap();
    let came = rescore_all(&mut f, now);
    assert_eq!((came.moved, came.razored), (1, 1));
    assert_eq!(f.counts().waiting, 1);
    let task = lease(&mut f, &mut now).unwrap();
    assert_eq!(
        (task.url.as_str(), task.bucket),
        ("http://a.org/1", Bucket::Low)
    );
}

#[test]
fn images_follow_their_pages_into_focus_and_out() {
    let folder = tempfile::tempdir().unwrap();
    let unfocused = Rated {
        focused: false,
        ..FIRST
    };
    let mut f = open(folder.path(), 0);
    f.set_rating(Arc::new(unfocused)).unwrap();
    let seeds = ["http://s.org/", "http://s.org/2"].map(url);
    f.add_seeds(&seeds, 0).unwrap();
    let mut now = 0;
    for documents in [[700.0, 1_500.0], [300.0, 1_400.0]] {
        let task = lease(&mut f, &mut now).unwrap();
        let images = ["http://i.org/a", "http://i.org/b"]
            .into_iter()
            .zip(documents);
        let images = images.map(|(name, document)| image(name, task.url.as_str(), document));
        let effects = Effects {
            images: images.collect(),
            ..Effects::default()
        };
        finish(&mut f, &task, Outcome::Done, effects, now);
    }
    let of = |f: &Frontier, name: &str| {
        let known = f.look_up(&url(name), TaskKind::Image).unwrap().unwrap();
        (known.state, known.bucket, known.score)
    };
    for name in ["http://i.org/a", "http://i.org/b"] {
        assert_eq!(of(&f, name), (State::Queued, Bucket::Normal, 0.0));
    }
    f.set_rating(Arc::new(FIRST)).unwrap();
    assert_eq!(rescore_all(&mut f, now).razored, 1);
    assert_eq!(
        of(&f, "http://i.org/a"),
        (State::Queued, Bucket::Low, 300.0)
    );
    assert_eq!(of(&f, "http://i.org/b"), (RAZORED, Bucket::Low, 1_400.0));
    assert_eq!(f.contexts(&url("http://i.org/b")).unwrap().len(), 2);
    f.set_rating(Arc::new(unfocused)).unwrap();
    assert_eq!(rescore_all(&mut f, now).revived, 1);
    assert_eq!(
        of(&f, "http://i.org/b"),
        (State::Queued, Bucket::Normal, 0.0)
    );
}

#[test]
fn the_scope_goes_before_what_the_razor_gives_back() {
    let folder = tempfile::tempdir().unwrap();
    let links = [("http://a.org/1", 2_000.0), ("http://b.org/2", 2_000.0)];
    let (mut f, now) = with_links(folder.path(), &links);
    let text = "[job]\nname = \"test\"\n[scope]\nreject = ['host:b.org']";
    let scope = Scope::new(Config::parse(text, "test.toml").unwrap().settings.scope);
    f.set_scope(scope).unwrap();
    while f.rescope_slice(now).unwrap().is_none() {}
    let wide = Rated {
        razor: 5_000.0,
        ..FIRST
    };
    f.set_rating(Arc::new(wide)).unwrap();
    assert_eq!(rescore_all(&mut f, now).revived, 1);
    let reason = Reason::Scope;
    assert_eq!(known(&f, "http://b.org/2").state, State::Dropped { reason });
    // And back: links above the razor are marked first.
    f.set_rating(Arc::new(FIRST)).unwrap();
    assert_eq!(rescore_all(&mut f, now).razored, 1);
    assert_eq!(known(&f, "http://b.org/2").state, RAZORED);
}

#[test]
fn fetched_pages_are_visited_again_despite_the_razor() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path()).unwrap();
    let text = "[job]\nname = \"test\"\n[recrawl]\nafter = \"1h\"";
    let config = Config::parse(text, "test.toml").unwrap();
    let policy = test_policy().with_recrawl(&config.recrawl);
    let mut f = Frontier::open(store, policy, Scope::new(config.settings.scope), 0).unwrap();
    f.set_rating(Arc::new(FIRST)).unwrap();
    f.add_seeds(&[url("http://s.org/")], 0).unwrap();
    let mut now = 0;
    for links in [vec![link(&FIRST, "http://a.org/", 90.0, "")], vec![]] {
        let task = lease(&mut f, &mut now).unwrap();
        finish(&mut f, &task, Outcome::Done, effects(&FIRST, links), now);
    }
    let heavy = Rated {
        weight: 100.0,
        ..FIRST
    };
    f.set_rating(Arc::new(heavy)).unwrap();
    let came = rescore_all(&mut f, now);
    assert_eq!((came.razored, came.rescored), (0, 0), "nothing is queued");
    for _ in 0..2 {
        let task = lease(&mut f, &mut now).unwrap();
        if task.url.as_str() == "http://a.org/" {
            assert_eq!((task.bucket, task.score), (Bucket::Low, 9_000.0));
        }
        finish(&mut f, &task, Outcome::Done, Effects::default(), now);
    }
    check(&f);
}

const RATINGS: [Rated; 4] = [
    FIRST,
    Rated {
        weight: 0.3,
        high: 40.0,
        razor: 300.0,
        ..FIRST
    },
    Rated {
        keyword: "dog",
        razor: 200.0,
        ..FIRST
    },
    Rated {
        focused: false,
        keyword: "dog",
        ..FIRST
    },
];

const ANCHORS: [&str; 5] = ["", "cat", "dog", "a cat and a dog", "neither"];

proptest! {
    #![proptest_config(spoor_testing::cases!(48))]
    /// For any sequence of other ratings, slices, leases, pages of former ratings and
    /// crashes: at the end every link has the score and the bucket of the current rating
    /// for its parts, these have the keyword score of its words, and it is queued where
    /// it is below the razor.
    #[test]
    fn at_the_end_all_is_as_the_rating_has_it(
        moves in proptest::collection::vec(
            (0..7_usize, proptest::collection::vec((2..30_usize, 0..1_500_u32, 0..5_usize), 0..6)),
            1..50
        ),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut now = 1_000_000;
        let mut in_force = FIRST;
        let mut f = open(folder.path(), now);
        f.set_rating(Arc::new(in_force)).unwrap();
        f.add_seeds(&[address(0), address(1)], now).unwrap();
        // Leased pages, with the rating of the time when they were.
        let mut open_tasks: Vec<(Task, Rated)> = Vec::new();
        // Pages that were leased while links were re-rated.
        let mut open_at_rerating: Vec<PageUrl> = Vec::new();
        for (step, links) in moves {
            now += 40_000;
            match step {
                0 => {
                    in_force = RATINGS[links.len() % RATINGS.len()];
                    f.set_rating(Arc::new(in_force)).unwrap();
                }
                1 => {
                    open_at_rerating.extend(open_tasks.iter().map(|(task, _)| task.url.clone()));
                    f.rescore_slice(now).unwrap();
                }
                2 if links.len() > 3 => {
                    drop(f);
                    open_tasks.clear();
                    f = open(folder.path(), now);
                    f.set_rating(Arc::new(in_force)).unwrap();
                }
                3 | 4 => if let Some(task) = f.lease(now).unwrap() {
                    match task.kind {
                        TaskKind::Robots => { robots(&mut f, &task, RobotsAnswer::Missing, now); }
                        _ => open_tasks.push((task, in_force)),
                    }
                },
                _ => if let Some((task, rated)) = open_tasks.pop() {
                    let retry = Outcome::Retry {
                        reason: Reason::Protocol,
                        retry_after: None,
                        host_backs_off: links.len() == 1,
                    };
                    if links.len() < 2 {
                        finish(&mut f, &task, retry, Effects::default(), now);
                    } else if links.len() == 2 {
                        let to = address(links[0].0);
                        finish(&mut f, &task, Outcome::Redirect { to }, Effects::default(), now);
                    } else {
                        let page = task.url.as_str().to_owned();
                        let images = links.iter().map(|(n, document, _)| {
                            let name = format!("http://i.org/{n}");
                            image(&name, &page, f64::from(*document + 1))
                        });
                        let all = Effects {
                            images: images.collect(),
                            ..effects(&rated, links
                                .iter()
                                .map(|(n, document, anchor)| {
                                    let document = f64::from(*document + 1);
                                    link(&rated, address(*n).as_str(), document, ANCHORS[*anchor])
                                })
                                .collect())
                        };
                        finish(&mut f, &task, Outcome::Done, all, now);
                    }
                },
            }
            check(&f);
        }
        while f.is_rescoring() {
            f.rescore_slice(now).unwrap();
            check(&f);
        }
        let mut wrong = Vec::new();
        let mut records = Vec::new();
        f.ledger.store().scan(b"U", &[], &mut |key, value| {
            records.push((key.to_vec(), postcard::from_bytes::<UrlRecord>(value).unwrap()));
            ControlFlow::Continue(())
        }).unwrap();
        for (key, record) in records {
            let (url, kind) = keys::url_of_key(&key).unwrap();
            if record.bucket == Bucket::Seed || record.was_fetched() {
                continue;
            }
            let worth = ratings::worth(&in_force, f.ledger.store(), kind, &key, &record, true).unwrap();
            let Some(worth) = worth else {
                // An image that redirected, whose words went on with it.
                prop_assert!(matches!(record.state, State::Redirected { .. }), "{}", url);
                continue;
            };
            let as_rated = record.score == worth.score
                && record.bucket == worth.bucket_or_low()
                && record.parts == worth.parts;
            let right = match record.state {
                State::Queued | State::Waiting { .. } => {
                    // It is dropped before its next lease, however the lease ended.
                    let leased = f.schedule.is_leased(&url.host_key(), &key);
                    let kept = leased || open_at_rerating.contains(&url);
                    as_rated && (worth.bucket.is_some() || kept)
                }
                RAZORED => as_rated && worth.bucket.is_none(),
                State::Dropped { .. } => as_rated,
                _ => true,
            };
            if !right {
                wrong.push(format!("{url}: {record:?}, {worth:?}"));
            }
        }
        prop_assert!(wrong.is_empty(), "{:?}", wrong);
        // None of the images kept so far is requested.
        for _ in 0..100 {
            now += 40_000;
            let Some(task) = f.lease(now).unwrap() else { break };
            if task.kind == TaskKind::Robots {
                robots(&mut f, &task, RobotsAnswer::Missing, now);
            } else if task.bucket != Bucket::Seed && task.kind == TaskKind::Page {
                let parts = task.parts.expect("a link has parts");
                let (_, bucket) = strategy::Strategy::link(&in_force, &task.url, &parts);
                prop_assert!(bucket.is_some(), "{}", task.url);
            }
        }
    }
}
