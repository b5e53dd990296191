mod oracle;

use std::path::Path;

use scraper::Html;

use super::*;

const PAGE: &str = r#"<!doctype html><html><head><title>x</title><base href="/b/"></head><body>
<div class="news"><div class="article"><header class="h1">
<h1>Passau zählt weiterhin zu den
  besten jungen Universitäten weltweit</h1></header>
<p class="date">14. 2. 18</p><p class="other">03/04/2021</p>
<p>One</p><p>Two <script>x</script><b>bold</b></p><a href="y?z">more</a></div></div></body></html>"#;

const RULES: &str = r#"
[[rule]]
name = "old"
urls = ["example.org/*"]
until = "2017-12-31"
[[rule.field]]
name = "title"
css = "title"

[[rule]]
name = "mobile"
urls = ["example.org/*"]
markup = "article.mobile"
[[rule.field]]
name = "title"
css = "h1"

[[rule]]
name = "news"
urls = ["example.org/*"]
markup = ".news"
[[rule.field]]
name = "title"
css = ".news .article header.h1 h1"
required = true
[[rule.field]]
name = "date"
css = ".date"
transform = [{ date = { languages = ["de"] } }]
[[rule.field]]
name = "other"
xpath = "//p[@class='other']"
transform = ["date"]
[[rule.field]]
name = "paragraph"
css = "p"
[[rule.field]]
name = "paragraphs"
css = "p:not([class])"
many = true
[[rule.field]]
name = "link"
css = "a"
attribute = "HREF"
transform = ["absolute"]
[[rule.field]]
name = "raw"
regex = '<title>(.*?)</title>'
[[rule.field]]
name = "author"
css = ".author"
required = true
"#;

fn parsed(text: &str) -> RuleSet {
    RuleSet::parse(text, Path::new("x.toml")).unwrap()
}

fn apply(rules: &RuleSet, url: &str, day: Option<&str>) -> Option<Applied> {
    let url = PageUrl::parse(url).unwrap();
    let html = Html::parse_document(PAGE);
    rules.apply(&Page {
        url: &url,
        markup: PAGE,
        html: &html,
        day: day.map(|day| day.parse().unwrap()),
    })
}

#[test]
fn fields_are_found_and_doubts_are_reported() {
    let rules = parsed(RULES);
    let applied = apply(&rules, "https://example.org/a", Some("2018-02-15")).unwrap();
    assert_eq!(applied.rule.as_deref(), Some("news"));
    assert_eq!(applied.required, ["title", "author"]);
    assert_eq!(applied.missing, ["author"]);
    let value = |name: &str| applied.value(name).map(ToString::to_string);
    let title = "Passau zählt weiterhin zu den besten jungen Universitäten weltweit";
    assert_eq!(value("title").as_deref(), Some(title));
    assert_eq!(value("date").as_deref(), Some("2018-02-14"));
    assert_eq!(value("other"), None);
    assert_eq!(value("paragraph").as_deref(), Some("14. 2. 18"));
    assert_eq!(value("paragraphs").as_deref(), Some("One | Two bold"));
    assert_eq!(value("link").as_deref(), Some("https://example.org/b/y?z"));
    assert_eq!(value("raw").as_deref(), Some("x"));
    let notes = |name: &str| {
        let field = applied.fields.iter().find(|field| field.name == name);
        field.unwrap().notes.clone()
    };
    assert_eq!(
        notes("other"),
        ["\"03/04/2021\" may be 2021-04-03 or 2021-03-04: set `order` or `languages`"]
    );
    assert_eq!(
        notes("paragraph"),
        ["`p` meets 4 elements where one is meant; the first was taken"]
    );
    let json = serde_json::to_value(&applied.fields[0]).unwrap();
    let expected = serde_json::json!({
        "name": "title",
        "value": title,
        "css_path": ".news .article header.h1 h1",
        "url": "https://example.org/a",
    });
    assert_eq!(json, expected);
}

