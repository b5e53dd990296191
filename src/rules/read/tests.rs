use std::path::Path;

use super::parse;

fn errors(text: &str) -> Vec<String> {
    let errors = parse(text, Path::new("rules/news.toml")).unwrap_err();
    errors.errors().iter().map(ToString::to_string).collect()
}

#[test]
fn a_rule_is_read_with_all_its_keys() {
    let text = r#"
[[rule]]
name = "news"
urls = ["https://*.example.org/news/*", "^https://x\\.org/\\d+$"]
markup = "article.mobile"
from = 2018-01-01
until = "2019-12-31"

[[rule.field]]
name = "title"
css = ".news .article header.h1 h1"
required = true

[[rule.field]]
name = "date"
xpath = "//time[1]"
attribute = "datetime"
transform = ["trim", { date = { order = "dmy", languages = ["de", "en"], timezone = "Europe/Berlin" } }]

[[rule.field]]
name = "price"
regex = '<b class="p">([^<]*)</b>'
many = true
transform = [{ replace = "EUR", with = "" }, { number = "," }]

[[rule.example]]
page = "pages/a.html"
url = "https://www.example.org/news/a"
values = { title = "A", price = [1, 2.5], date = "2018-02-14" }
"#;
    let rules = parse(text, Path::new("rules/news.toml")).unwrap();
    let [rule] = rules.as_slice() else {
        panic!("{rules:?}");
    };
    assert_eq!((rule.name.as_str(), rule.urls.len()), ("news", 2));
    assert_eq!(rule.from.unwrap().to_string(), "2018-01-01");
    assert_eq!(rule.until.unwrap().to_string(), "2019-12-31");
    assert_eq!(rule.origin.line, 2);
    let names: Vec<&str> = rule.fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["title", "date", "price"]);
    let [example] = rule.examples.as_slice() else {
        panic!("{rule:?}");
    };
    assert_eq!(example.page, Path::new("rules/pages/a.html"));
    assert_eq!(example.values.len(), 3);
}

#[test]
fn a_bad_rule_is_one_clear_error_with_line_and_key() {
    let head =
        "[[rule]]\nname = \"news\"\nurls = [\"example.org\"]\n[[rule.field]]\nname = \"t\"\n";
    for (field, error) in [
        (
            "css = \"h1[\"",
            "6:7: rule.news.field.t.css: is not a known CSS selector: ",
        ),
        (
            "xpath = \"//h1[\"",
            "6:9: rule.news.field.t.xpath: at character 6: a step is expected here",
        ),
        (
            "regex = \"(\"",
            "6:9: rule.news.field.t.regex: is not a regular expression: unclosed group",
        ),
        (
            "regex = '(\\w{900}){900}'",
            "6:9: rule.news.field.t.regex: needs more than 1048576 bytes of memory; ",
        ),
        (
            "css = \"a:has(b:has(c:has(d)))\"",
            "6:7: rule.news.field.t.css: is not a CSS selector: `:has(...)` may not be inside ",
        ),
        (
            "css = \"h1\"\nxpath = \"//h1\"",
            "7:9: rule.news.field.t.xpath: a field has one of `css`, `xpath` and `regex`",
        ),
        (
            "many = true",
            "4:1: rule.news.field.t.css: is required, or `xpath`, or `regex`",
        ),
        (
            "css = \"h1\"\nmani = true",
            "7:1: rule.news.field.t.mani: unknown key; did you mean `many`?",
        ),
        (
            "css = \"h1\"\nmany = 1",
            "7:8: rule.news.field.t.many: is neither true nor false",
        ),
        (
            "css = \"h1\"\ntransform = [\"dat\"]",
            "7:14: rule.news.field.t.transform: `dat` is unknown; known are trim, ",
        ),
        (
            "css = \"h1\"\ntransform = [{ date = { order = \"dym\" } }]",
            "7:33: rule.news.field.t.transform.date.order: `dym` is not one of dmy, mdy, ymd",
        ),
        (
            "css = \"h1\"\ntransform = [{ date = { timezone = \"Berlin\" } }]",
            "7:36: rule.news.field.t.transform.date.timezone: `Berlin` is not a time zone of this ",
        ),
        (
            "regex = \"x\"\nattribute = \"y\"",
            "7:13: rule.news.field.t.attribute: a regular ",
        ),
    ] {
        let errors = errors(&format!("{head}{field}\n"));
        let expected = format!("rules/news.toml:{error}");
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(
            errors[0].starts_with(&expected),
            "{} instead of {expected}",
            errors[0]
        );
    }
}

#[test]
fn what_is_wrong_with_a_field_is_reported_once() {
    let text = r#"
[[rule]]
name = "a"
urls = ["a.test/*"]
[[rule.field]]
name = "title"
css = "h1["
[[rule.field]]
name = "date"
[[rule.example]]
page = "a.html"
url = "http://a.test/"
values = { title = "A", date = "2018-02-14" }
"#;
    let found = errors(text);
    let [title, date] = found.as_slice() else {
        panic!("{found:#?}");
    };
    assert!(title.contains("7:7: rule.a.field.title.css: "), "{title}");
    assert!(date.contains("8:1: rule.a.field.date.css: "), "{date}");
}

#[test]
fn every_problem_of_a_file_is_reported_at_once() {
    let text = r#"
[[rule]]
name = "a b"
urls = ["/x"]
from = "2019-01-01"
until = "2018-01-01"
[[rule.field]]
name = "x"
css = "h1"
[[rule.field]]
name = "x"
css = "h2"
[[rule.example]]
url = "no"
values = { y = 1 }
[other]
"#;
    let found = errors(text);
    let keys: Vec<&str> = found
        .iter()
        .map(|e| e.split(": ").nth(1).unwrap())
        .collect();
    assert_eq!(
        keys,
        [
            "rule.a b.name",
            "rule.a b.urls",
            "rule.a b.until",
            "rule.a b.field.x",
            "rule.a b.example.page",
            "rule.a b.example.url",
            "rule.a b.example.values.y",
            "other",
        ],
        "{found:#?}"
    );
    let syntax = errors("[[rule]\n");
    assert!(
        syntax[0].starts_with("rules/news.toml:1:8: not valid TOML"),
        "{syntax:?}"
    );
}

#[test]
fn beside_rules_only_a_job_has_other_keys() {
    let rule = "[[rule]]\nname = \"a\"\nurls = [\"a.test/*\"]\n[[rule.field]]\nname = \"t\"\ncss = \"h1\"\n";
    let job = format!("[job]\nname = \"cats\"\n[limits]\ntime = \"1h\"\n{rule}");
    assert_eq!(parse(&job, Path::new("cats.toml")).unwrap().len(), 1);
    assert_eq!(
        errors(&format!("[limits]\ntime = \"1h\"\n{rule}")),
        ["rules/news.toml:1:2: limits: unknown key; a rule file has `[[rule]]` blocks"]
    );
}
