//! Pictures and the words around them, where pages and pictures are in different cells.

use std::time::Duration;

use super::*;
use crate::Recrawl;
use crate::cells::{Amend, LogPlace, Offer, OutboxChange};
use crate::outcome::{Finished, OutputEdit, Written};
use crate::page::{AltKind, Reason, Terms};
use crate::record::State;
use crate::tests::image;

const SECOND: Duration = Duration::from_secs(1);

/// What the outputs would hold: by the address of a kept picture, the pages around it, and what
/// was changed later.
#[derive(Debug, Default, Clone, PartialEq)]
struct Kept {
    pages: BTreeMap<String, BTreeSet<String>>,
    later: Vec<OutputEdit>,
    written: u64,
}

impl Kept {
    fn edit(&mut self, edits: &[OutputEdit]) {
        for edit in edits {
            match edit {
                OutputEdit::AddContext { note, context, .. } => {
                    let pages = self.pages.get_mut(note).expect("a kept picture");
                    pages.insert(context.page.to_string());
                }
                other => self.later.push(other.clone()),
            }
        }
    }

    fn stamp(&mut self) -> Vec<u8> {
        self.written += 1;
        self.written.to_be_bytes().to_vec()
    }
}

/// The answer to each request for a page or picture.
type Answer<'a> = &'a dyn Fn(&Task) -> (Outcome, Effects);

/// Crawls on until nothing is left, or until `enough` tasks are done.
fn crawl_on(cells: &mut Cells, kept: &mut Kept, now: &mut u64, enough: usize, answer: Answer<'_>) {
    let mut done = 0;
    while done < enough {
        let deliver = |cells: &mut Cells, kept: &mut Kept, now| {
            cells
                .deliver(now, &mut |edits: &[OutputEdit]| {
                    kept.edit(edits);
                    Ok::<_, StoreError>(kept.stamp())
                })
                .unwrap();
        };
        deliver(cells, kept, *now);
        let Some(task) = cells.lease_best(*now).unwrap() else {
            match cells.next_event() {
                Some(at) => *now = at.max(*now),
                None => return,
            }
            continue;
        };
        if task.kind == TaskKind::Robots {
            let missing = crate::RobotsAnswer::Missing;
            let write = |_: &_| Ok::<_, StoreError>(kept.stamp());
            let answer =
                |cell: &mut Frontier| cell.finish_robots(&task, missing, SECOND, *now, write);
            cells.of_task(&task, answer).unwrap();
            continue;
        }
        let (outcome, effects) = answer(&task);
        let note = task.url.to_string();
        let is_kept = task.kind == TaskKind::Image && outcome == Outcome::Done;
        let around = cells.of_host(&task.host).unwrap().contexts(&task.url);
        let around = around.unwrap();
        let write = |finished: &Finished| {
            if is_kept {
                let pages = around.iter().map(|words| words.page.to_string()).collect();
                assert_eq!(kept.pages.insert(note.clone(), pages), None, "{note} twice");
            }
            kept.edit(&finished.edits);
            Ok::<_, StoreError>(Written {
                stamp: kept.stamp(),
                note: Some(note),
                ..Written::default()
            })
        };
        let finish =
            |cell: &mut Frontier| cell.finish(&task, outcome, effects, SECOND, *now, write);
        cells.of_task(&task, finish).unwrap();
        deliver(cells, kept, *now);
        assert_eq!(cells.stamp().unwrap(), kept.written.to_be_bytes());
        done += 1;
    }
}

fn pick(seed: u64, of: &str, n: u64, among: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(format!("{seed} {of} {n}").as_bytes()) % among
}