#[test]
fn a_rule_is_chosen_by_address_markup_and_day() {
    let rules = parsed(RULES);
    let chosen = |url, day| apply(&rules, url, day).map(|a| a.rule);
    let some = |name: &str| Some(Some(name.to_owned()));
    assert_eq!(
        chosen("https://example.org/", Some("2017-05-01")),
        some("old")
    );
    assert_eq!(
        chosen("https://example.org/", Some("2018-05-01")),
        some("news")
    );
    assert_eq!(chosen("https://example.com/", None), None);
    let mobile = RULES.replace("markup = \".news\"", "markup = \".gone\"");
    let rules = parsed(&mobile);
    let none = apply(&rules, "https://example.org/", Some("2018-05-01")).unwrap();
    assert_eq!(none, Applied::default());
}

#[test]
fn examples_are_run_and_duplicates_found() {
    let text = format!(
        "{RULES}\n[[rule.example]]\npage = \"a.html\"\nurl = \"https://example.org/a\"\nvalues = \
         {{ date = \"2018-02-14\", link = \"x\", author = \"A\" }}\n[[rule]]\nname = \"again\"\n\
         urls = [\"example.org/*\"]\nmarkup = \".news\"\n[[rule.field]]\nname = \"a\"\ncss = \"h1\"\n\
         [[rule.field]]\nname = \"b\"\ncss = \"h1\"\n"
    );
    let rules = RuleSet::parse(&text, Path::new("r/x.toml")).unwrap();
    let checked = check(&rules, None, |example| {
        assert_eq!(example.page, Path::new("r/a.html"));
        Ok((PAGE.to_owned(), Html::parse_document(PAGE)))
    });
    let [checked] = checked.as_slice() else {
        panic!("{checked:?}");
    };
    let failures: Vec<String> = checked.failures.iter().map(ToString::to_string).collect();
    assert_eq!(
        failures,
        [
            "the rule `old` is chosen for this page",
            "author: expected \"A\", found nothing",
            "link: expected \"x\", found \"https://example.org/b/y?z\"",
        ]
    );
    let found: Vec<String> = duplicates(&rules)
        .into_iter()
        .map(|d| format!("{} {} {}", d.first, d.second, d.why))
        .collect();
    assert_eq!(
        found,
        [
            "news again is never chosen, because the first one takes all its pages",
            "again.a again.b finds the same in the same way",
        ]
    );
}

#[test]
fn rule_files_are_changed_and_comments_stay() {
    let text = "# all\n[[rule]]\nname = \"a\"\nurls = [\"a.org\"]\n# title\n[[rule.field]]\nname = \
                \"t\"\ncss = \"h1\" # first\n";
    let changed = replace_selector(text, "a", "t", "css", "h2.x").unwrap();
    assert_eq!(changed, text.replace("\"h1\"", "\"h2.x\""));
    let rule = NewRule {
        name: "b".to_owned(),
        urls: vec!["b.org/*".to_owned()],
        fields: vec![NewField {
            name: "date".to_owned(),
            css: "time".to_owned(),
            attribute: Some("datetime".to_owned()),
            is_date: true,
            part: None,
            required: true,
        }],
        examples: vec![NewExample {
            page: "p.html".to_owned(),
            url: "https://b.org/1".to_owned(),
            values: vec![("date".to_owned(), FieldValue::Text("2018-02-14".to_owned()))],
        }],
    };
    let longer = append(text, &rule).unwrap();
    assert!(longer.starts_with(text), "{longer}");
    let rules = parsed(&longer);
    assert_eq!(rules.rules().len(), 2);
    assert_eq!(
        append(&longer, &rule)
            .unwrap_err()
            .to_string()
            .split(';')
            .next(),
        Some("has the rule `b` already")
    );
    assert_eq!(remove(&longer, "b").unwrap(), text);
    assert_eq!(
        remove(text, "b").unwrap_err().to_string(),
        "has no rule `b`"
    );
}

