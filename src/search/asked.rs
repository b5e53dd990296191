//! The requests to the page, and the addresses that express them.

use url::form_urlencoded;

use super::query::{Filters, Request, Within};

/// The number of hits on a page.
pub(super) const HITS: usize = 20;

/// A request to the page: a search and the number of the page of hits, from 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AskedPage {
    pub query: String,
    pub filters: Filters,
    pub page: usize,
    /// An entity that must occur with the words.
    pub with: Option<String>,
    /// Whether the same paragraph is near enough.
    pub is_paragraph: bool,
}

impl AskedPage {
    /// Reads the query of an address. Invalid values become errors when the search is made.
    pub(super) fn of(query: &str) -> Self {
        let mut asked = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            let value = value.to_owned();
            let filters = &mut asked.filters;
            match name.as_ref() {
                "q" => asked.query = value,
                "host" => filters.hosts.push(value),
                "language" => filters.languages.push(value),
                "bucket" => filters.buckets.push(value),
                "from" => filters.from = Some(value),
                "to" => filters.to = Some(value),
                "perplexity" => {
                    filters.max_perplexity =
                        Some(value.replace(',', "").parse().unwrap_or(f64::NAN));
                }
                "entity" => filters.entities.push(value),
                "class" => filters.classes.push(value),
                "with" => asked.with = Some(value),
                "within" => asked.is_paragraph = value == "paragraph",
                "page" => asked.page = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        asked
    }

    pub(super) fn request(&self) -> Request {
        Request {
            query: self.query.clone(),
            filters: self.filters.clone(),
            offset: self.page.saturating_mul(HITS),
            limit: HITS,
            facets: true,
            with: self.with.iter().cloned().collect(),
            within: if self.is_paragraph {
                Within::Paragraph
            } else {
                Within::Sentence
            },
        }
    }

    /// The address of the same request.
    pub(super) fn address(&self) -> String {
        let mut address = form_urlencoded::Serializer::new(String::new());
        for (name, value) in self.pairs() {
            address.append_pair(name, &value);
        }
        if self.page > 0 {
            address.append_pair("page", &self.page.to_string());
        }
        match address.finish() {
            none if none.is_empty() => "/".to_owned(),
            query => format!("/?{query}"),
        }
    }

    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let filters = &self.filters;
        let query = (!self.query.is_empty()).then(|| ("q", self.query.clone()));
        let mut pairs: Vec<_> = query.into_iter().collect();
        for (name, values) in [
            ("host", &filters.hosts),
            ("language", &filters.languages),
            ("bucket", &filters.buckets),
            ("entity", &filters.entities),
            ("class", &filters.classes),
        ] {
            pairs.extend(values.iter().map(|value| (name, value.clone())));
        }
        let one = |name, value: &Option<String>| value.clone().map(|value| (name, value));
        pairs.extend(one("from", &filters.from));
        pairs.extend(one("to", &filters.to));
        pairs.extend(one("with", &self.with));
        if self.is_paragraph {
            pairs.push(("within", "paragraph".to_owned()));
        }
        pairs.extend(
            filters
                .max_perplexity
                .map(|p| ("perplexity", p.to_string())),
        );
        pairs
    }

    /// The same with other filters, from the first page of hits on.
    pub(super) fn with(&self, change: impl FnOnce(&mut Filters)) -> Self {
        let mut asked = self.clone();
        asked.page = 0;
        change(&mut asked.filters);
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_what_was_asked() {
        let asked = AskedPage::of(
            "q=a+%22b+c%22&host=a.test&host=b.test&from=2024&perplexity=1,200.5&page=2&x=y&to=",
        );
        assert_eq!(asked.query, "a \"b c\"");
        assert_eq!(asked.filters.hosts, ["a.test", "b.test"]);
        assert_eq!(asked.filters.max_perplexity, Some(1_200.5));
        assert_eq!((asked.filters.to.as_deref(), asked.page), (None, 2));
        let address = asked.address();
        assert_eq!(AskedPage::of(address.trim_start_matches("/?")), asked);
        let near =
            AskedPage::of("q=tax&with=USA&within=paragraph&entity=A+%26+B&class=city&class=x");
        assert_eq!(near.request().with, ["USA"]);
        assert_eq!(near.request().within, Within::Paragraph);
        assert_eq!(near.filters.entities, ["A & B"]);
        assert_eq!(near.filters.classes, ["city", "x"]);
        assert_eq!(AskedPage::of(near.address().trim_start_matches("/?")), near);
        // The search reports invalid values.
        let odd = AskedPage::of("perplexity=low").filters.max_perplexity;
        assert!(odd.is_some_and(f64::is_nan));
    }
}
