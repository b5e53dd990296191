//! Which line of a robots.txt decided, for people. It reads the file anew, line by
//! line; what a rule means it leaves to [`Robots`].

use super::{MAX_ROBOTS_BYTES, Robots};
use crate::address::PageUrl;

/// The line of a robots.txt that decides on `url` for the product token `agent`:
/// its number, from 1, and its text; `None` where no rule speaks of it, and then
/// it is allowed.
///
/// Of the rules of the groups that apply, the longest that matches decides, and of
/// two of one length the one that allows (RFC 9309 section 2.2.2). Whether a rule
/// matches is asked of [`Robots`] itself, one rule at a time, so that what is shown
/// is what was obeyed.
pub fn deciding_line(agent: &str, body: &[u8], url: &PageUrl) -> Option<(u32, String)> {
    let whole = Robots::parse(agent, body);
    let allowed = whole.allows(url);
    let cut = &body[..body.len().min(MAX_ROBOTS_BYTES)];
    let text = String::from_utf8_lossy(cut);
    let rules = rules_of_groups(agent, text.trim_start_matches('\u{feff}'));
    let matching = rules.into_iter().filter(|rule| {
        let alone = format!("user-agent: *\ndisallow: {}\n", rule.path);
        may_match(rule.path, url.path_and_query())
            && !Robots::parse(agent, alone.as_bytes()).allows(url)
    });
    // A directive misspelt so that only the matcher takes it is not found here; then
    // nothing is better than a wrong line.
    matching
        .filter(|rule| rule.allows == allowed)
        .min_by_key(|rule| (std::cmp::Reverse(rule.path.len()), rule.line))
        .map(|rule| (rule.line, rule.text.to_owned()))
}

/// A line that allows or disallows.
struct RuleLine<'a> {
    line: u32,
    text: &'a str,
    allows: bool,
    path: &'a str,
}

/// The rules of the groups that name the agent, or of those for `*` where none does.
fn rules_of_groups<'a>(agent: &str, text: &'a str) -> Vec<RuleLine<'a>> {
    let (mut own, mut star) = (Vec::new(), Vec::new());
    // Whether the group that is read names the agent, and whether it names `*`.
    let (mut is_own, mut is_star, mut saw_own) = (false, false, false);
    // `User-agent` lines one after the other begin one group.
    let mut in_agents = false;
    let unified = text.split('\n').flat_map(|line| {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.split('\r')
    });
    for (line, text) in (1..).zip(unified) {
        let bare = text.split('#').next().unwrap_or_default();
        let Some((key, value)) = bare.split_once(':') else {
            continue;
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        match key.as_str() {
            "user-agent" => {
                if !in_agents {
                    (is_own, is_star) = (false, false);
                }
                in_agents = true;
                let in_token = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
                let token = value.split(|c| !in_token(c)).next().unwrap_or_default();
                if value.starts_with('*') {
                    is_star = true;
                } else if token.eq_ignore_ascii_case(agent) {
                    (is_own, saw_own) = (true, true);
                }
            }
            "allow" | "disallow" => {
                in_agents = false;
                let rule = RuleLine {
                    line,
                    text: text.trim(),
                    allows: key == "allow",
                    path: value,
                };
                if is_own {
                    own.push(rule);
                } else if is_star {
                    star.push(rule);
                }
            }
            "crawl-delay" => in_agents = false,
            _ => {}
        }
    }
    if saw_own { own } else { star }
}

/// False where the letters that a rule begins with rule it out: cheap, as a file may
/// have tens of thousands of rules.
fn may_match(rule: &str, path: &str) -> bool {
    let literal = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_'));
    let end = rule.find(literal).unwrap_or(rule.len());
    !rule.is_empty() && (!rule.starts_with('/') || path.starts_with(&rule[..end]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_line_that_decides_is_found() {
        let body = "\u{feff}# rules\r\nUser-agent: other\r\nDisallow: /\r\n\r\n\
                    User-agent: *\nAllow: /private/open # but not all\n\
                    Disallow: /private/\nDisallow: /*.gif$\nCrawl-delay: 1\n\
                    user-agent: spoor-news\nDisallow: /news/%7Ex/\nAllow: /news/~x/\n";
        let line = |agent: &str, path: &str| {
            let url = PageUrl::parse("http://example.org/").unwrap();
            let url = url.join(path).unwrap();
            let found = deciding_line(agent, body.as_bytes(), &url);
            let allows = Robots::parse(agent, body.as_bytes()).allows(&url);
            (found.map(|(line, _)| line), allows)
        };
        for (agent, path, expected) in [
            ("spoor", "/", (None, true)),
            ("spoor", "/private/x", (Some(7), false)),
            ("spoor", "/private/open/x", (Some(6), true)),
            ("spoor", "/a.gif", (Some(8), false)),
            ("spoor", "/a.gif?b", (None, true)),
            ("other", "/a", (Some(3), false)),
            ("spoor-news", "/private/x", (None, true)),
        ] {
            assert_eq!(line(agent, path), expected, "{agent} {path}");
        }
        let (_, text) = deciding_line(
            "spoor",
            body.as_bytes(),
            &PageUrl::parse("http://example.org/private/open").unwrap(),
        )
        .unwrap();
        assert_eq!(text, "Allow: /private/open # but not all");
        let none = PageUrl::parse("http://example.org/a").unwrap();
        assert_eq!(deciding_line("spoor", b"", &none), None);
    }

    proptest! {
        #[test]
        fn a_deciding_line_agrees_with_the_verdict(
            rules in proptest::collection::vec(("(dis)?allow", "/[ab*]{0,4}\\$?"), 0..6),
            path in "/[ab]{0,4}",
        ) {
            let lines: Vec<String> = rules.iter().map(|(k, v)| format!("{k}: {v}")).collect();
            let body = format!("user-agent: *\n{}", lines.join("\n"));
            let url = PageUrl::parse(&format!("http://example.org{path}")).unwrap();
            let allowed = Robots::parse("spoor", body.as_bytes()).allows(&url);
            match deciding_line("spoor", body.as_bytes(), &url) {
                Some((line, text)) => {
                    prop_assert_eq!(&text, &lines[line as usize - 2]);
                    prop_assert_eq!(text.starts_with('a'), allowed);
                }
                None => prop_assert!(allowed),
            }
        }
    }
}