#[test]
fn selectors_are_proposed_from_examples() {
    let first = Html::parse_document(PAGE);
    let other = PAGE
        .replace("14. 2. 18", "1. März 2019")
        .replace("besten jungen", "neuesten");
    let second = Html::parse_document(&other);
    let best = |a: &str, b: &str| {
        let pages = [
            Wanted {
                html: &first,
                value: a,
            },
            Wanted {
                html: &second,
                value: b,
            },
        ];
        propose(&pages).map(|all| all[0].clone())
    };
    let title = best(
        "Passau zählt weiterhin zu den besten jungen Universitäten weltweit",
        "Passau zählt weiterhin zu den neuesten Universitäten weltweit",
    )
    .unwrap();
    assert_eq!((title.css.as_str(), title.is_single), ("h1", true));
    let date = best("2018-02-14", "2019-03-01").unwrap();
    assert_eq!((date.css.as_str(), date.is_date), ("p.date", true));
    let text = best("Passau ... more", "Passau ... more").unwrap();
    // The innermost of two elements with the same text.
    assert_eq!(text.css, "div.article");
    // The words may also be inside the element, which has the date before and a link after them.
    let within = best("One ... bold", "One ... bold").unwrap();
    assert_eq!(within.css, "div.article");
    let none = best("no such", "no such").unwrap_err();
    assert!(
        none.to_string().starts_with("page 1: no element has"),
        "{none}"
    );
}

/// A date can also be read from an enclosing element, which has the title too.
#[test]
fn the_innermost_element_with_a_date_is_proposed_first() {
    let page = |title: &str, date: &str| {
        Html::parse_document(&format!(
            "<div class=news><h1>{title}</h1><p class=published>{date}</p><p>A text.</p></div>"
        ))
    };
    let (first, second) = (
        page("First title", "14. Februar 2018"),
        page("Second title", "1. März 2018"),
    );
    let pages = [
        Wanted {
            html: &first,
            value: "2018-02-14",
        },
        Wanted {
            html: &second,
            value: "2018-03-01",
        },
    ];
    let all = propose(&pages).unwrap();
    assert_eq!(all[0].css, "p.published");
}

/// Both pages have an element with a class around the text, within one with an id that has hardly
/// more text: other pages of the site may have only the latter.
#[test]
fn an_id_around_the_text_is_taken_before_a_class() {
    let page = |n: usize| {
        let text = format!("word{n} ").repeat(400);
        Html::parse_document(&format!(
            "<div id=body><p>{}</p><div id=text><div class=v2><p>Infobox</p><p>The tower {n} is \
             high.</p>{text}<p>It was built {n}.</p></div><p>Retrieved.</p></div></div>",
            "Menu ".repeat(200)
        ))
    };
    let (first, second) = (page(1), page(2));
    let pages = [
        Wanted {
            html: &first,
            value: "The tower 1 ... was built 1.",
        },
        Wanted {
            html: &second,
            value: "The tower 2 ... was built 2.",
        },
    ];
    let all = propose(&pages).unwrap();
    assert_eq!(all[0].css, "#text");
    assert!(all.iter().any(|one| one.css == "div.v2"), "{all:?}");
}

fn seen(watch: &mut Watch, url: &str, applied: &Applied) -> Vec<Event> {
    watch.see(&Seen {
        time: "2026-01-01T00:00:00Z",
        url,
        host: "example.org",
        is_covered: true,
        is_refused: Some(false),
        applied: Some(applied),
    })
}

#[test]
fn a_change_of_the_site_is_reported_once_and_its_end_too() {
    let good = Applied {
        rule: Some("news".to_owned()),
        required: vec!["title".to_owned()],
        ..Applied::default()
    };
    let lacking = Applied {
        missing: vec!["title".to_owned()],
        ..good.clone()
    };
    let mut watch = Watch::default();
    let mut names = Vec::new();
    let page = |n: usize| format!("https://example.org/{n}");
    let phases = [
        (30, &good),
        (10, &lacking),
        (20, &Applied::default()),
        (20, &good),
    ];
    let mut n = 0;
    for (pages, applied) in phases {
        for _ in 0..pages {
            n += 1;
            for event in seen(&mut watch, &page(n), applied) {
                names.push((n, event.change.name()));
            }
        }
    }
    assert_eq!(
        names,
        [
            (36, "unfilled"),
            (45, "unmatched"),
            (69, "recovered"),
            (69, "recovered")
        ]
    );
    // A page that loses its structure is reported by itself.
    let events = seen(&mut watch, &page(1), &Applied::default());
    let messages: Vec<String> = events.iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "example.org: https://example.org/1 matched the rule `news` at an earlier visit, and \
          matches none now"
        ]
    );
    let standing = &watch.standings(1)[0];
    assert_eq!((standing.totals.pages, standing.totals.matched), (81, 60));
}

