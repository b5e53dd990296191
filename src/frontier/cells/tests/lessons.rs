//! Machines that learn together: a page's lesson is learned once, when it comes back, and all
//! machines that have read up to the same number know the same.

use super::learning::{fetch, link};
use super::*;
use crate::mark::Mark;
use crate::ratings::Verdicts;
use crate::ratings::shared::SharedLesson;
use crate::testing::Taught;
use crate::topic::strategy::Learning as _;

const SEED: &str = "http://s.org/";

/// A machine that learns with others, and what it has learned.
struct Machine {
    store: MemoryStore,
    taught: Arc<Taught>,
    cells: Cells,
}

impl Machine {
    fn over(store: MemoryStore) -> Self {
        let taught = Arc::new(Taught::default());
        let mut cells = opened(Box::new(store.reopened()), 8, 1_000);
        cells.share_lessons().unwrap();
        let rating: Arc<dyn Rating> = Arc::clone(&taught) as _;
        cells.set_rating(rating).unwrap();
        Self {
            store,
            taught,
            cells,
        }
    }

    fn new() -> (tempfile::TempDir, Self) {
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::new(folder.path());
        (folder, Self::over(store))
    }

    fn knows(&self) -> (Vec<u8>, usize) {
        (self.taught.snapshot(), self.taught.heard_so_far().len())
    }

    /// Removes the lessons of its pages.
    fn lessons(&mut self) -> Vec<SharedLesson> {
        let (ids, lessons): (Vec<_>, Vec<_>) = self.cells.lessons(100).unwrap().into_iter().unzip();
        self.cells.forget_lessons(&ids).unwrap();
        lessons
    }

    /// Fetches all there is, beginning with a page that has this many links.
    fn crawl(&mut self, links: u32) {
        let mut now = 1_000;
        self.cells.add_seeds(&[url(SEED)], now).unwrap();
        let links = (0..links).map(|n| link(&format!("http://h{n}.org/"), n));
        fetch(&mut self.cells, &Vec::from_iter(links), &mut now).unwrap();
        while fetch(&mut self.cells, &[], &mut now).is_some() {}
    }
}

#[test]
fn what_a_page_taught_is_learned_when_it_comes_back() {
    let (_a, mut finder) = Machine::new();
    finder.crawl(19);
    assert_eq!(finder.taught.examples(), 0);
    let lessons = finder.lessons();
    assert_eq!(finder.cells.lessons(100).unwrap(), []);
    assert_eq!(lessons.iter().filter(|l| l.example.is_some()).count(), 19);
    assert!(lessons.iter().all(SharedLesson::is_sound));
    // All learn in the same order, regardless of who found it.
    let (_b, mut other) = Machine::new();
    for machine in [&mut finder, &mut other] {
        let begun = machine
            .cells
            .open
            .values()
            .filter(|c| c.frontier.is_rescoring());
        assert_eq!(begun.count(), 0);
        for (place, part) in (1..).zip(lessons.chunks(7)) {
            assert!(machine.cells.learn(place, part.to_vec()).unwrap());
        }
        // After the 16th example all cells rate their links again.
        let begun = machine
            .cells
            .open
            .values()
            .filter(|c| c.frontier.is_rescoring());
        assert_eq!(begun.count(), 8);
        assert_eq!(machine.cells.learned_place().unwrap(), 3);
        assert_eq!(machine.taught.examples(), 19);
    }
    assert_eq!(finder.knows(), other.knows());
    // Nothing is learned twice.
    assert!(!other.cells.learn(3, lessons.clone()).unwrap());
    assert_eq!(finder.knows(), other.knows());
}

#[test]
fn a_page_is_judged_by_targets_that_other_machines_have_fetched() {
    const HUB: &str = "http://hub.org/";
    let (_a, mut finder) = Machine::new();
    finder.crawl(9);
    let lessons = finder.lessons();
    let page = keys::url(&url(HUB), TaskKind::Page);
    let worth_of_hub = |is_sent: bool| {
        let (_b, mut machine) = Machine::new();
        if is_sent {
            assert!(machine.cells.learn(1, lessons.clone()).unwrap());
        }
        let mut now = 1_000;
        machine.cells.add_seeds(&[url(HUB)], now).unwrap();
        let links = (0..9).map(|n| link(&format!("http://h{n}.org/"), n));
        fetch(&mut machine.cells, &Vec::from_iter(links), &mut now).unwrap();
        let verdicts = Verdicts::default();
        let verdict = machine.lessons().pop().unwrap().verdict.unwrap();
        verdicts.add(verdict);
        verdicts.of(&page).unwrap()
    };
    assert_eq!(worth_of_hub(false), 0.5);
    // More than half of what a page on the topic links to is on the topic; here it is half.
    let worth = worth_of_hub(true);
    assert!((0.3..0.45).contains(&worth), "{worth}");
}

#[test]
fn what_was_learned_and_what_was_not_sent_outlive_the_process() {
    let (_a, mut machine) = Machine::new();
    machine.crawl(9);
    let unsent: Vec<_> = machine.cells.lessons(4).unwrap();
    let lessons = Vec::from_iter(unsent.iter().map(|(_, lesson)| lesson.clone()));
    machine.cells.learn(5, lessons).unwrap();
    let (known, store) = (machine.knows(), machine.store.reopened());
    // As if the process were killed before their arrival was confirmed.
    drop(machine);
    let mut again = Machine::over(store);
    assert_eq!(again.knows(), known);
    assert_eq!(again.cells.learned_place().unwrap(), 5);
    let waiting = again.cells.lessons(100).unwrap();
    // Nothing leads to the seed, but others may link to it.
    assert_eq!(waiting.len(), 10);
    assert!(unsent.iter().all(|lesson| waiting.contains(lesson)));
    let mark = Mark::of(&again.store).unwrap().unwrap();
    assert_eq!(mark.learned, 5);
}

#[test]
fn a_machine_begins_with_what_another_one_has_learned() {
    let (_a, mut machine) = Machine::new();
    machine.crawl(9);
    let lessons = machine.lessons();
    machine.cells.learn(7, lessons).unwrap();
    let mut pairs = Vec::new();
    machine
        .store
        .scan(&[], &[], &mut |key, value| {
            if is_learned(key) {
                pairs.push((key.to_vec(), value.to_vec()));
            }
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert!(pairs.len() > 10);
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let mut new = opened(Box::new(store.reopened()), 8, 1_000);
    new.share_lessons().unwrap();
    let foreign = vec![(b"\x80\0M".to_vec(), Vec::new())];
    let refused = new.begin_learned(foreign);
    assert!(
        matches!(refused, Err(CellsError::Foreign { .. })),
        "{refused:?}"
    );
    new.begin_learned(pairs).unwrap();
    assert_eq!(new.learned_place().unwrap(), 7);
    let taught = Arc::new(Taught::default());
    let rating: Arc<dyn Rating> = Arc::clone(&taught) as _;
    new.set_rating(rating).unwrap();
    let known = (taught.snapshot(), taught.heard_so_far().len());
    assert_eq!(known, machine.knows());
}