/// Pages and pictures derived from a number: pictures are shown on many pages, in several sizes,
/// some of which are gone or have moved. No two pictures of a page share an address: for a shared
/// address only the better words are kept, and which ones come first depends on the order of the
/// crawl.
fn answer_of(seed: u64, task: &Task) -> (Outcome, Effects) {
    let own = task.url.as_str();
    // The addresses of three kinds of pictures.
    let picture = |kind: u64, n: u64| format!("http://i{}.org/{kind}{}", n % 5, n / 5 % 2);
    let fate = |address: &str| pick(seed, address, 0, 10);
    if task.kind == TaskKind::Image {
        let outcome = match fate(own) {
            0..=2 => Outcome::Drop {
                reason: Reason::Gone,
            },
            3 => Outcome::Drop {
                reason: Reason::ClientError,
            },
            4 | 5 => {
                let kind = task.url.path()[1..2].parse().unwrap();
                let targets = (1..50).map(|n| picture(kind, pick(seed, own, n, 10)));
                let stays = |to: &String| !matches!(fate(to), 4 | 5);
                match targets.into_iter().find(stays) {
                    Some(to) => Outcome::Redirect { to: url(&to) },
                    None => Outcome::Done,
                }
            }
            _ => Outcome::Done,
        };
        return (outcome, Effects::default());
    }
    let links = (0..3).map(|n| {
        let n = pick(seed, own, 10 + n, 24);
        NewTask::seed(&url(&format!("http://h{}.org/{}", n % 6, n / 6)))
    });
    let images = (0..3).map(|n| image(&picture(n, pick(seed, own, 20 + 10 * n, 10)), own, 10.0));
    let effects = Effects {
        links: links.collect(),
        images: images.collect(),
        ..Effects::default()
    };
    (Outcome::Done, effects)
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    /// The same pictures are kept with the words of the same pages, for any number of cells, and
    /// even if the process dies now and then.
    #[test]
    fn cells_keep_together_the_pictures_that_one_frontier_keeps(
        seed: u64, cells in 2_u16..40, lives in proptest::collection::vec(1_usize..30, 0..4)
    ) {
        let all = [(1, Vec::new()), (cells, lives)].map(|(count, lives)| {
            let folder = tempfile::tempdir().unwrap();
            let store = MemoryStore::new(folder.path());
            let mut now = 1_000;
            let mut kept = Kept::default();
            let mut cells = opened(Box::new(store.reopened()), count, now);
            cells.add_seeds(&[url("http://h0.org/0")], now).unwrap();
            for enough in lives {
                crawl_on(&mut cells, &mut kept, &mut now, enough, &|task| answer_of(seed, task));
                // Killed: nothing is closed.
                cells = opened(Box::new(store.reopened()), count, now);
            }
            crawl_on(&mut cells, &mut kept, &mut now, usize::MAX, &|task| answer_of(seed, task));
            assert!(cells.is_exhausted());
            let mut counts = web::lasting(cells.counts());
            let found = (kept.pages, known(&cells));
            // Requests that are asked again after a death.
            counts.fetches = 0;
            cells.close().unwrap();
            (found, counts)
        });
        let [one, many] = all;
        prop_assert_eq!(one, many);
    }
}

/// Two machines, each with its own store and half of the cells: they exchange what they find as
/// offers.
struct Machines {
    both: [(Cells, Kept); 2],
    /// How far the log of each cell has come.
    logs: BTreeMap<CellId, u64>,
}

impl Machines {
    fn new(folder: &Path, cells: u16, now: u64) -> Self {
        let begin = |number: u16| {
            let path = folder.join(number.to_string());
            std::fs::create_dir(&path).unwrap();
            let store = MemoryStore::new(&path);
            let mut own = Cells::over(Box::new(store), count(cells), policy(), scope()).unwrap();
            let is_own = |cell: &CellId| cell.number() % 2 == number;
            for cell in count(cells).all().filter(is_own) {
                own.open_cell(cell, now).unwrap();
            }
            (own, Kept::default())
        };
        let both = [begin(0), begin(1)];
        let logs = BTreeMap::new();
        Self { both, logs }
    }

