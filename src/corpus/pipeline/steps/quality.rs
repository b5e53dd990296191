//! Quality rules, published ones and the user's own.

use super::super::document::Document;
use super::super::plan::{Bound, Quality, RuleSet};
use super::c4;
use super::measures::{Features, QualityMeasure};
use super::{DocumentStep, Trace, Value, rounded};

/// A rule with its bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Check {
    rule: QualityMeasure,
    bound: Bound,
    /// Whether the bounds themselves are excluded.
    is_open: bool,
}

impl Check {
    fn stays(&self, value: f64) -> bool {
        let Bound { least, most } = self.bound;
        if self.is_open {
            return least.is_none_or(|least| value > least) && most.is_none_or(|most| value < most);
        }
        least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
    }

    fn words(&self) -> String {
        let Bound { least, most } = self.bound;
        let (from, to) = if self.is_open {
            ("more than", "less than")
        } else {
            ("at least", "at most")
        };
        match (least, most) {
            (Some(least), Some(most)) => format!("{least} to {most}"),
            (Some(least), None) => format!("{from} {least}"),
            (None, Some(most)) => format!("{to} {most}"),
            (None, None) => "any".to_owned(),
        }
    }
}

/// The rules of a step.
pub(super) struct Checks {
    checks: Vec<Check>,
    /// Whether lines are removed as in C4.
    has_lines: bool,
    mark: bool,
}

impl Checks {
    pub(super) fn of(step: &Quality) -> Self {
        let mut checks = Vec::new();
        for set in &step.rules {
            for check in published(*set) {
                checks.retain(|known: &Check| known.rule != check.rule);
                checks.push(check);
            }
        }
        for (name, bound) in &step.bounds {
            let Some(rule) = QualityMeasure::named(name) else {
                continue;
            };
            let own = Check {
                rule,
                bound: *bound,
                is_open: false,
            };
            match checks.iter_mut().find(|check| check.rule == rule) {
                Some(check) => *check = own,
                None => checks.push(own),
            }
        }
        Self {
            checks,
            has_lines: step.rules.contains(&RuleSet::C4),
            mark: step.mark,
        }
    }
}

/// The names of the rules of a step, in their order.
pub(in crate::pipeline) fn measures_of(step: &Quality) -> Vec<String> {
    let checks = Checks::of(step).checks;
    checks.iter().map(|check| check.rule.name()).collect()
}

impl DocumentStep for Checks {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        let (mut edit, mut met) = (None, None);
        if self.has_lines {
            let lines = c4::lines(&document.text);
            met = Some((lines.lorem, lines.curly));
            if lines.removed > 0 {
                document.parts_removed = document.parts_removed.saturating_add(lines.removed);
                edit = Some(lines.edit);
            }
        }
        {
            let text = edit.as_ref().map_or(&document.text, |edit| &edit.text);
            let features = Features::of(text);
            for check in &self.checks {
                let value = match (check.rule, met) {
                    // C4 looks for these while it filters the lines.
                    (QualityMeasure::LoremIpsum, Some((lorem, _))) => f64::from(lorem),
                    (QualityMeasure::CurlyBrackets, Some((_, curly))) => f64::from(curly),
                    _ => rounded(check.rule.measure(&features)),
                };
                let name = check.rule.name();
                document
                    .quality
                    .insert(format!("quality_{name}"), Some(value));
                let words = || check.words();
                if !trace.note(&name, Value::Number(value), words, check.stays(value)) && !self.mark
                {
                    return;
                }
            }
        }
        if let Some(edit) = edit.filter(|_| !self.mark) {
            document.edit(edit);
        }
    }

    fn marks(&self) -> bool {
        self.mark
    }
}

