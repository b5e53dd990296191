//! The page as HTML, without scripts. Direction and control characters are removed from all
//! text, and maud escapes it.

use maud::{DOCTYPE, Markup, html};
use url::form_urlencoded;

use super::asked::{AskedPage, HITS};
use super::find::{Facet, Hit, SearchResult, Whole};
use super::query::Filters;
use super::schema::{About, Picture};
use super::snippet::Snippet;
use super::terminal::facts;
use crate::corpus::report::count;
use crate::sanitize;

/// The data about the index on the page.
#[derive(Debug, Clone, Default)]
pub(super) struct IndexStatus {
    /// The name of the job or corpus.
    pub name: String,
    /// Documents in the index.
    pub documents: u64,
    /// Bytes of documents that are not indexed yet.
    pub behind: u64,
    /// The error of indexing.
    pub problem: Option<String>,
}

/// A hit with its images.
pub(super) struct ShownHit {
    pub hit: Hit,
    pub pictures: Vec<Picture>,
}

/// The page with the hits, or with the error of the query.
pub(super) fn results(
    asked: &AskedPage,
    found: Result<(&SearchResult, &[ShownHit]), &str>,
    standing: &IndexStatus,
) -> String {
    let title = if asked.query.is_empty() {
        format!("Search {}", standing.name)
    } else {
        format!("{} \u{2013} {}", asked.query, standing.name)
    };
    let facets = found.ok().and_then(|(found, _)| found.facets.as_ref());
    let body = html! {
        (form(asked, standing))
        div.columns {
            @if let Some(facets) = facets {
                nav aria-label="Filters" {
                    input #narrow type="checkbox";
                    label for="narrow" { "Filter by host, year, language, class, entity" }
                    div.facets {
                        (facet("Host", &facets.host, asked, |filters, value| toggle(&mut filters.hosts, value)))
                        (facet("Year", &facets.year, asked, year))
                        (facet("Language", &facets.language, asked, |filters, value| toggle(&mut filters.languages, value)))
                        (facet("Class by perplexity", &facets.bucket, asked, |filters, value| toggle(&mut filters.buckets, value)))
                        (facet("Class of entities", &facets.class, asked, |filters, value| toggle(&mut filters.classes, value)))
                        (facet("Entity", &facets.entity, asked, |filters, value| toggle(&mut filters.entities, value)))
                    }
                }
            }
            main {
                @match found {
                    Err(why) => p.problem role="alert" { (shown(why)) },
                    Ok((found, hits)) => (list(asked, found, hits)),
                }
            }
        }
    };
    whole(&title, body)
}

fn form(asked: &AskedPage, standing: &IndexStatus) -> Markup {
    let filters = &asked.filters;
    let perplexity = filters.max_perplexity.map(|p| p.to_string());
    html! {
        header {
            form action="/" method="get" role="search" {
                a.name href="/" { (shown(&standing.name)) }
                div.ask {
                    input type="search" name="q" value=(asked.query) maxlength="1000" aria-label="Search"
                        placeholder="words, \"a phrase\", light*, -without, one OR other" autocapitalize="none";
                    button type="submit" { "Search" }
                }
                div.more {
                    label { "from " input name="from" value=[filters.from.as_deref()] placeholder="year-month" size="9"; }
                    label { "to " input name="to" value=[filters.to.as_deref()] placeholder="or a year" size="9"; }
                    label { "with the entity " input name="with" value=[asked.with.as_deref()] placeholder="any" size="14"; }
                    label title="Otherwise the words and the entity must be in one sentence" { input type="checkbox" name="within" value="paragraph" checked[asked.is_paragraph]; "in its paragraph is enough" }
                    label title="Lower is nearer to the texts about the topic" { "perplexity up to " input name="perplexity" value=[perplexity] placeholder="any" size="6" inputmode="decimal"; }
                }
                @for (name, value) in asked.pairs() {
                    @if ["host", "language", "bucket", "entity", "class"].contains(&name) {
                        input type="hidden" name=(name) value=(value);
                    }
                }
            }
            p.standing {
                (documents(standing.documents))
                @if standing.behind > 0 { ", " (count(standing.behind.div_ceil(1 << 10))) " KiB not indexed yet" }
                @if let Some(problem) = &standing.problem { ". " strong { "Not indexing: " (shown(problem)) } }
            }
        }
    }
}