    /// Takes over everything that waits for a machine. Returns whether there was anything.
    fn exchange(&mut self, now: u64) -> bool {
        let mut any = false;
        for number in 0..2 {
            let [(one, kept), (two, others)] = &mut self.both;
            let (from, to, kept) = match number {
                0 => (one, two, others),
                _ => (two, one, kept),
            };
            for target in from.outbox_targets() {
                for slip in Vec::from_iter(from.outbox(target)) {
                    any = true;
                    let rated = from.offers(target, slip).unwrap();
                    let offers: Vec<Offer> = rated.into_iter().map(|rated| rated.offer).collect();
                    for offer in &offers {
                        offer.check().unwrap();
                    }
                    let log = self.logs.entry(target).or_default();
                    *log += 1;
                    let place = LogPlace {
                        sequence: *log,
                        note: Vec::new(),
                    };
                    let amend: &mut Amend<'_, StoreError> = &mut |edits| {
                        kept.edit(edits);
                        Ok(kept.stamp())
                    };
                    assert!(to.receive(target, &place, &offers, now, amend).unwrap());
                    let change = OutboxChange {
                        to: target,
                        note: Vec::new(),
                        gone: vec![slip],
                    };
                    from.change_outbox(&[change]).unwrap();
                }
            }
        }
        any
    }
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    /// The same pictures are kept with the words of the same pages by two machines.
    #[test]
    fn machines_keep_together_the_pictures_that_one_frontier_keeps(seed: u64, cells in 2_u16..40) {
        let folder = tempfile::tempdir().unwrap();
        let answer = |task: &Task| answer_of(seed, task);
        let mut now = 1_000;
        let store = MemoryStore::new(folder.path());
        let mut one = opened(Box::new(store), 1, now);
        let mut kept = Kept::default();
        one.add_seeds(&[url("http://h0.org/0")], now).unwrap();
        crawl_on(&mut one, &mut kept, &mut now, usize::MAX, &answer);

        let mut machines = Machines::new(folder.path(), cells, 1_000);
        let first = url("http://h0.org/0");
        let owner = count(cells).cell_of(&first.host_key()).number() % 2;
        machines.both[usize::from(owner)].0.add_seeds(&[first], 1_000).unwrap();
        let mut now = 1_000;
        loop {
            for (cells, kept) in &mut machines.both {
                crawl_on(cells, kept, &mut now, usize::MAX, &answer);
            }
            if !machines.exchange(now) {
                break;
            }
        }
        let [(a, of_a), (b, of_b)] = machines.both;
        let mut found = known(&a);
        found.extend(known(&b));
        prop_assert_eq!(found, known(&one));
        let mut pages = of_a.pages;
        pages.extend(of_b.pages);
        prop_assert_eq!(pages, kept.pages);
    }
}

/// Cells with a page and three pictures that are all in different ones.
struct Apart {
    _folder: tempfile::TempDir,
    cells: Cells,
    kept: Kept,
    now: u64,
}

const PAGE: &str = "http://a.org/";
const PICTURES: [&str; 3] = ["http://b.org/1", "http://c.org/2", "http://d.org/3"];

impl Apart {
    fn new(recrawl: Option<Recrawl>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy {
            recrawl,
            ..policy()
        };
        let store = Box::new(MemoryStore::new(folder.path()));
        let mut cells = Cells::over(store, count(64), policy, scope()).unwrap();
        cells.open_all(1_000).unwrap();
        let of = |address: &str| cells.cells().cell_of(&url(address).host_key());
        let different = BTreeSet::from_iter(PICTURES.map(of).into_iter().chain([of(PAGE)]));
        assert_eq!(different.len(), 4);
        cells.add_seeds(&[url(PAGE)], 1_000).unwrap();
        Self {
            _folder: folder,
            cells,
            kept: Kept::default(),
            now: 1_000,
        }
    }

    fn crawl(&mut self, enough: usize, answer: Answer<'_>) {
        let Self {
            cells, kept, now, ..
        } = self;
        crawl_on(cells, kept, now, enough, answer);
    }