/// The rules of a set with their published bounds, in the order of the publication.
pub(super) fn published(set: RuleSet) -> Vec<Check> {
    use QualityMeasure::{
        AlphabeticWords, BulletLines, CurlyBrackets, DuplicateGrams, DuplicateLineCharacters,
        DuplicateLines, DuplicateParagraphCharacters, DuplicateParagraphs, EllipsesToWords,
        EllipsisLines, EndedLines, HashesToWords, LinesToWords, LoremIpsum, MeanWordLength,
        RepeatedCharacters, Sentences, ShortLines, Stopwords, TopGrams, Words,
    };
    let check = |rule, least, most| Check {
        rule,
        bound: Bound { least, most },
        is_open: false,
    };
    let open = |rule, least, most| Check {
        is_open: true,
        ..check(rule, least, most)
    };
    let most = |rule, most| check(rule, None, Some(most));
    match set {
        RuleSet::C4 => vec![
            most(LoremIpsum, 0.0),
            most(CurlyBrackets, 0.0),
            check(Sentences, Some(5.0), None),
        ],
        // Rae et al. 2021, section A.1.1 and table A1.
        RuleSet::Gopher => vec![
            check(Words, Some(50.0), Some(100_000.0)),
            check(MeanWordLength, Some(3.0), Some(10.0)),
            most(HashesToWords, 0.1),
            most(EllipsesToWords, 0.1),
            most(BulletLines, 0.9),
            most(EllipsisLines, 0.3),
            check(AlphabeticWords, Some(0.8), None),
            check(Stopwords, Some(2.0), None),
            most(DuplicateParagraphs, 0.3),
            most(DuplicateParagraphCharacters, 0.2),
            most(DuplicateLines, 0.3),
            most(DuplicateLineCharacters, 0.2),
            most(TopGrams(2), 0.2),
            most(TopGrams(3), 0.18),
            most(TopGrams(4), 0.16),
            most(DuplicateGrams(5), 0.15),
            most(DuplicateGrams(6), 0.14),
            most(DuplicateGrams(7), 0.13),
            most(DuplicateGrams(8), 0.12),
            most(DuplicateGrams(9), 0.11),
            most(DuplicateGrams(10), 0.1),
        ],
        // Penedo et al. 2024, section 3.6, with the bounds of its code.
        RuleSet::FineWeb => vec![
            open(EndedLines, Some(0.12), None),
            open(ShortLines, None, Some(0.67)),
            open(RepeatedCharacters, None, Some(0.01)),
            most(LinesToWords, 0.3),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn broken(step: &Quality, text: &str) -> Option<(String, Value, String)> {
        let mut document = Document {
            text: text.to_owned(),
            ..Document::default()
        };
        let mut trace = Trace::default();
        Checks::of(step).apply(&mut document, &mut trace);
        let broken = trace.broken()?;
        Some((
            broken.rule.clone(),
            broken.value.clone(),
            broken.bound.clone(),
        ))
    }

    fn set(rules: RuleSet) -> Quality {
        Quality {
            rules: vec![rules],
            ..Quality::default()
        }
    }

    /// A text that passes all rules, and texts with one change each.
    #[test]
    fn each_rule_of_gopher_removes_what_it_is_for() {
        let numbers = [
            "one", "two", "six", "ten", "eleven", "twenty", "forty", "ninety",
        ];
        let sentence = |n: usize| {
            let (a, b, c) = (numbers[n % 8], numbers[n / 8 % 8], numbers[(n * 5 + 3) % 8]);
            format!(
                "We have {a} lamps{n} and {b} ropes{n} that keepers{n} brought with {c} boats{n}."
            )
        };
        let good: Vec<String> = (0..20).map(sentence).collect();
        let gopher = set(RuleSet::Gopher);
        assert_eq!(broken(&gopher, &good.join("\n\n")), None);
        let rule = |text: &str| broken(&gopher, text).map(|(rule, ..)| rule);
        let is = |text: &str, expected: &str| assert_eq!(rule(text).as_deref(), Some(expected));
        is(&good[..3].join("\n\n"), "words");
        is(&"a ".repeat(60), "mean_word_length");
        is(&"incomprehensibilities ".repeat(60), "mean_word_length");
        is(&good.join(" # # # "), "hashes_to_words");
        is(&good.join(" ... … ... "), "ellipses_to_words");
        is(
            &good.iter().map(|l| format!("• {l}\n")).collect::<String>(),
            "bullet_lines",
        );
        is(
            &good.iter().map(|l| format!("{l}…\n")).collect::<String>(),
            "ellipsis_lines",
        );
        is(&"12345 word ".repeat(60), "alphabetic_words");
        is(
            &(0..80).map(|n| format!("lamp{n} ")).collect::<String>(),
            "stopwords",
        );
        let twice: Vec<&str> = good
            .iter()
            .take(6)
            .flat_map(|l| [l.as_str(), l.as_str()])
            .collect();
        is(&twice.join("\n\n"), "duplicate_paragraphs");
        let value = broken(&gopher, &twice.join("\n\n")).unwrap();
        assert_eq!(
            (value.1, value.2.as_str()),
            (Value::Number(0.5), "at most 0.3")
        );
    }

    #[test]
    fn fineweb_counts_lines() {
        let fineweb = set(RuleSet::FineWeb);
        let rule = |text: &str| broken(&fineweb, text).map(|(rule, ..)| rule);
        let line =
            |n: usize| format!("The keeper number {n} looks after the lamp {n} every night.\n");
        let good: String = (0..10).map(line).collect();
        assert_eq!(rule(&good), None);
        assert_eq!(rule(&good.replace('.', "")).as_deref(), Some("ended_lines"));
        assert_eq!(rule(&"Lamp.\n".repeat(3)).as_deref(), Some("short_lines"));
        assert_eq!(
            rule(&(line(1) + &line(1) + &line(2))).as_deref(),
            Some("repeated_characters")
        );
        // A share equal to the bound fails, as in the reference.
        let lines: String = (0..100)
            .map(|n| line(n).replace('.', if n < 12 { "." } else { "" }))
            .collect();
        assert_eq!(rule(&lines).as_deref(), Some("ended_lines"));
    }

    #[test]
    fn own_bounds_replace_published_ones() {
        let mut step = set(RuleSet::Gopher);
        let bound = Bound {
            least: Some(2.0),
            most: None,
        };
        step.bounds = BTreeMap::from([("words".to_owned(), bound)]);
        let (rule, value, _) = broken(&step, "Lamp").unwrap();
        assert_eq!((rule.as_str(), value), ("words", Value::Number(1.0)));
        let (rule, ..) = broken(&step, "Lamp and rope").unwrap();
        assert_eq!(rule, "stopwords");
        step.mark = true;
        assert!(Checks::of(&step).marks());
    }

    #[test]
    fn c4_keeps_lines_that_end() {
        let mut document = Document {
            text: (0..6)
                .map(|n| format!("Lamp {n} burns here.\nMenu {n}\n\n"))
                .collect(),
            ..Document::default()
        };
        let mut trace = Trace::default();
        Checks::of(&set(RuleSet::C4)).apply(&mut document, &mut trace);
        assert_eq!(trace.broken(), None);
        assert!(!document.text.contains("Menu") && document.parts_removed == 6);
        let few = broken(&set(RuleSet::C4), "Only one sentence is here.").unwrap();
        assert_eq!(few.0, "sentences");
        let lorem = broken(&set(RuleSet::C4), "Lorem ipsum dolor sit.").unwrap();
        assert_eq!(lorem.0, "lorem_ipsum");
        let code = broken(&set(RuleSet::C4), "A { brace stands here.").unwrap();
        assert_eq!(code.0, "curly_brackets");
    }
}