#[test]
fn a_host_that_begins_to_refuse_us_is_reported() {
    let mut watch = Watch::default();
    let mut events = Vec::new();
    for n in 0..60 {
        let url = format!("https://example.org/{n}");
        events.extend(watch.see(&Seen {
            time: "2026-01-01T00:00:00Z",
            url: &url,
            host: "example.org",
            is_covered: true,
            is_refused: Some(n >= 40),
            applied: None,
        }));
    }
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(event.change, Change::Refused);
    assert!(
        event.to_string().starts_with("example.org: refuses us: "),
        "{event}"
    );
    // An unreachable host refuses nothing, and pages without rules are not watched.
    let quiet = watch.see(&Seen {
        time: "",
        url: "https://example.org/",
        host: "example.org",
        is_covered: false,
        is_refused: Some(true),
        applied: None,
    });
    assert_eq!(quiet, []);
}

/// Three weeks of 100 pages; in the last one every seventh page has lost its title. That is too few
/// for the window of the last ten pages, but enough for the week. The status has the weeks.
#[test]
fn a_week_is_compared_with_the_weeks_before() {
    let good = Applied {
        rule: Some("news".to_owned()),
        required: vec!["title".to_owned()],
        ..Applied::default()
    };
    let lacking = Applied {
        missing: vec!["title".to_owned()],
        ..good.clone()
    };
    let pages = |watch: &mut Watch| {
        let mut events = Vec::new();
        for (week, day) in ["2026-11-09", "2026-11-17", "2026-11-29"]
            .iter()
            .enumerate()
        {
            for n in 0..100 {
                let applied = if week == 2 && n % 7 == 6 {
                    &lacking
                } else {
                    &good
                };
                events.extend(watch.see(&Seen {
                    time: &format!("{day}T12:00:00Z"),
                    url: &format!("https://example.org/{week}/{n}"),
                    host: "example.org",
                    is_covered: true,
                    is_refused: Some(false),
                    applied: Some(applied),
                }));
            }
        }
        events
    };
    let mut watch = Watch::default();
    let events = pages(&mut watch);
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (event.change.name(), event.against()),
        ("unfilled", "weeks")
    );
    let message = event.to_string();
    let expected = "example.org: `title` of the rule `news` is filled on ";
    assert!(message.starts_with(expected), "{message}");
    let expected = " pages in the week of 2026-11-23, 100 % on average in the 2 weeks before; look \
                    at https://example.org/2/";
    assert!(message.contains(expected), "{message}");
    let standing = &watch.standings(1)[0];
    assert_eq!(standing.fallen, ["news.title"]);
    let weeks: Vec<_> = standing.weeks.iter().collect();
    let shown: Vec<String> = weeks.iter().map(|week| week.week.to_string()).collect();
    assert_eq!(shown, ["2026-11-09", "2026-11-16", "2026-11-23"]);
    assert_eq!(
        (weeks[2].totals.required, weeks[2].totals.filled),
        (100, 86)
    );
    assert_eq!(
        (weeks[2].rules[0].pages, weeks[2].rules[0].filled),
        (100, 86)
    );

    // For stored pages, which come in any order, the same is reported at the end.
    let mut watch = Watch::unordered();
    assert_eq!(pages(&mut watch), []);
    let messages: Vec<String> = watch.judged().iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "example.org: `title` of the rule `news` is filled on 86 % of 100 pages in the week of \
             2026-11-23, 100 % on average in the 2 weeks before; look at \
             https://example.org/2/97"
        ]
    );
    assert_eq!(watch.standings(1)[0].weeks, standing.weeks);
}