    fn state(&self, address: &str) -> Option<State> {
        let record = self.cells.look_up(&url(address), TaskKind::Image).unwrap();
        record.map(|record| record.state)
    }
}

#[test]
fn a_page_withdraws_its_pictures_in_other_cells() {
    let mut apart = Apart::new(Some(Recrawl {
        after: 1_000_000,
        min: 1_000,
        max: 10_000_000,
    }));
    let [kept, queued, _] = PICTURES;
    let both = [kept, queued];
    apart.crawl(2, &|task| {
        let images = both.map(|address| image(address, PAGE, 10.0));
        let effects = match task.kind {
            TaskKind::Page => Effects {
                images: images.to_vec(),
                ..Effects::default()
            },
            _ => Effects::default(),
        };
        (Outcome::Done, effects)
    });
    // One of them is kept, and the other still waits.
    let (kept, queued) = match apart.state(kept) {
        Some(State::Done { .. }) => (kept, queued),
        _ => (queued, kept),
    };
    assert_eq!(apart.state(queued), Some(State::Queued));
    let terms = Terms {
        tdm_reservation: Some(true),
        ..Terms::default()
    };
    // The page again, before the picture that waits.
    apart.now += 2_000_000;
    let effects = || Effects {
        withheld: both.iter().map(|address| url(address)).collect(),
        terms: terms.clone(),
        ..Effects::default()
    };
    apart.crawl(1, &|task| match task.kind {
        TaskKind::Page => (Outcome::Done, effects()),
        kind => panic!("{kind:?} {}", task.url),
    });
    assert_eq!(apart.state(queued), None, "as if it had never been found");
    let edit = OutputEdit::Withhold {
        note: kept.to_owned(),
        page: url(PAGE),
        terms: Box::new(terms),
    };
    assert_eq!(apart.kept.later, [edit]);
}

#[test]
fn words_that_a_host_repeats_are_marked_in_other_cells() {
    let mut apart = Apart::new(None);
    let pages: Vec<PageUrl> = (1..=6).map(|n| url(&format!("{PAGE}{n}"))).collect();
    apart.cells.add_seeds(&pages, apart.now).unwrap();
    let shown = |n: usize| format!("{}{n}", PICTURES[n % 3]);
    apart.crawl(usize::MAX, &|task| {
        let n = task.url.path()[1..].parse().ok();
        let images = n.filter(|_| task.kind == TaskKind::Page).map(|n| {
            let mut image = image(&shown(n), task.url.as_str(), 10.0);
            image.context.texts.alt = Some("photo of the day".to_owned());
            image.context.texts.alt_kind = Some(AltKind::Written);
            image
        });
        let effects = Effects {
            images: Vec::from_iter(images),
            unknown: 4_000.0,
            ..Effects::default()
        };
        (Outcome::Done, effects)
    });
    assert!(apart.kept.later.len() >= 3, "{:?}", apart.kept);
    for edit in &apart.kept.later {
        let OutputEdit::MarkBoilerplate {
            note,
            page,
            unknown,
        } = edit
        else {
            panic!("{edit:?}");
        };
        assert_eq!(*unknown, 4_000.0);
        assert!(apart.kept.pages[note].contains(page.as_str()), "{edit:?}");
    }
}

#[test]
fn pictures_that_redirect_in_a_circle_end_somewhere() {
    let mut apart = Apart::new(None);
    let [one, two, three] = PICTURES;
    apart.crawl(usize::MAX, &|task| {
        let to = match task.url.as_str() {
            PAGE => {
                let images = vec![image(one, PAGE, 10.0)];
                let effects = Effects {
                    images,
                    ..Effects::default()
                };
                return (Outcome::Done, effects);
            }
            address if address == one => two,
            address if address == two => three,
            _ => one,
        };
        (Outcome::Redirect { to: url(to) }, Effects::default())
    });
    assert!(apart.cells.is_exhausted());
    assert_eq!(apart.kept.pages, BTreeMap::new());
}
