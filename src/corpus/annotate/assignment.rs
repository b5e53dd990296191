//! Chooses the next question for each annotator.
//!
//! A question about an image is put to `annotate.votes` people, once each. A question on
//! someone's screen counts as answered for [`HOLD`], so that ten people do not all get the
//! image that lacks one vote.
//!
//! The images come in the order of their SHA-256, which is unrelated to their rank, so
//! annotators cannot conclude that late images are bad. If image and words are judged
//! together, the words follow right after the image. In two phases every image is judged
//! alone first; its words are asked about as soon as it has all its votes and more than
//! half of them are on topic, of any annotator without images left. The majority decides
//! and not each person's own vote, so that every text gets the same number of votes.
//!
//! One image in `annotate.gold_every` is a gold question, at a position derived from the
//! name of the annotator.
//!
//! This module is pure: time is an argument, and events (a vote, an undo) are reported to
//! it after they were written.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::votes::{self, Question, Vote};
use crate::settings::Annotate;

/// How long a displayed question counts as being answered.
pub(super) const HOLD: Duration = Duration::from_secs(10 * 60);

/// An image that may be asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenImage {
    pub sha256: String,
    pub gold: Option<Gold>,
}

/// The right answers about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gold {
    pub image: String,
    pub text: Option<String>,
}

/// What an annotator has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextQuestion {
    /// Answer a question about the item with this index.
    Ask(usize, Question),
    /// Come back later: the remaining questions are on other screens, or not decided yet.
    Wait,
    /// Nothing; all their questions are answered.
    Done,
    /// Nothing more, because they failed too many gold questions.
    Retired,
}

/// How to treat an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerHandling {
    /// Record it.
    Take,
    /// The same answer was given before; a request was repeated.
    Known,
    /// It came too late, or was never requested.
    Refuse,
}

struct Reservation {
    item: usize,
    question: Question,
    until: Instant,
}

/// By question, the answer of each annotator.
type Answers = HashMap<(usize, Question), HashMap<String, String>>;

/// The state of all questions and answers.
pub(super) struct Assignment {
    section: Annotate,
    items: Vec<OpenImage>,
    places: HashMap<String, usize>,
    /// The valid votes in order, including those about images that are not items.
    votes: Vec<Vote>,
    answers: Answers,
    holds: HashMap<String, Reservation>,
    gone: HashSet<usize>,
}

impl Assignment {
    /// For these items, with the valid votes so far.
    pub fn new(section: &Annotate, mut items: Vec<OpenImage>, votes: Vec<Vote>) -> Self {
        items.sort_by(|a, b| a.sha256.cmp(&b.sha256));
        let places = items.iter().enumerate();
        let mut assignment = Self {
            section: section.clone(),
            places: places.map(|(at, i)| (i.sha256.clone(), at)).collect(),
            items,
            votes: Vec::new(),
            answers: HashMap::new(),
            holds: HashMap::new(),
            gone: HashSet::new(),
        };
        votes.into_iter().for_each(|vote| assignment.add(vote));
        assignment
    }

    /// The item of that name.
    pub fn find(&self, sha256: &str) -> Option<usize> {
        self.places.get(sha256).copied()
    }

    /// The item at an index.
    pub fn item(&self, at: usize) -> Option<&OpenImage> {
        self.items.get(at)
    }

    /// The next step for `who`. A question on their screen is repeated.
    pub fn next(&mut self, who: &str, now: Instant) -> NextQuestion {
        self.holds.retain(|_, hold| hold.until > now);
        if self.retired(who) {
            self.holds.remove(who);
            return NextQuestion::Retired;
        }
        let own = self.holds.get(who).map(|h| (h.item, h.question));
        let own = own.filter(|(item, question)| self.open_to(who, *item, *question));
        let chosen = own.or_else(|| self.choose(who));
        let Some((item, question)) = chosen else {
            self.holds.remove(who);
            return if self.may_come(who) {
                NextQuestion::Wait
            } else {
                NextQuestion::Done
            };
        };
        self.hold(who, item, question, now);
        NextQuestion::Ask(item, question)
    }