/// A site that changes suddenly is reported by its last pages, and not again by the week.
#[test]
fn one_change_is_reported_once() {
    let good = Applied {
        rule: Some("news".to_owned()),
        ..Applied::default()
    };
    let mut watch = Watch::default();
    let mut events = Vec::new();
    for n in 0..180 {
        let applied = if n < 120 {
            good.clone()
        } else {
            Applied::default()
        };
        events.extend(watch.see(&Seen {
            time: ["2026-11-09", "2026-11-16", "2026-11-23"][n / 60],
            url: &format!("https://example.org/{n}"),
            host: "example.org",
            is_covered: true,
            is_refused: Some(false),
            applied: Some(&applied),
        }));
    }
    let changes: Vec<_> = events
        .iter()
        .map(|e| (e.change.name(), e.against()))
        .collect();
    assert_eq!(changes, [("unmatched", "pages")]);
    assert_eq!(watch.standings(1)[0].fallen, ["unmatched"]);
}

/// Selectors that take quadratic time in the number of siblings, or that examine many descendants,
/// on the widest page that they are used on and on a deep one.
#[test]
fn a_hostile_page_does_not_hold_a_selector_up() {
    let flat = format!("<body>{}", "<p><b>x</b></p>".repeat(9_900));
    let deep = format!("<body>{}{}", "<div>".repeat(250), "<p>x".repeat(9_900));
    let mut all = std::time::Duration::ZERO;
    for page in [flat, deep] {
        let html = Html::parse_document(&page);
        assert!(!tree::is_too_wide(&html));
        for selector in [
            "p:nth-child(2n+1)",
            "p:nth-last-child(3)",
            "p:nth-last-of-type(3)",
            "p ~ p ~ x",
            "* * * * * * * * b:empty",
            "div div div div div > p > b:empty",
            "p:has(x)",
            "p:has(~ x)",
            "p:not(:has(+ p ~ x))",
            ":has(* * x)",
        ] {
            let css = read::css_of(selector).unwrap();
            let begun = spoor_testing::worked();
            html.select(&css.selector).count();
            let took = spoor_testing::worked() - begun;
            println!("{took:?} {selector}");
            all += took;
        }
    }
    // They take 3 s; without bounds they would take minutes.
    assert!(all < std::time::Duration::from_secs(30), "{all:?}");
    let wide = Html::parse_document(&format!("<body>{}", "<p>x".repeat(10_001)));
    assert!(tree::is_too_wide(&wide));
}

/// A corpus is not rebuilt, and a running crawl gets no new rules, for changes that affect no
/// value.
#[test]
fn rules_are_the_same_wherever_they_stand() {
    let first = parsed(RULES);
    let example = "[[rule.example]]\npage = \"a.html\"\nurl = \"https://example.org/a\"\n\
                   values = { title = \"A\" }\n";
    let moved = parsed(&format!("# a comment\n\n{RULES}\n{example}"));
    assert_eq!(first.print(), moved.print());
    assert!(first.missing_in(&moved).is_empty());
    for (from, to) in [
        ("2017-12-31", "2017-12-30"),
        ("article.mobile", "article.phone"),
        ("css = \".date\"", "css = \".time\""),
        ("required = true", "required = false"),
        ("\"absolute\"", "\"trim\""),
        ("languages = [\"de\"]", "languages = [\"en\"]"),
    ] {
        let other = parsed(&RULES.replacen(from, to, 1));
        assert_ne!(first.print(), other.print(), "{from}");
        assert_eq!(other.missing_in(&first).len(), 1, "{from}");
    }
}

/// Sites of the lab whose pages have a title, a date and enough text.
const SITES: [&str; 11] = [
    "beba", "beka", "bewimu", "bida", "bitade", "bizoro", "bobuto", "bowa", "bozuga", "bufo",
    "widuma",
];

