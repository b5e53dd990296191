//! The figures as a table for programs and as a page for people.

use std::fmt::Write;

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
            let mut row = |classes: &str, measure: &str, of: &str, value: String, items: usize| {
                let cells = [question, classes, measure, of, &value].map(plain);
                out.push_str(&cells.join("\t"));
                out.push_str(&format!("\t{items}\n"));
            };
            let all = figures.items;
            row("as asked", "votes", "", figures.votes.to_string(), all);
            for (votes, items) in &figures.items_by_votes {
                row(
                    "as asked",
                    "items with votes",
                    &votes.to_string(),
                    items.to_string(),
                    all,
                );
            }
            if let Some(count) = figures.on_topic {
                let (low, high) = wilson(count, all).unwrap_or_default();
                row(
                    "on topic or not",
                    "share on topic",
                    "",
                    share(count, all),
                    all,
                );
                row(
                    "on topic or not",
                    "share on topic, low 95",
                    "",
                    full(low),
                    all,
                );
                row(
                    "on topic or not",
                    "share on topic, high 95",
                    "",
                    full(high),
                    all,
                );
            }
            for variant in &figures.variants {
                let name = &variant.name;
                for class in &variant.classes {
                    row(name, "votes", &class.name, class.votes.to_string(), all);
                    row(
                        name,
                        "majority",
                        &class.name,
                        class.majority.to_string(),
                        all,
                    );
                    row(
                        name,
                        "unanimous",
                        &class.name,
                        class.unanimous.to_string(),
                        all,
                    );
                }
                let none = variant.without_majority.to_string();
                row(name, "without majority", "", none, all);
                let cohen = &variant.cohen;
                for (measure, value) in [
                    ("pairs, observed agreement", cohen.observed),
                    ("pairs, mean kappa", cohen.mean),
                    ("pairs, weighted mean kappa", cohen.weighted),
                ] {
                    row(name, measure, "", or_undefined(value, full), cohen.items);
                }
                row(name, "pairs", "", cohen.pairs.to_string(), cohen.items);
                row(
                    name,
                    "pairs, undefined",
                    "",
                    cohen.undefined.to_string(),
                    cohen.items,
                );
                if let Some(fleiss) = &variant.fleiss {
                    let kappa = or_undefined(fleiss.kappa.value(), full);
                    let votes = fleiss.votes.to_string();
                    let items = fleiss.kappa.items;
                    row(name, "fleiss kappa", &votes, kappa, items);
                    let observed = full(fleiss.kappa.observed);
                    row(name, "fleiss observed agreement", &votes, observed, items);
                }
            }
        }
        out
    }

    /// The same as a page of Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = String::from("# Agreement\n\n");
        let names: Vec<String> = self.annotators.iter().map(|n| escaped(n)).collect();
        line(
            &mut out,
            format_args!("Annotators: {} ({}).", names.len(), names.join(", ")),
        );
        if self.votes_left_out > 0 {
            let names: Vec<String> = self.left_out.iter().map(|n| escaped(n)).collect();
            let failed = if names.is_empty() {
                "nobody".to_owned()
            } else {
                names.join(", ")
            };
            line(
                &mut out,
                format_args!(
                    "\nLeft out: {} votes, on gold questions and by annotators who failed them ({failed}).",
                    self.votes_left_out
                ),
            );
        }
        for figures in &self.questions {
            let title = match figures.question {
                Question::Image => "What the image shows",
                Question::Text => "What the words have to do with it",
            };
            line(&mut out, format_args!("\n## {title}\n"));
            let by_votes = figures.items_by_votes.iter();
            let by_votes: Vec<String> = by_votes.map(|(v, n)| format!("{n} with {v}")).collect();
            line(
                &mut out,
                format_args!(
                    "{} images, {} votes ({}).",
                    figures.items,
                    figures.votes,
                    by_votes.join(", ")
                ),
            );
            if let (Some(count), Some((low, high))) = (
                figures.on_topic,
                wilson(figures.on_topic.unwrap_or_default(), figures.items),
            ) {
                let percent = 100.0 * count as f64 / figures.items as f64;
                line(
                    &mut out,
                    format_args!(
                        "\nOn topic by majority: {count} of {} ({percent:.1} %; 95 % Wilson interval {:.1} to {:.1} %).",
                        figures.items,
                        100.0 * low,
                        100.0 * high
                    ),
                );
            }
            for variant in &figures.variants {
                variant_lines(&mut out, variant);
            }
        }
        out
    }
}

fn variant_lines(out: &mut String, variant: &Variant) {
    line(
        out,
        format_args!("\n### Classes: {}\n", escaped(&variant.name)),
    );
    line(
        out,
        format_args!("| class | votes | majority | unanimous |\n|---|--:|--:|--:|"),
    );
    for class in &variant.classes {
        line(
            out,
            format_args!(
                "| {} | {} | {} | {} |",
                escaped(&class.name),
                class.votes,
                class.majority,
                class.unanimous
            ),
        );
    }
    line(
        out,
        format_args!("| without majority | | {} | |\n", variant.without_majority),
    );
    let short = |value: f64| format!("{value:.3}");
    let cohen = &variant.cohen;
    line(
        out,
        format_args!(
            "- Cohen's kappa, mean over pairs: {}; weighted by common images: {}; observed agreement: {} ({} pairs, {} images in common{})",
            or_undefined(cohen.mean, short),
            or_undefined(cohen.weighted, short),
            or_undefined(cohen.observed, short),
            cohen.pairs,
            cohen.items,
            match cohen.undefined {
                0 => String::new(),
                n => format!(
                    "; {n} of the pairs left out of the kappas, undefined as all their votes are of one class"
                ),
            }
        ),
    );
    match &variant.fleiss {
        Some(fleiss) => line(
            out,
            format_args!(
                "- Fleiss' kappa: {}; observed agreement: {:.3} ({} images with {} votes each; {} images with other numbers of votes left out){}",
                or_undefined(fleiss.kappa.value(), short),
                fleiss.kappa.observed,
                fleiss.kappa.items,
                fleiss.votes,
                fleiss.left_out,
                match fleiss.kappa.value() {
                    Some(_) => "",
                    None => "; undefined, as all votes are of one class",
                }
            ),
        ),
        None => line(
            out,
            format_args!("- Fleiss' kappa: {UNDEFINED}; no image has two votes"),
        ),
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string never fails.
    writeln!(out, "{text}").unwrap_or_default();
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