    /// How to treat an answer of `who`, who may have taken a long time.
    pub fn judge(
        &mut self,
        who: &str,
        item: usize,
        question: Question,
        answer: &str,
        now: Instant,
    ) -> AnswerHandling {
        self.holds.retain(|_, hold| hold.until > now);
        match self.answer_of(who, item, question) {
            Some(known) if known == answer => AnswerHandling::Known,
            None if !self.retired(who) && self.open_to(who, item, question) => AnswerHandling::Take,
            _ => AnswerHandling::Refuse,
        }
    }

    /// The right answer, if known.
    pub fn gold(&self, item: usize, question: Question) -> Option<&str> {
        let gold = self.items.get(item)?.gold.as_ref()?;
        match question {
            Question::Image => Some(&gold.image),
            Question::Text => gold.text.as_deref(),
        }
    }

    /// Records a written vote.
    pub fn add(&mut self, vote: Vote) {
        if let Some(item) = self.find(&vote.image) {
            let answers = self.answers.entry((item, vote.question)).or_default();
            answers.insert(vote.annotator.clone(), vote.answer.clone());
        }
        self.holds.remove(&vote.annotator);
        self.votes.push(vote);
    }

    /// The vote that `who` may undo.
    pub fn last_of(&self, who: &str) -> Option<&Vote> {
        let last = self.votes.iter().rev().find(|v| v.annotator == who)?;
        (!self.retired(who)).then_some(last)
    }

    /// Records an undone vote; its question is on the annotator's screen again.
    pub fn take_back(&mut self, number: u64, now: Instant) {
        let Some(at) = self.votes.iter().rposition(|v| v.vote == number) else {
            return;
        };
        let vote = self.votes.remove(at);
        if let Some(item) = self.find(&vote.image) {
            if let Some(answers) = self.answers.get_mut(&(item, vote.question)) {
                answers.remove(&vote.annotator);
            }
            self.hold(&vote.annotator, item, vote.question, now);
        }
    }

    /// Records that the image of an item is gone.
    pub fn lose(&mut self, item: usize) {
        self.gone.insert(item);
    }

    /// The answer of `who`.
    pub fn answer_of(&self, who: &str, item: usize, question: Question) -> Option<&str> {
        let answers = self.answers.get(&(item, question))?;
        answers.get(who).map(String::as_str)
    }

    /// How many images `who` has judged; in the second phase how many texts.
    pub fn own(&self, who: &str, question: Question) -> usize {
        let own = |v: &&Vote| v.annotator == who && v.question == question;
        self.votes.iter().filter(own).count()
    }

    /// How many of all questions are answered, in whole percent: a count would not change
    /// at gold questions and so reveal them.
    pub fn percent(&self, question: Question) -> usize {
        let (mut given, mut wanted) = (0, 0);
        for item in self.samples().filter(|item| self.asked(*item, question)) {
            given += self.given(item, question).min(self.section.votes);
            wanted += self.section.votes;
        }
        (given * 100).checked_div(wanted).unwrap_or(100)
    }

    fn hold(&mut self, who: &str, item: usize, question: Question, now: Instant) {
        let until = now + HOLD;
        let hold = Reservation {
            item,
            question,
            until,
        };
        self.holds.insert(who.to_owned(), hold);
    }

    fn retired(&self, who: &str) -> bool {
        let (mut right, mut all) = (0, 0);
        for vote in self.votes.iter().filter(|v| v.annotator == who) {
            if let Some(gold) = &vote.gold {
                right += usize::from(*gold == vote.answer);
                all += 1;
            }
        }
        !votes::passes(right, all, &self.section)
    }

