use scraper::Html;

use super::super::tree::Tree;
use super::{MAX_STEPS, XPath, eval};

const PAGE: &str = r#"<!doctype html><html lang="en"><body>
<div id="a" class="x y"><p>One</p><p title="t">Two <b>bold</b></p><!-- c --></div>
<ul><li>1</li><li>2</li><li>3</li><li>4</li></ul>
<div id="b"><p>Three</p><a href="/x">link</a></div></body></html>"#;

fn found(expression: &str) -> Vec<String> {
    let html = Html::parse_document(PAGE);
    let tree = Tree::new(&html);
    let found = XPath::parse(expression).unwrap().find(&tree).unwrap();
    found.texts(&tree)
}

#[test]
fn the_language_is_xpath_1_0() {
    for (expression, expected) in [
        ("//p", &["One", "Two bold", "Three"][..]),
        ("//p[1]", &["One", "Three"]),
        ("(//p)[2]", &["Two bold"]),
        ("//div[@id='b']/p/text()", &["Three"]),
        ("//li[position() > 1 and position() < last()]", &["2", "3"]),
        ("//li[last()]/preceding-sibling::li[1]", &["3"]),
        ("//b/ancestor::div/@class", &["x y"]),
        ("//b/ancestor::*[1]", &["Two bold"]),
        ("//a/@href | //p[@title]/@title", &["t", "/x"]),
        ("count(//li)", &["4"]),
        ("sum(//li) div 4", &["2.5"]),
        ("7 mod 3 - 1 * 2", &["-1"]),
        ("string(//p[2])", &["Two bold"]),
        ("normalize-space('  a   b ')", &["a b"]),
        ("substring('12345', 1.5, 2.6)", &["234"]),
        ("substring-after('a: b', ': ')", &["b"]),
        ("translate('Passau', 'as', 'A')", &["PAAu"]),
        ("concat('a', 1, true())", &["a1true"]),
        ("//li[. = 2]/following-sibling::*", &["3", "4"]),
        (
            "//p[contains(concat(' ', ../@class, ' '), ' y ')][2]/b",
            &["bold"],
        ),
        ("//div[not(a)]/p[1]", &["One"]),
        ("id('b')/a", &["link"]),
        ("//*[name() = 'a' or local-name() = 'b']", &["bold", "link"]),
        ("//comment()", &[" c "]),
        ("//b/following::a", &["link"]),
        ("//a/preceding::b/..", &["Two bold"]),
        ("//div/p[starts-with(., 'T')]", &["Two bold", "Three"]),
        ("//li[. > 2] = //li[. < 4]", &["true"]),
        ("//*/@*[. = 'y']", &[]),
        ("-//li[2]", &["-2"]),
        ("'a' < 'b'", &["false"]),
    ] {
        assert_eq!(found(expression), expected, "{expression}");
    }
}

#[test]
fn what_cannot_be_used_is_reported_with_its_place() {
    for (expression, message) in [
        ("//p[", "at character 5: a step is expected here"),
        ("//p]", "at character 4: nothing more is expected here"),
        (
            "//p[@x='1]",
            "at character 8: the quotation mark is not closed",
        ),
        (
            "//$x",
            "at character 3: variables (`$name`) are not supported",
        ),
        (
            "re:test(//a, 'x')",
            "at character 1: the function `re:test()` is not supported; ",
        ),
        (
            "//svg:path",
            "at character 3: `svg:path` has a prefix; namespaces are not supported",
        ),
        ("count(1)", "at character 1: `count()` takes nodes"),
        (
            "contains('a')",
            "at character 1: `contains()` takes 2 to 2 arguments, not 1",
        ),
        (
            "'x'/p",
            "at character 4: only nodes can have predicates or steps",
        ),
        (
            "namespace::x",
            "at character 1: the axis `namespace::` is not supported",
        ),
        ("ü + ;", "at character 5: `;` is not part of XPath"),
        ("", "at character 1: a step is expected here"),
    ] {
        let error = XPath::parse(expression).unwrap_err().to_string();
        assert!(error.starts_with(message), "{expression}: {error}");
    }
    let deep = format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000));
    let error = XPath::parse(&deep).unwrap_err().to_string();
    assert!(error.contains("more than 512 names"), "{error}");
    let nested = format!("{}1{}", "(".repeat(40), ")".repeat(40));
    let error = XPath::parse(&nested).unwrap_err().to_string();
    assert!(error.contains("brackets nest deeper than 32"), "{error}");
    let minuses = format!("{}1", "-".repeat(4_000));
    assert!(XPath::parse(&minuses).is_err());
    assert!(XPath::parse(&"/a".repeat(3_000)).is_err());
    assert!(XPath::parse(&"1+".repeat(2_000)).is_err());
}

#[test]
fn a_hostile_expression_ends() {
    let page = format!("<body>{}", "<p>x".repeat(20_000));
    let html = Html::parse_document(&page);
    let tree = Tree::new(&html);
    for expression in [
        "//*[count(//*[count(//*) > 1]) > 1]",
        "//*/following::*/preceding::*/following::*",
        "//p[.//text() = //text()]",
        "//p[preceding::p[preceding::p]]",
        "string(//*[string(/) = string(/*)])",
    ] {
        let xpath = XPath::parse(expression).unwrap();
        let found = eval::evaluate(&xpath.expr, &tree, MAX_STEPS / 20);
        assert!(found.is_err(), "{expression}");
    }
}
