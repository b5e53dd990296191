//! The report as one HTML file that needs no other, and in which nothing acts: its
//! policy (CSP) allows one style sheet, known by its digest, and no script or address.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::Report;
use super::sections::{Section, Table};
use crate::inert;

const STYLE: &str = include_str!("report.css");

/// The page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
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
                @for section in sections {
                    section {
                        h2 { (section.title) }
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

fn rows(table: &Table) -> maud::Markup {
    html! {
        // A region that can be scrolled must be reached by keys.
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

/// Without what turns or acts; maud escapes the rest.
fn shown(text: &str) -> String {
    inert::shown(text).into_owned()
}