fn documents(n: u64) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} document{plural}", count(n))
}

/// The values of a facet, each with the address that selects or deselects it.
fn facet(
    name: &str,
    facet: &Facet,
    asked: &AskedPage,
    change: impl Fn(&mut Filters, &str) -> bool,
) -> Markup {
    html! {
        @if !facet.values.is_empty() {
            section {
                h2 { (name) }
                ul {
                    @for (value, number) in &facet.values {
                        @let mut is_chosen = false;
                        @let other = asked.with(|filters| is_chosen = change(filters, value));
                        li {
                            a href=(other.address()) aria-current=[is_chosen.then_some("true")] {
                                span { @if is_chosen { "\u{2715} " } bdi { (shown(value)) } }
                                span.number { (count(*number)) }
                            }
                        }
                    }
                }
                @if facet.others > 0 { p.others { span { "others" } span.number { (count(facet.others)) } } }
            }
        }
    }
}

/// Selects or deselects a value; returns whether it was selected before.
fn toggle(values: &mut Vec<String>, value: &str) -> bool {
    let before = values.len();
    values.retain(|chosen| chosen != value);
    let was_chosen = values.len() < before;
    if !was_chosen {
        values.push(value.to_owned());
    }
    was_chosen
}

fn year(filters: &mut Filters, value: &str) -> bool {
    let is = |date: &Option<String>| date.as_deref() == Some(value);
    let was_chosen = is(&filters.from) && is(&filters.to);
    let chosen = (!was_chosen).then(|| value.to_owned());
    filters.from.clone_from(&chosen);
    filters.to = chosen;
    was_chosen
}

fn list(asked: &AskedPage, found: &SearchResult, hits: &[ShownHit]) -> Markup {
    let first = asked.page.saturating_mul(HITS) + 1;
    let is_all = asked.query.is_empty() && asked.filters.is_empty() && asked.with.is_none();
    html! {
        p.total {
            @if is_all && found.total > 1 { "All " (documents(found.total)) ", the newest first" }
            @else if found.total == 0 { "No document matches." }
            @else { (documents(found.total)) }
            @if found.total > hits.len() as u64 && !hits.is_empty() {
                ", " (count(first as u64)) " to " (count((first + hits.len() - 1) as u64))
            }
        }
        @if !asked.filters.is_empty() {
            p.chosen { a href=(AskedPage { query: asked.query.clone(), ..AskedPage::default() }.address()) { "Drop all filters" } }
        }
        @for hit in hits { (of_hit(hit)) }
        @let more = (first + hits.len()) as u64 <= found.total && !hits.is_empty();
        @if asked.page > 0 || more {
            nav.pages aria-label="Pages" {
                @if asked.page > 0 {
                    a rel="prev" href=(AskedPage { page: asked.page - 1, ..asked.clone() }.address()) { "\u{2190} Better hits" }
                }
                @if more {
                    a rel="next" href=(AskedPage { page: asked.page + 1, ..asked.clone() }.address()) { "More hits \u{2192}" }
                }
            }
        }
    }
}

fn of_hit(shown_hit: &ShownHit) -> Markup {
    let ShownHit { hit, pictures } = shown_hit;
    let about = &hit.about;
    html! {
        article {
            div.words {
                h2 dir="auto" { a href={ "/document/" (id(hit.key)) } {
                    @if hit.title.trim().is_empty() { "(no title)" } @else { (marked(&hit.marked)) }
                } }
                p.address { (outside(&about.url)) }
                p.facts { (facts(hit).join(" \u{b7} ")) }
                p.passage dir="auto" lang=[language(about)] { (marked(&hit.snippet)) }
                p.place {
                    @if about.capture.is_some() {
                        a href={ "/capture/" (id(hit.key)) } { "stored capture" } " \u{b7} "
                    }
                    (place(about))
                }
            }
            @if !pictures.is_empty() {
                div.pictures { @for picture in pictures { (thumbnail(picture)) } }
            }
        }
    }
}

fn place(about: &About) -> String {
    let place = &about.place;
    format!("{}, line {}", shown(&place.file), count(place.line))
}

