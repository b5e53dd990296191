//! The report as one self-contained HTML file in which nothing can act: its policy (CSP)
//! allows one style sheet, identified by its digest, the pictures inside the file, and no
//! scripts or addresses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::sections::{ReportSection, Table, decimal, duration};
use super::{Figures, JobVerdict, Report};
use crate::crawl::figures::{HostFigures, count};
use crate::sanitize;

const STYLE: &str = include_str!("report.css");

/// The page.
pub(super) fn page(report: &Report, sections: &[ReportSection]) -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; \
         form-action 'none'"
    );
    let names: Vec<&str> = report.jobs.iter().map(|j| j.name.as_str()).collect();
    let names = names.join(", ");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Report: " (shown(&names)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Report: " (shown(&names)) }
                p.when { "Read at " (report.time) " by spoor " (env!("CARGO_PKG_VERSION")) }
                @for job in &report.jobs { (verdict(job, report.jobs.len() > 1)) }
                h2.details { "Details" }
                @for section in sections {
                    section {
                        h3 { (section.title) }
                        @for text in &section.text { p { (shown(text)) } }
                        @for figure in &section.figures {
                            figure {
                                div.plot role="img" aria-label=(shown(&figure.caption)) {
                                    (PreEscaped(&figure.svg))
                                }
                                figcaption { (shown(&figure.caption)) }
                            }
                        }
                        @for table in &section.tables { (rows(table)) }
                    }
                }
            }
        }
    }
    .into_string()
}

/// The results of a job at a glance.
fn verdict(job: &Figures, several: bool) -> maud::Markup {
    let JobVerdict {
        sentence,
        pictures,
        passages,
        ..
    } = &job.verdict;
    html! {
        section.verdict {
            @if several { h2 { (shown(&job.name)) } }
            p.sentence { (shown(sentence)) }
            @if let Some(gain) = job.gain() { p { (gain) } }
            dl.facts {
                @for (value, name) in &facts(job) {
                    div { dt { (name) } dd { (value) } }
                }
            }
            @if let Some(manners) = job.manners() { p.when { (manners) } }
            @if job.log.totals.rows == 0 { p { "Nothing was crawled yet: the log is empty." } }
            @if !pictures.is_empty() {
                h3 { "Pictures and their words" }
                ul.pictures {
                    @for picture in pictures {
                        @let words = picture.words.as_deref().unwrap_or("no words of its own");
                        li {
                            img src=(picture.data) alt=(shown(words)) loading="lazy";
                            p dir="auto" { (shown(words)) }
                            p.when { (shown(host_of(&picture.page))) }
                        }
                    }
                }
            }
            @if !passages.is_empty() {
                h3 { "From its text" }
                @for passage in passages {
                    figure.passage {
                        blockquote dir="auto" { (shown(&passage.text)) }
                        figcaption {
                            bdi { (shown(passage.title.as_deref().unwrap_or(&passage.url))) }
                            ", " (shown(host_of(&passage.url)))
                            @if let Some(likely) = passage.on_topic {
                                (format!(", {:.0} % likely on topic", 100.0 * likely))
                            }
                        }
                    }
                }
            }
            @let hosts: Vec<_> = job.log.top_hosts.iter().filter(|h| h.pages > 0).take(10).collect();
            @if !hosts.is_empty() {
                h3 { "The sites that gave most" }
                (rows(&sites(&hosts)))
            }
        }
    }
}

/// The most productive sites, as a table.
fn sites(hosts: &[&HostFigures]) -> Table {
    let row = |host: &&HostFigures| {
        let share = 100.0 * host.on_topic as f64 / host.pages as f64;
        let (pages, images) = (count(host.pages), count(host.images));
        vec![host.host.clone(), pages, format!("{share:.0} %"), images]
    };
    Table {
        head: ["site", "pages", "on topic", "images"]
            .map(str::to_owned)
            .to_vec(),
        rows: hosts.iter().map(row).collect(),
    }
}

/// The key figures of a job, each with its label.
fn facts(job: &Figures) -> [(String, String); 6] {
    let JobVerdict {
        documents,
        headline,
        ..
    } = &job.verdict;
    let headline = headline.as_ref();
    let share = headline.and_then(|h| h.share);
    let range = headline.and_then(|h| h.share_range);
    let range = range.map(|(low, high)| format!("{:.0} to {:.0} %", 100.0 * low, 100.0 * high));
    let share = share.map(|share| format!("{:.0} %", 100.0 * share));
    let beside = match (&share, &range) {
        (Some(_), Some(range)) => format!(" ({range})"),
        _ => String::new(),
    };
    let share = share.or(range).unwrap_or_else(|| "\u{2013}".to_owned());
    [
        (count(job.log.totals.pages), "pages".to_owned()),
        (share, format!("of the chosen ones on topic{beside}")),
        (
            count(documents.count),
            match documents.count {
                0 => "documents".to_owned(),
                _ => format!(
                    "documents, {} MB of text",
                    decimal(documents.bytes as f64 / 1e6)
                ),
            },
        ),
        (
            count(job.log.totals.images),
            "images with their words".to_owned(),
        ),
        (count(job.log.hosts), "sites".to_owned()),
        (duration(job.seconds()), "from first to last".to_owned()),
    ]
}

/// The host of an address, or all of it.
fn host_of(url: &str) -> &str {
    url.split('/').nth(2).unwrap_or(url)
}

fn rows(table: &Table) -> maud::Markup {
    html! {
        // A scrollable region must be reachable by keyboard.
        div.wide tabindex="0" {
            table {
                thead { tr { @for name in &table.head { th scope="col" { (shown(name)) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (n, cell) in row.iter().enumerate() {
                                @if n == 0 { th scope="row" { (shown(cell)) } }
                                @else { td { (shown(cell)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Removes direction and control characters; maud escapes the rest.
fn shown(text: &str) -> String {
    sanitize::shown(text).into_owned()
}