    fn choose(&self, who: &str) -> Option<(usize, Question)> {
        use Question::{Image, Text};
        if !self.section.two_phase
            && let Some(last) = self.votes.iter().rev().find(|v| v.annotator == who)
            && let Some(item) = self.find(&last.image)
            && last.question == Image
            && self.open_to(who, item, Text)
        {
            return Some((item, Text));
        }
        let new = |item: &usize| self.answer_of(who, *item, Text).is_none();
        let open = |question| move |item: &usize| self.open_to(who, *item, question);
        let image = self.samples().filter(new).find(open(Image));
        let (item, question) = match image {
            Some(item) => (item, Image),
            None => (self.samples().find(open(Text))?, Text),
        };
        // A text without its image is not part of a pair in which gold could hide.
        let hidden = question == Image || self.section.two_phase;
        let gold = hidden.then(|| self.gold_due(who, question)).flatten();
        Some((gold.unwrap_or(item), question))
    }

    /// The gold question that is due, if one is.
    fn gold_due(&self, who: &str, question: Question) -> Option<usize> {
        let every = self.section.gold_every as u64;
        let own = self.own(who, question) as u64;
        let drawn = hash(&[who, &format!("{question:?}{}", own.checked_div(every)?)]);
        if own % every != drawn % every {
            return None;
        }
        let items = self.items.iter().enumerate();
        let gold = items.filter(|(at, i)| i.gold.is_some() && self.open_to(who, *at, question));
        gold.min_by_key(|(_, i)| hash(&[who, &i.sha256]))
            .map(|(at, _)| at)
    }

    /// Whether `who` may answer this now.
    fn open_to(&self, who: &str, item: usize, question: Question) -> bool {
        if self.gone.contains(&item) || self.answer_of(who, item, question).is_some() {
            return false;
        }
        match self.items.get(item) {
            None => false,
            Some(OpenImage {
                gold: Some(gold), ..
            }) => question == Question::Image || !self.section.two_phase || gold.text.is_some(),
            Some(_) => {
                let taken = self.given(item, question) + self.on_screens(who, item, question);
                taken < self.section.votes && self.asked(item, question)
            }
        }
    }

    /// Whether the question is asked at all.
    fn asked(&self, item: usize, question: Question) -> bool {
        if question == Question::Image || !self.section.two_phase {
            return true;
        }
        let Some(answers) = self.answers.get(&(item, Question::Image)) else {
            return false;
        };
        let classes = &self.section.on_topic;
        let on_topic = |answer: &&String| classes.iter().any(|c| c.as_str() == answer.as_str());
        let for_it = answers.values().filter(on_topic).count();
        answers.len() >= self.section.votes && 2 * for_it > answers.len()
    }

    /// Whether a question that `who` did not answer may still become open to them.
    fn may_come(&self, who: &str) -> bool {
        let lacks = |item, question| self.given(item, question) < self.section.votes;
        self.samples().any(|item| {
            let unanswered = |question| self.answer_of(who, item, question).is_none();
            let image = lacks(item, Question::Image);
            let seen = !unanswered(Question::Text);
            let text = lacks(item, Question::Text) && unanswered(Question::Text);
            image && unanswered(Question::Image) && !seen
                || text && (self.asked(item, Question::Text) || image)
        })
    }

    fn given(&self, item: usize, question: Question) -> usize {
        self.answers.get(&(item, question)).map_or(0, HashMap::len)
    }

    /// How many others have the question on their screen, or after the one they have.
    fn on_screens(&self, who: &str, item: usize, question: Question) -> usize {
        let holds = self.holds.iter().filter(|(name, hold)| {
            let soon = !self.section.two_phase && hold.question == Question::Image;
            *name != who && hold.item == item && (hold.question == question || soon)
        });
        holds.count()
    }

    /// The indices of the existing images to be judged, without gold.
    fn samples(&self) -> impl Iterator<Item = usize> {
        let items = self.items.iter().enumerate();
        let samples = items.filter(|(at, i)| i.gold.is_none() && !self.gone.contains(at));
        samples.map(|(at, _)| at)
    }
}

fn hash(parts: &[&str]) -> u64 {
    xxh3_64(parts.join("\n").as_bytes())
}