fn thumbnail(picture: &Picture) -> Markup {
    let file: String = form_urlencoded::byte_serialize(picture.file.as_bytes()).collect();
    let alt = shown(&picture.alt);
    html! {
        img src={ "/image?file=" (file) } alt=(alt) title=[(!alt.is_empty()).then_some(&alt)] loading="lazy";
    }
}

/// The page of a document.
pub(super) fn document(
    key: u64,
    whole_document: &Whole,
    pictures: &[Picture],
    has_capture: bool,
    standing: &IndexStatus,
) -> String {
    let Whole { title, text, about } = whole_document;
    let named = if title.trim().is_empty() {
        "(no title)"
    } else {
        title
    };
    let row = |name: &'static str, value: Option<String>| value.map(|value| (name, value));
    let rows = [
        row("host", Some(about.host.clone())),
        row(
            "author",
            (!about.authors.is_empty()).then(|| about.authors.join(", ")),
        ),
        row(
            "date",
            about.date.clone().filter(|_| !about.date_is_fetched),
        ),
        row("fetched", about.fetched.clone()),
        row("language", about.language.clone()),
        row("words", about.words.map(count)),
        row(
            "perplexity",
            about.perplexity.map(|p| count(p.round() as u64)),
        ),
        row("class", about.bucket.clone()),
        row(
            "on topic",
            about.on_topic.map(|p| format!("{:.0} %", 100.0 * p)),
        ),
        row("a copy of", about.copy_of.clone()),
        row(
            "lies in",
            Some(format!(
                "{}, byte {}",
                place(about),
                count(about.place.byte)
            )),
        ),
        row(
            "stored in",
            about
                .capture
                .as_ref()
                .map(|s| format!("{}, byte {}", s.file, count(s.byte))),
        ),
    ];
    let body = html! {
        (form(&AskedPage::default(), standing))
        main.document {
            h1 dir="auto" { (shown(named)) }
            p.address { (outside(&about.url)) }
            @if has_capture { p { a href={ "/capture/" (id(key)) } { "The page as it was stored" } } }
            dl { @for (name, value) in rows.into_iter().flatten() { div { dt { (name) } dd { (shown(&value)) } } } }
            @if !pictures.is_empty() {
                div.gallery { @for picture in pictures { figure { (thumbnail(picture)) figcaption dir="auto" { (shown(&picture.alt)) } } } }
            }
            div.text dir="auto" lang=[language(about)] {
                @for paragraph in text.split("\n\n").filter(|p| !p.trim().is_empty()) { p { (shown(paragraph)) } }
            }
        }
    };
    whole(named, body)
}

/// A page with an error message.
pub(super) fn notice(title: &str, text: &str) -> String {
    whole(
        title,
        html! { main.document { h1 { (title) } p { (shown(text)) } } },
    )
}

fn whole(title: &str, body: Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown(title)) }
                link rel="icon" type="image/svg+xml" href="/icon.svg";
                link rel="stylesheet" href="/search.css";
            }
            body { (body) }
        }
    }
    .into_string()
}

/// An address on the web as a link; others, such as of files, as text.
fn outside(url: &str) -> Markup {
    let is_web = ["http://", "https://"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    html! {
        bdi {
            @if is_web { a href=(url) rel="noreferrer noopener external" { (shown(url)) } } @else { (shown(url)) }
        }
    }
}

fn marked(snippet: &Snippet) -> Markup {
    html! {
        @for part in &snippet.parts {
            @if part.is_match { mark { (shown(&part.text)) } } @else { (shown(&part.text)) }
        }
    }
}

/// The language of a text for the browser, if its code is one that browsers know.
fn language(about: &About) -> Option<&str> {
    let language = about.language.as_deref()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (language.len() <= 16 && language.chars().all(is_plain)).then_some(language)
}

/// The number of a document in addresses.
fn id(key: u64) -> String {
    format!("{key:016x}")
}

/// Removes direction and control characters; maud escapes the rest.
fn shown(text: &str) -> String {
    sanitize::shown(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_facet_is_chosen_and_dropped() {
        let mut filters = Filters::default();
        assert!(!toggle(&mut filters.hosts, "a.test"));
        assert_eq!(filters.hosts, ["a.test"]);
        assert!(toggle(&mut filters.hosts, "a.test"));
        assert!(!year(&mut filters, "2024"));
        assert_eq!(filters.from, filters.to);
        assert!(year(&mut filters, "2024"));
        assert!(filters.is_empty());
    }
}
