//! The prefixes of a site whose addresses share a budget.
//!
//! Endless pages come from a program that serves a few forms of address. So a prefix is what
//! those have in common: the folder, the script if the last segment is one, and the names
//! of the query's parameters, not their values; segments and names with digits are treated
//! as equal, because dates, numbers and session ids are what such programs count up.

use serde::{Deserialize, Serialize};

use crate::address::PageUrl;

/// The longest prefix that is kept, in bytes.
const MAX_BYTES: usize = 300;

/// The two prefixes of its site for an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Prefixes {
    /// Addresses that differ only in numbers and values, such as `/events/#/` or
    /// `/list.php?page&sort`.
    pub narrow: String,
    /// Everything below the first folder, such as `/events/*`; `/*` for addresses in no
    /// folder. It never equals a narrow one.
    pub wide: String,
}

/// The prefixes of `url`.
pub fn prefixes(url: &PageUrl) -> Prefixes {
    let (folder, file) = url.path().rsplit_once('/').unwrap_or_default();
    let segments: Vec<String> = folder.split('/').skip(1).map(without_digits).collect();
    let mut narrow = String::from("/");
    for segment in &segments {
        narrow.push_str(segment);
        narrow.push('/');
    }
    let wide = match segments.first() {
        Some(first) => format!("/{}/*", shortened(first.clone())),
        None => "/*".to_owned(),
    };
    if let Some(query) = url.query() {
        // One folder has many scripts, each with its own kind of pages.
        if file.contains('.') {
            narrow.push_str(&without_digits(file));
        }
        let mut names: Vec<String> = query
            .split('&')
            .map(|pair| without_digits(pair.split('=').next().unwrap_or_default()))
            .collect();
        names.sort();
        names.dedup();
        narrow.push('?');
        narrow.push_str(&names.join("&"));
    }
    Prefixes {
        narrow: shortened(narrow),
        wide,
    }
}

/// A segment with digits counts as a number, including its letters: `2031-03`, `x7f3a9`.
/// One without digits is unchanged.
fn without_digits(segment: &str) -> String {
    if segment.bytes().any(|b| b.is_ascii_digit()) {
        match segment.rsplit_once('.') {
            // `page2.php` is the script `#.php`.
            Some((_, extension)) if !extension.bytes().any(|b| b.is_ascii_digit()) => {
                format!("#.{extension}")
            }
            _ => "#".to_owned(),
        }
    } else {
        segment.to_owned()
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_BYTES {
        // Paths and queries are ASCII, but cutting must be safe for any text.
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push('~');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefixes_of_sites() {
        for (path, narrow, wide) in [
            ("/", "/", "/*"),
            ("/a.html", "/", "/*"),
            ("/wiki/Cat", "/wiki/", "/wiki/*"),
            ("/wiki/Cat?action=edit", "/wiki/?action", "/wiki/*"),
            ("/events/2031/03/12/", "/events/#/#/#/", "/events/*"),
            ("/s/9f3ab1/page/3", "/s/#/page/", "/s/*"),
            ("/list.php?b=2&a=1&a=3", "/list.php?a&b", "/*"),
            ("/f/list.php?f%5B0%5D=2&f%5B1%5D=2", "/f/list.php?#", "/f/*"),
            ("/2031/a", "/#/", "/#/*"),
            ("/x/view12.php?id=3", "/x/#.php?id", "/x/*"),
        ] {
            let url = PageUrl::parse(&format!("http://a.org{path}")).unwrap();
            let found = prefixes(&url);
            assert_eq!((&*found.narrow, &*found.wide), (narrow, wide), "{path}");
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn narrow_is_never_wide(path in "(/[a-z0-9*.;]{0,300}){0,6}(\\?[a-z*/=&]{0,20})?") {
            if let Ok(url) = PageUrl::parse(&format!("http://a.org{path}")) {
                let Prefixes { narrow, wide } = prefixes(&url);
                prop_assert!(wide.ends_with("/*") && !wide.contains('?'));
                prop_assert!(!narrow.ends_with("/*") || narrow.contains('?'), "{narrow}");
                prop_assert!(narrow.len() <= MAX_BYTES + 1 && wide.len() <= MAX_BYTES + 4);
            }
        }
    }
}
