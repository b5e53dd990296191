use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::address::PageUrl;
use crate::frontier::store::StoreError;
use crate::frontier::testing::Taught;
use crate::frontier::{
    CellCount, CellId, Effects, Example, Frontier, NewTask, Rating, RobotsAnswer, Written,
};
use crate::page::{Bucket, Clues, Nearness, Outcome, Task, TaskKind};
use crate::scripted::{Fate, Scripted};

const BEGINNING: u64 = 1_000_000;
/// The links of the seed of each machine.
const LINKS: u32 = 12;

struct Machine {
    _folder: tempfile::TempDir,
    cells: Cells,
    taught: Arc<Taught>,
    lessons: Lessons<Scripted>,
    pages: u32,
}

impl Machine {
    fn new(engine: &Arc<Scripted>, number: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut cells = crate::links::tests::web::open(folder.path(), CellCount::new(6).unwrap());
        let lessons = Lessons::new(Arc::clone(engine), &mut cells).unwrap();
        let taught = Arc::new(Taught::default());
        let rating: Arc<dyn Rating> = Arc::clone(&taught) as _;
        cells.set_rating(rating).unwrap();
        cells.open_all(BEGINNING).unwrap();
        let seed = format!("http://m{number}.org/");
        let seed = PageUrl::parse(&seed).unwrap();
        cells.add_seeds(&[seed], BEGINNING).unwrap();
        Self {
            _folder: folder,
            cells,
            taught,
            lessons,
            pages: 0,
        }
    }

    /// Answers one task, and exchanges what is possible.
    fn turn(&mut self, number: u32, now: u64) {
        let all: Vec<CellId> = self.cells.cells().all().collect();
        if let Some((cell, task)) = self.cells.lease(&all, now).unwrap() {
            self.finish(cell, &task, number, now);
        }
        self.lessons.turn(&mut self.cells, now).unwrap();
    }

    fn finish(&mut self, cell: CellId, task: &Task, number: u32, now: u64) {
        let elapsed = Duration::from_millis(10);
        if task.kind == TaskKind::Robots {
            let write = |_: &_| Ok::<_, StoreError>(Vec::new());
            let answer = RobotsAnswer::Missing;
            let finish = |f: &mut Frontier| f.finish_robots(task, answer, elapsed, now, write);
            self.cells.with(cell, now, finish).unwrap();
            return;
        }
        let link = |n: u32| NewTask {
            url: PageUrl::parse(&format!("http://h{n}.m{number}.org/")).unwrap(),
            bucket: Some(Bucket::High),
            score: 1.0,
            parts: None,
            anchor: None,
            clues: Some(Clues {
                traits: vec![n],
                ..Clues::default()
            }),
        };
        let links = if self.pages == 0 { LINKS } else { 0 };
        let first = number * 100;
        let effects = Effects {
            links: (first..first + links).map(link).collect(),
            on_topic: Some(0.5),
            nearness: Some(Nearness::Likely(0.5)),
            ..Effects::default()
        };
        self.pages += 1;
        let written = |_: &_| Ok::<_, StoreError>(Written::default());
        let finish =
            |f: &mut Frontier| f.finish(task, Outcome::Done, effects, elapsed, now, written);
        self.cells.with(cell, now, finish).unwrap();
    }

    fn traits(&self) -> Vec<u32> {
        let examples = self.taught.examples_so_far();
        examples
            .iter()
            .flat_map(|(clues, _)| clues.traits.clone())
            .collect()
    }
}

/// All machines learn all examples in the same order, however the broker behaves. A lesson whose
/// answer was lost is stored once.
#[tokio::test(start_paused = true)]
async fn all_machines_learn_the_same_in_one_order() {
    let engine = Arc::new(Scripted::default());
    let fates = [
        Fate::Done,
        Fate::Lost,
        Fate::Refused,
        Fate::Done,
        Fate::Lost,
    ];
    engine.next_sends(fates.into_iter().cycle().take(20));
    let mut machines: Vec<Machine> = (0..3).map(|n| Machine::new(&engine, n)).collect();
    let begun = tokio::time::Instant::now();
    for turn in 0..600 {
        let now = BEGINNING + crate::clock::millis(begun.elapsed());
        for (number, machine) in (0..).zip(&mut machines) {
            machine.turn(number, now);
        }
        match turn {
            30 => engine.set_away(true),
            60 => engine.set_away(false),
            90 => engine.end_readers(),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let all: Vec<u32> = machines[0].traits();
    let found = (0..3).flat_map(|m| m * 100..m * 100 + LINKS);
    assert_eq!(all.len(), 3 * LINKS as usize, "each once");
    assert_eq!(BTreeSet::from_iter(all.clone()), BTreeSet::from_iter(found));
    for machine in &mut machines {
        assert_eq!(machine.traits(), all);
        assert_eq!(machine.taught.heard_so_far().len(), 3 * (LINKS as usize));
        assert!(machine.lessons.is_idle(&mut machine.cells).unwrap());
    }
    // The log is cut up to the last checkpoint but one.
    let last = machines[0].cells.learned_place().unwrap();
    for learned in [2, 4, last] {
        machines[0].lessons.committed(learned);
    }
    machines[0].turn(0, BEGINNING);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let first = engine.with_log(LOG, |log| log.behind(0)[0].0);
    assert_eq!(first, 3);
}

#[test]
fn a_message_that_no_machine_sends_is_left_out() {
    let example = |reward| Example {
        clues: Clues::default(),
        reward,
    };
    let lesson = |reward| SharedLesson {
        heard: None,
        example: Some(example(reward)),
        verdict: None,
    };
    let packed = |lessons: &[SharedLesson]| {
        let raw = lessons.iter().fold(Vec::new(), |raw, lesson| {
            postcard::to_extend(lesson, raw).unwrap()
        });
        packed::pack(VERSION, &raw).unwrap()
    };
    assert_eq!(
        of_message(&packed(&[lesson(0.5), lesson(1.0)]))
            .unwrap()
            .len(),
        2
    );
    for wrong in [f64::NAN, 1.5, -0.1] {
        assert!(of_message(&packed(&[lesson(0.5), lesson(wrong)])).is_err());
    }
    assert!(of_message(&packed(&vec![lesson(0.5); MOST_LESSONS + 1])).is_err());
    let whole = packed(&[lesson(0.5)]);
    assert!(of_message(&whole[..whole.len() - 1]).is_err());
    assert!(of_message(&[]).is_err() && of_message(&[1, 0]).is_err());
}