/// What a reader sees on a page of the lab: its title, the day of its last change, and the first
/// and the last words of its text.
fn seen_by_a_reader(markup: &str) -> Option<(String, String, [String; 2])> {
    let html = Html::parse_document(markup);
    let all = |css: &str| {
        let selector = scraper::Selector::parse(css).unwrap();
        let found: Vec<String> = html
            .select(&selector)
            .map(|found| rule::visible(found, usize::MAX))
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        found
    };
    let title = all("h1").into_iter().next()?;
    let date = regex::Regex::new(r"last (?:edited|modified) on (\d+) (\w+) (\d{4})").unwrap();
    let date = date.captures(markup)?;
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = 1 + months.find(&date[2][..3])? / 3;
    let date = format!("{}-{month:02}-{:0>2}", &date[3], &date[1]);
    let paragraphs = all("#mw-content-text p");
    let mut paragraphs = paragraphs.iter().filter(|text| text.len() > 80);
    let first = paragraphs.next()?;
    let last = paragraphs.next_back().unwrap_or(first);
    let words: Vec<&str> = first.split(' ').take(6).collect();
    let ending: Vec<&str> = last.rsplit(' ').take(6).collect();
    let ending: Vec<&str> = ending.into_iter().rev().collect();
    Some((title, date, [words.join(" "), ending.join(" ")]))
}

/// From two examples each, selectors for title, date and text are proposed that are right on the
/// other pages of eleven sites of the lab.
#[test]
fn two_examples_are_enough_on_eleven_sites_of_the_lab() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/labweb/labweb");
    if !web.is_dir() {
        println!("SKIPPED: no target/labweb; unpack ../shared/labweb there to run this");
        return;
    }
    let mut others = 0;
    for site in SITES {
        let mut files: Vec<_> = std::fs::read_dir(web.join(format!("{site}.test/wiki")))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let pages = files
            .iter()
            .filter_map(|file| std::fs::read_to_string(file).ok());
        let pages = pages.filter_map(|page| Some((seen_by_a_reader(&page)?, page)));
        let pages: Vec<_> = pages.take(12).collect();
        assert!(pages.len() >= 5, "{site}");
        let trees = [0, 1].map(|n| Html::parse_document(&pages[n].1));
        let best = |of: &dyn Fn(usize) -> String| {
            let values = [0, 1].map(of);
            let wanted = [0, 1].map(|n| Wanted {
                html: &trees[n],
                value: &values[n],
            });
            propose(&wanted).unwrap().remove(0)
        };
        let fields = [
            ("title", best(&|n| pages[n].0.0.clone())),
            ("date", best(&|n| pages[n].0.1.clone())),
            ("text", best(&|n| pages[n].0.2.join(" ... "))),
        ];
        let fields = fields.map(|(name, proposal)| NewField {
            name: name.to_owned(),
            css: proposal.css,
            attribute: proposal.attribute,
            is_date: proposal.is_date,
            part: proposal.part.clone(),
            required: true,
        });
        let rule = NewRule {
            name: site.to_owned(),
            urls: vec![format!("{site}.test/*")],
            fields: fields.to_vec(),
            examples: Vec::new(),
        };
        let rules = RuleSet::parse(&append("", &rule).unwrap(), Path::new("rules.toml")).unwrap();
        let url = PageUrl::parse(&format!("http://{site}.test/wiki/x")).unwrap();
        for ((title, date, [first, last]), markup) in &pages[2..] {
            let html = Html::parse_document(markup);
            let page = Page {
                url: &url,
                markup,
                html: &html,
                day: None,
            };
            let applied = rules.apply(&page).unwrap();
            let value = |name| {
                applied
                    .value(name)
                    .map(ToString::to_string)
                    .unwrap_or_default()
            };
            assert_eq!(value("title"), *title, "{site}");
            assert_eq!(
                value("date").get(..10),
                Some(date.as_str()),
                "{site}: {title}"
            );
            let text = value("text");
            assert!(text.contains(first), "{site}: {title}: {first}");
            assert!(text.contains(last), "{site}: {title}: {last}");
            others += 1;
        }
    }
    println!("{others} other pages");
}
