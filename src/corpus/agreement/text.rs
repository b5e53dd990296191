//! The figures as a table for programs and as a page for people.

use std::fmt::{self, Display, Write};

use super::kappa::wilson;
use super::{Agreement, Figures, Variant};
use crate::annotate::votes::Question;

const HEADER: &str = "question\tclasses\tmeasure\tof\tvalue\titems\n";

/// Written if a kappa is undefined.
const UNDEFINED: &str = "undefined";

impl Figures {
    fn name(&self) -> &'static str {
        match self.question {
            Question::Image => "image",
            Question::Text => "text",
        }
    }
}

impl Agreement {
    /// One row per figure: the question, the merging of classes, the measure, its class,
    /// the value, the number of images.
    pub fn to_tsv(&self) -> String {
        let mut out = HEADER.to_owned();
        for figures in &self.questions {
            let question = figures.name();
            let mut row =
                |classes: &str, measure: &str, of: &dyn Display, value: &dyn Display, items| {
                    let (of, value) = (of.to_string(), value.to_string());
                    let cells = [question, classes, measure, &of, &value];
                    out.push_str(&cells.map(plain).join("\t"));
                    out.push_str(&format!("\t{items}\n"));
                };
            let all = figures.items;
            row("as asked", "votes", &"", &figures.votes, all);
            for (votes, items) in &figures.items_by_votes {
                row("as asked", "items with votes", votes, items, all);
            }
            if let Some(count) = figures.on_topic {
                let (low, high) = wilson(count, all).unwrap_or_default();
                let is = "on topic or not";
                row(is, "share on topic", &"", &share(count, all), all);
                row(is, "share on topic, low 95", &"", &full(low), all);
                row(is, "share on topic, high 95", &"", &full(high), all);
            }
            for variant in &figures.variants {
                let name = &variant.name;
                for class in &variant.classes {
                    row(name, "votes", &class.name, &class.votes, all);
                    row(name, "majority", &class.name, &class.majority, all);
                    row(name, "unanimous", &class.name, &class.unanimous, all);
                }
                row(
                    name,
                    "without majority",
                    &"",
                    &variant.without_majority,
                    all,
                );
                let cohen = &variant.cohen;
                for (measure, value) in [
                    ("pairs, observed agreement", cohen.observed),
                    ("pairs, mean kappa", cohen.mean),
                    ("pairs, weighted mean kappa", cohen.weighted),
                ] {
                    row(name, measure, &"", &or_undefined(value, full), cohen.items);
                }
                row(name, "pairs", &"", &cohen.pairs, cohen.items);
                row(name, "pairs, undefined", &"", &cohen.undefined, cohen.items);
                if let Some(fleiss) = &variant.fleiss {
                    let (votes, items) = (fleiss.votes, fleiss.kappa.items);
                    let kappa = or_undefined(fleiss.kappa.value(), full);
                    row(name, "fleiss kappa", &votes, &kappa, items);
                    let observed = full(fleiss.kappa.observed);
                    row(name, "fleiss observed agreement", &votes, &observed, items);
                }
            }
        }
        out
    }

    /// The same as a page of Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a string never fails.
        self.write_markdown(&mut out).unwrap_or_default();
        out
    }

    fn write_markdown(&self, out: &mut String) -> fmt::Result {
        let listed = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| escaped(name)).collect();
            names.join(", ")
        };
        let (count, names) = (self.annotators.len(), listed(&self.annotators));
        writeln!(out, "# Agreement\n\nAnnotators: {count} ({names}).")?;
        if self.votes_left_out > 0 {
            let failed = match self.left_out.as_slice() {
                [] => "none".to_owned(),
                names => listed(names),
            };
            writeln!(
                out,
                "\nLeft out: {} votes, on gold questions and by annotators who failed them ({failed}).",
                self.votes_left_out
            )?;
        }
        for figures in &self.questions {
            let title = match figures.question {
                Question::Image => "What the image shows",
                Question::Text => "What the words have to do with it",
            };
            let (items, votes) = (figures.items, figures.votes);
            let by_votes = figures.items_by_votes.iter();
            let by_votes: Vec<String> = by_votes.map(|(v, n)| format!("{n} with {v}")).collect();
            let by_votes = by_votes.join(", ");
            writeln!(
                out,
                "\n## {title}\n\n{items} images, {votes} votes ({by_votes})."
            )?;
            if let Some(count) = figures.on_topic
                && let Some((low, high)) = wilson(count, items)
            {
                let [share, low, high] =
                    [count as f64 / items as f64, low, high].map(|p| 100.0 * p);
                writeln!(
                    out,
                    "\nOn topic by majority: {count} of {items} ({share:.1} %; 95 % Wilson interval {low:.1} to {high:.1} %)."
                )?;
            }
            for variant in &figures.variants {
                variant.write_markdown(out)?;
            }
        }
        Ok(())
    }
}

impl Variant {
    fn write_markdown(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "\n### Classes: {}\n", escaped(&self.name))?;
        writeln!(
            out,
            "| class | votes | majority | unanimous |\n|---|--:|--:|--:|"
        )?;
        for class in &self.classes {
            let (name, votes) = (escaped(&class.name), class.votes);
            let (majority, unanimous) = (class.majority, class.unanimous);
            writeln!(out, "| {name} | {votes} | {majority} | {unanimous} |")?;
        }
        let none = self.without_majority;
        writeln!(out, "| without majority | | {none} | |\n")?;
        let short = |value: Option<f64>| or_undefined(value, |value| format!("{value:.3}"));
        let cohen = &self.cohen;
        let undefined = match cohen.undefined {
            0 => String::new(),
            n => format!(
                "; {n} of the pairs left out of the kappas, undefined as all their votes are of one class"
            ),
        };
        writeln!(
            out,
            "- Cohen's kappa, mean over pairs: {}; weighted by common images: {}; observed agreement: {} ({} pairs, {} images in common{undefined})",
            short(cohen.mean),
            short(cohen.weighted),
            short(cohen.observed),
            cohen.pairs,
            cohen.items
        )?;
        let Some(fleiss) = &self.fleiss else {
            return writeln!(out, "- Fleiss' kappa: {UNDEFINED}; no image has two votes");
        };
        let undefined = match fleiss.kappa.value() {
            Some(_) => "",
            None => "; undefined, as all votes are of one class",
        };
        writeln!(
            out,
            "- Fleiss' kappa: {}; observed agreement: {:.3} ({} images with {} votes each; {} images with other numbers of votes left out){undefined}",
            short(fleiss.kappa.value()),
            fleiss.kappa.observed,
            fleiss.kappa.items,
            fleiss.votes,
            fleiss.left_out
        )
    }
}

fn or_undefined(value: Option<f64>, form: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| UNDEFINED.to_owned(), form)
}

fn full(value: f64) -> String {
    format!("{value:.6}")
}

fn share(part: usize, all: usize) -> String {
    full(part as f64 / all.max(1) as f64)
}

/// A free-text name without characters that would end a cell.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// The same for Markdown.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in plain(text).chars() {
        if matches!(c, '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
