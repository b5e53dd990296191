//! The test cases of Google's robots.txt parser (github.com/google/robotstxt,
//! `robots_test.cc`) and those of RFC 9309, as a table.
//!
//! Cases with the empty address or the empty agent are left out, because no [`PageUrl`] and no
//! product token is empty, and so are addresses longer than the limit. If the expectation differs
//! from Google's, the case says so.

use super::super::*;

/// What is tested, the robots.txt, and the verdicts: agent, address, allowed.
type GoogleCase = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, bool)],
);

const CASES: &[GoogleCase] = &[
    (
        "nothing is written",
        "",
        &[("FooBot", "http://foo.bar/x", true)],
    ),
    (
        "an agent without a group",
        "user-agent: FooBot\ndisallow: /\n",
        &[
            ("FooBot", "http://foo.bar/", false),
            ("BarBot", "http://foo.bar/", true),
        ],
    ),
    // Lines.
    (
        "a name, a colon and a value",
        "user-agent: FooBot\ndisallow: /\n",
        &[("FooBot", "http://foo.bar/x/y", false)],
    ),
    (
        "names that mean nothing",
        "foo: FooBot\nbar: /\n",
        &[("FooBot", "http://foo.bar/x/y", true)],
    ),
    (
        "a forgotten colon",
        "user-agent FooBot\ndisallow /\n",
        &[("FooBot", "http://foo.bar/x/y", false)],
    ),
    (
        "a forgotten colon in an indented line",
        "  user-agent FooBot\n\t disallow /\n",
        &[("FooBot", "http://foo.bar/x/y", false)],
    ),
    (
        "a forgotten colon and more than two words",
        "user-agent: FooBot\ndisallow /x /y\n",
        &[("FooBot", "http://foo.bar/x", true)],
    ),
    (
        "typing errors that are common",
        "useragent: FooBot\ndissallow: /a\ndissalow: /b\ndisalow: /c\ndiasllow: /d\ndisallaw: /e\n\
         User Agent: BarBot\ndisallow: /f\n",
        &[
            ("FooBot", "http://foo.bar/a", false),
            ("FooBot", "http://foo.bar/b", false),
            ("FooBot", "http://foo.bar/c", false),
            ("FooBot", "http://foo.bar/d", false),
            ("FooBot", "http://foo.bar/e", false),
            ("FooBot", "http://foo.bar/f", true),
            ("BarBot", "http://foo.bar/a", true),
            ("BarBot", "http://foo.bar/f", false),
        ],
    ),
    (
        "upper case",
        "USER-AGENT: FooBot\nALLOW: /x/\nDISALLOW: /\n",
        &[
            ("FooBot", "http://foo.bar/x/y", true),
            ("FooBot", "http://foo.bar/a/b", false),
        ],
    ),
    (
        "lower case",
        "user-agent: FooBot\nallow: /x/\ndisallow: /\n",
        &[
            ("FooBot", "http://foo.bar/x/y", true),
            ("FooBot", "http://foo.bar/a/b", false),
        ],
    ),
    (
        "mixed case",
        "uSeR-aGeNt: FooBot\nAlLoW: /x/\ndIsAlLoW: /\n",
        &[
            ("FooBot", "http://foo.bar/x/y", true),
            ("FooBot", "http://foo.bar/a/b", false),
        ],
    ),
    (
        "line ends of Unix, DOS and old Macs, none at the end",
        "user-agent: FooBot\r\ndisallow: /a\rdisallow: /b\n\r\n\rdisallow: /c",
        &[
            ("FooBot", "http://foo.bar/a", false),
            ("FooBot", "http://foo.bar/b", false),
            ("FooBot", "http://foo.bar/c", false),
            ("FooBot", "http://foo.bar/d", true),
        ],
    ),
    // Groups.
    (
        "rules before any group count for no agent; groups of one agent are one",
        "allow: /foo/bar/\n\n\
         user-agent: FooBot\ndisallow: /\nallow: /x/\n\
         user-agent: BarBot\ndisallow: /\nallow: /y/\n\n\nallow: /w/\n\
         user-agent: BazBot\n\n\
         user-agent: FooBot\nallow: /z/\ndisallow: /\n",
        &[
            ("FooBot", "http://foo.bar/x/b", true),
            ("FooBot", "http://foo.bar/z/d", true),
            ("FooBot", "http://foo.bar/y/c", false),
            ("BarBot", "http://foo.bar/y/c", true),
            ("BarBot", "http://foo.bar/w/a", true),
            ("BarBot", "http://foo.bar/z/d", false),
            ("BazBot", "http://foo.bar/z/d", true),
            ("FooBot", "http://foo.bar/foo/bar/", false),
            ("BarBot", "http://foo.bar/foo/bar/", false),
            ("BazBot", "http://foo.bar/foo/bar/", false),
        ],
    ),
    (
        "agents are compared without regard to case, up to the first space",
        "User-Agent: FoO bAr\nAllow: /x/\nDisallow: /\n",
        &[
            ("Foo", "http://foo.bar/x/y", true),
            ("Foo", "http://foo.bar/a/b", false),
            ("foo", "http://foo.bar/x/y", true),
            ("FOO", "http://foo.bar/a/b", false),
        ],
    ),
    (
        "what follows the space in an agent's name does not name it",
        "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n",
        &[
            ("Foo", "http://foo.bar/x/y", true),
            ("Foo Bar", "http://foo.bar/x/y", false),
        ],
    ),
    (
        "a version is no part of the name, a longer name is another",
        "User-Agent: FooBot/2.1\nDisallow: /a\nUser-agent: FooBot-News\nDisallow: /b\n",
        &[
            ("FooBot", "http://foo.bar/a", false),
            ("FooBot", "http://foo.bar/b", true),
        ],
    ),
    (
        "the star is for who has no group",
        "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n",
        &[
            ("FooBot", "http://foo.bar/x/y", false),
            ("BarBot", "http://foo.bar/x/y", true),
        ],
    ),
    (
        "a star and more words is a star, more letters are not",
        "user-agent: * all\ndisallow: /a\n\nuser-agent: *bot\ndisallow: /b\n",
        &[
            ("FooBot", "http://foo.bar/a", false),
            ("FooBot", "http://foo.bar/b", true),
        ],
    ),
    (
        "without a star and a group all is allowed",
        "user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\nuser-agent: BazBot\ndisallow: /\n",
        &[("QuxBot", "http://foo.bar/x/y", true)],
    ),
    (
        "an own group hides the star, even an empty one",
        "User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/\nUser-agent: BarBot\nDisallow:\n",
        &[
            ("FooBot", "http://foo.bar/x/page", true),
            ("FooBot", "http://foo.bar/y/page", false),
            ("BarBot", "http://foo.bar/x/page", true),
        ],
    ),
    (
        // Google's published parser ends the group here; its documentation and
        // RFC 9309 section 2.2.4 say otherwise.
        "a sitemap or an unknown line does not end a group",
        "user-agent: FooBot\nSitemap: http://foo.bar/map.xml\nuser-agent: BarBot\nfoo: bar\n\
         user-agent: BazBot\ndisallow: /\n",
        &[
            ("FooBot", "http://foo.bar/x", false),
            ("BarBot", "http://foo.bar/x", false),
            ("BazBot", "http://foo.bar/x", false),
        ],
    ),
    (
        "a crawl delay is a rule and ends the names of its group",
        "user-agent: FooBot\ncrawl-delay: 5\nuser-agent: BarBot\ndisallow: /\n",
        &[
            ("FooBot", "http://foo.bar/x", true),
            ("BarBot", "http://foo.bar/x", false),
        ],
    ),
    // The deciding rule.
    (
        "paths are compared with regard to case",
        "user-agent: FooBot\ndisallow: /X/\n",
        &[
            ("FooBot", "http://foo.bar/x/y", true),
            ("FooBot", "http://foo.bar/X/y", false),
        ],
    ),
    (
        "the longer rule forbids",
        "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/\n",
        &[("FooBot", "http://foo.bar/x/page.html", false)],
    ),
    (
        "the longer rule allows",
        "user-agent: FooBot\nallow: /x/page.html\ndisallow: /x/\n",
        &[
            ("FooBot", "http://foo.bar/x/page.html", true),
            ("FooBot", "http://foo.bar/x/", false),
        ],
    ),
    (
        "two empty rules",
        "user-agent: FooBot\ndisallow: \nallow: \n",
        &[("FooBot", "http://foo.bar/x/page.html", true)],
    ),
    (
        "of equal rules the one that allows",
        "user-agent: FooBot\ndisallow: /\nallow: /\n",
        &[("FooBot", "http://foo.bar/x/page.html", true)],
    ),
    (
        "a folder and its name",
        "user-agent: FooBot\ndisallow: /x\nallow: /x/\n",
        &[
            ("FooBot", "http://foo.bar/x", false),
            ("FooBot", "http://foo.bar/x/", true),
        ],
    ),
    (
        "equal rules for one page",
        "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/page.html\n",
        &[("FooBot", "http://foo.bar/x/page.html", true)],
    ),
    (
        "a longer pattern goes before a longer match",
        "user-agent: FooBot\nallow: /page\ndisallow: /*.html\n",
        &[
            ("FooBot", "http://foo.bar/page.html", false),
            ("FooBot", "http://foo.bar/page", true),
        ],
    ),
    (
        "a longer plain rule goes before a shorter pattern",
        "user-agent: FooBot\nallow: /x/page.\ndisallow: /*.html\n",
        &[
            ("FooBot", "http://foo.bar/x/page.html", true),
            ("FooBot", "http://foo.bar/x/y.html", false),
        ],
    ),
    // Escapes.
    (
        "an address within a query stays as it is",
        "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par\n",
        &[(
            "FooBot",
            "http://foo.bar/foo/bar?qux=taz&baz=http://foo.bar?tar&par",
            true,
        )],
    ),
    (
        // Addresses are never unescaped here, so both forms are the same.
        "a character of three bytes",
        "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/ツ\n",
        &[
            ("FooBot", "http://foo.bar/foo/bar/%E3%83%84", true),
            ("FooBot", "http://foo.bar/foo/bar/ツ", true),
        ],
    ),
    (
        "the same, escaped in the rule",
        "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%E3%83%84\n",
        &[
            ("FooBot", "http://foo.bar/foo/bar/%E3%83%84", true),
            ("FooBot", "http://foo.bar/foo/bar/ツ", true),
        ],
    ),
    (
        // Google compares `%62%61%7A` only with itself; by RFC 9309 section 2.2.2 it is `baz`.
        "escapes of letters",
        "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%62%61%7A\n",
        &[
            ("FooBot", "http://foo.bar/foo/bar/baz", true),
            ("FooBot", "http://foo.bar/foo/bar/%62%61%7a", true),
        ],
    ),
    (
        "escapes in lower case, and reserved characters",
        "User-agent: FooBot\nDisallow: /a%2fb\nDisallow: /%c3%a1\n",
        &[
            ("FooBot", "http://foo.bar/a%2Fb", false),
            ("FooBot", "http://foo.bar/a/b", true),
            ("FooBot", "http://foo.bar/á", false),
        ],
    ),
    (
        "a percent sign that begins no escape",
        "User-agent: FooBot\nDisallow: /100%/ü/%c3%a1\n",
        &[
            ("FooBot", "http://foo.bar/100%/ü/á", false),
            ("FooBot", "http://foo.bar/100/ü/á", true),
        ],
    ),
    (
        "characters that URL parsers escape",
        "User-agent: FooBot\nDisallow: /a b\nDisallow: /{x}\nDisallow: /c%2Ed\nDisallow: /?o'b\n",
        &[
            ("FooBot", "http://foo.bar/a b", false),
            ("FooBot", "http://foo.bar/a%20b", false),
            ("FooBot", "http://foo.bar/{x}", false),
            ("FooBot", "http://foo.bar/c.d", false),
            ("FooBot", "http://foo.bar/?o'b", false),
        ],
    ),
    // Special characters.
    (
        "a star within",
        "User-agent: FooBot\nDisallow: /foo/bar/quz\nAllow: /foo/*/qux\n",
        &[
            ("FooBot", "http://foo.bar/foo/bar/quz", false),
            ("FooBot", "http://foo.bar/foo/quz", true),
            ("FooBot", "http://foo.bar/foo//quz", true),
            ("FooBot", "http://foo.bar/foo/bax/quz", true),
        ],
    ),
    (
        "a dollar at the end",
        "User-agent: FooBot\nDisallow: /foo/bar$\nAllow: /foo/bar/qux\n",
        &[
            ("FooBot", "http://foo.bar/foo/bar", false),
            ("FooBot", "http://foo.bar/foo/bar/qux", true),
            ("FooBot", "http://foo.bar/foo/bar/", true),
            ("FooBot", "http://foo.bar/foo/bar/baz", true),
        ],
    ),
    (
        "comments",
        "User-agent: FooBot\n# Disallow: /\nDisallow: /foo/quz#qux\nAllow: /\n",
        &[
            ("FooBot", "http://foo.bar/foo/bar", true),
            ("FooBot", "http://foo.bar/foo/quz", false),
        ],
    ),
    (
        "who allows index.html allows the folder",
        "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n",
        &[
            ("foobot", "http://foo.com/allowed-slash/", true),
            ("foobot", "http://foo.com/allowed-slash/index.htm", false),
            ("foobot", "http://foo.com/allowed-slash/index.html", true),
            ("foobot", "http://foo.com/anyother-url", false),
        ],
    ),
    (
        "who forbids index.html forbids only that",
        "User-Agent: *\nDisallow: /a/index.html\n",
        &[
            ("foobot", "http://foo.com/a/", true),
            ("foobot", "http://foo.com/a/index.html", false),
        ],
    ),
    // The examples of Google's documentation.
    (
        "/fish",
        "user-agent: FooBot\ndisallow: /\nallow: /fish\n",
        &[
            ("FooBot", "http://foo.bar/bar", false),
            ("FooBot", "http://foo.bar/fish", true),
            ("FooBot", "http://foo.bar/fish.html", true),
            ("FooBot", "http://foo.bar/fish/salmon.html", true),
            ("FooBot", "http://foo.bar/fishheads", true),
            ("FooBot", "http://foo.bar/fishheads/yummy.html", true),
            ("FooBot", "http://foo.bar/fish.html?id=anything", true),
            ("FooBot", "http://foo.bar/Fish.asp", false),
            ("FooBot", "http://foo.bar/catfish", false),
            ("FooBot", "http://foo.bar/?id=fish", false),
        ],
    ),
    (
        "/fish* is /fish",
        "user-agent: FooBot\ndisallow: /\nallow: /fish*\n",
        &[
            ("FooBot", "http://foo.bar/bar", false),
            ("FooBot", "http://foo.bar/fish", true),
            ("FooBot", "http://foo.bar/fish.html", true),
            ("FooBot", "http://foo.bar/fish/salmon.html", true),
            ("FooBot", "http://foo.bar/fishheads", true),
            ("FooBot", "http://foo.bar/fishheads/yummy.html", true),
            ("FooBot", "http://foo.bar/fish.html?id=anything", true),
            ("FooBot", "http://foo.bar/Fish.bar", false),
            ("FooBot", "http://foo.bar/catfish", false),
            ("FooBot", "http://foo.bar/?id=fish", false),
        ],
    ),
    (
        "/fish/ is not /fish",
        "user-agent: FooBot\ndisallow: /\nallow: /fish/\n",
        &[
            ("FooBot", "http://foo.bar/bar", false),
            ("FooBot", "http://foo.bar/fish/", true),
            ("FooBot", "http://foo.bar/fish/salmon", true),
            ("FooBot", "http://foo.bar/fish/?salmon", true),
            ("FooBot", "http://foo.bar/fish/salmon.html", true),
            ("FooBot", "http://foo.bar/fish/?id=anything", true),
            ("FooBot", "http://foo.bar/fish", false),
            ("FooBot", "http://foo.bar/fish.html", false),
            ("FooBot", "http://foo.bar/Fish/Salmon.html", false),
        ],
    ),
    (
        "/*.php",
        "user-agent: FooBot\ndisallow: /\nallow: /*.php\n",
        &[
            ("FooBot", "http://foo.bar/bar", false),
            ("FooBot", "http://foo.bar/filename.php", true),
            ("FooBot", "http://foo.bar/folder/filename.php", true),
            (
                "FooBot",
                "http://foo.bar/folder/filename.php?parameters",
                true,
            ),
            ("FooBot", "http://foo.bar//folder/any.php.file.html", true),
            ("FooBot", "http://foo.bar/filename.php/", true),
            ("FooBot", "http://foo.bar/index?f=filename.php/", true),
            ("FooBot", "http://foo.bar/php/", false),
            ("FooBot", "http://foo.bar/index?php", false),
            ("FooBot", "http://foo.bar/windows.PHP", false),
        ],
    ),
    (
        "/*.php$",
        "user-agent: FooBot\ndisallow: /\nallow: /*.php$\n",
        &[
            ("FooBot", "http://foo.bar/bar", false),
            ("FooBot", "http://foo.bar/filename.php", true),
            ("FooBot", "http://foo.bar/folder/filename.php", true),
            ("FooBot", "http://foo.bar/filename.php?parameters", false),
            ("FooBot", "http://foo.bar/filename.php/", false),
            ("FooBot", "http://foo.bar/filename.php5", false),
            ("FooBot", "http://foo.bar/php/", false),
            ("FooBot", "http://foo.bar/filename?php", false),
            ("FooBot", "http://foo.bar/aaaphpaaa", false),
            ("FooBot", "http://foo.bar//windows.PHP", false),
        ],
    ),
    (
        "/fish*.php",
        "user-agent: FooBot\ndisallow: /\nallow: /fish*.php\n",
        &[
            ("FooBot", "http://foo.bar/bar", false),
            ("FooBot", "http://foo.bar/fish.php", true),
            (
                "FooBot",
                "http://foo.bar/fishheads/catfish.php?parameters",
                true,
            ),
            ("FooBot", "http://foo.bar/Fish.PHP", false),
        ],
    ),
    (
        "the longer of two",
        "user-agent: FooBot\nallow: /p\ndisallow: /\n",
        &[("FooBot", "http://example.com/page", true)],
    ),
    (
        "the less strict of two",
        "user-agent: FooBot\nallow: /folder\ndisallow: /folder\n",
        &[("FooBot", "http://example.com/folder/page", true)],
    ),
    (
        "the longer of two patterns",
        "user-agent: FooBot\nallow: /page\ndisallow: /*.htm\n",
        &[("FooBot", "http://example.com/page.htm", false)],
    ),
    (
        "the root alone",
        "user-agent: FooBot\nallow: /$\ndisallow: /\n",
        &[
            ("FooBot", "http://example.com/", true),
            ("FooBot", "http://example.com/page.html", false),
        ],
    ),
    // RFC 9309.
    (
        "section 5.1",
        "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
         User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
         User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\n\
         User-Agent: quxbot\n\nEOF\n",
        &[
            ("spoor", "http://example.com/a.gif", false),
            ("spoor", "http://example.com/a.gif?x", true),
            ("spoor", "http://example.com/example/page.html", false),
            ("spoor", "http://example.com/publications/", true),
            ("foobot", "http://example.com/example/page.html", true),
            ("foobot", "http://example.com/example/allowed.gif", true),
            ("foobot", "http://example.com/", false),
            ("barbot", "http://example.com/example/page.html", false),
            ("bazbot", "http://example.com/example/page.html", false),
            ("bazbot", "http://example.com/a.gif", true),
            ("quxbot", "http://example.com/example/", true),
        ],
    ),
    (
        "section 5.2",
        "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n",
        &[
            (
                "foobot",
                "http://example.com/example/page/disallowed.gif",
                false,
            ),
            (
                "foobot",
                "http://example.com/example/page/allowed.gif",
                true,
            ),
        ],
    ),
    (
        "section 2.2.2: robots.txt itself",
        "User-Agent: *\nDisallow: /\n",
        &[
            ("foobot", "http://example.com/robots.txt", true),
            ("foobot", "http://example.com/robots.txt.bak", false),
        ],
    ),
    (
        "section 2.2.3: special characters escaped",
        "User-Agent: foobot\nDisallow: /path/file-with-a-%2A.html\nDisallow: /path/foo-%24\n",
        &[
            (
                "foobot",
                "http://example.com/path/file-with-a-%2A.html",
                false,
            ),
            ("foobot", "http://example.com/path/file-with-a-b.html", true),
            ("foobot", "http://example.com/path/foo-%24", false),
            ("foobot", "http://example.com/path/foo-", true),
        ],
    ),
];

#[test]
fn every_case_holds() {
    let mut verdicts = 0;
    for (what, body, expected) in CASES {
        for (agent, url, allowed) in *expected {
            let robots = Robots::parse(agent, body.as_bytes());
            let url = PageUrl::parse(url).unwrap();
            assert_eq!(robots.allows(&url), *allowed, "{what}: {agent} {url}");
            verdicts += 1;
        }
    }
    assert!(verdicts > 150, "{verdicts}");
}

fn allows(body: &[u8], path: &str) -> bool {
    let url = PageUrl::parse(&format!("http://foo.bar{path}")).unwrap();
    Robots::parse("foo", body).allows(&url)
}

#[test]
fn byte_order_marks_and_bytes_that_are_no_text() {
    let rules = b"User-Agent: foo\nDisallow: /x\n";
    for (before, read) in [
        (&b""[..], true),
        (b"\xEF\xBB\xBF", true),
        (b"\xEF\xBB", true),
        (b"\xEF", true),
        // Not a mark, so the first line is unknown.
        (b"\xEF\x11\xBF", false),
        (b"\xEF\xBB\xBF\n", true),
    ] {
        let body = [before, rules].concat();
        assert_eq!(!allows(&body, "/x"), read, "{}", before.escape_ascii());
    }
    // Google's parser treats a mark within the text as part of its line. Joined files have such
    // marks, so it is removed here.
    let within = b"User-Agent: foo\nDisallow: /x\n\xEF\xBB\xBFDisallow: /y\n";
    assert!(!allows(within, "/x") && !allows(within, "/y"));
    let broken = b"User-Agent: foo\n\xFF\xFE\nDisallow: /\xFF\nDisallow: /z\0z\n";
    assert!(allows(broken, "/x") && !allows(broken, "/zz"));
    assert!(!allows(broken, "/%FF"), "escaped, as addresses have it");
}

#[test]
fn long_lines_are_cut() {
    let head = "user-agent: foo\nallow: /x/yes\ndisallow: /x/";
    let body = format!("{head}{}\ndisallow: /y\n", "a".repeat(20_000));
    assert!(allows(body.as_bytes(), "/x/aaaa") && !allows(body.as_bytes(), "/y"));
    let body = format!("{head}*{}\n", "ü".repeat(20_000));
    assert!(allows(body.as_bytes(), "/x/ü"));
}

#[test]
fn nothing_is_read_beyond_500_kibibytes_and_no_cut_line() {
    let start = "user-agent: foo\ndisallow: /first\n";
    let fill = "\n".repeat(MAX_ROBOTS_BYTES);
    let room = |rest: &str| MAX_ROBOTS_BYTES - start.len() - rest.len();
    let whole = "disallow: /last\n";
    let body = format!("{start}{}{whole}disallow: /beyond\n", &fill[..room(whole)]);
    assert!(!allows(body.as_bytes(), "/first"));
    assert!(!allows(body.as_bytes(), "/last"));
    assert!(allows(body.as_bytes(), "/beyond"));
    // The limit is after `allow: /`.
    let cut = "disallow: /\nallow: /";
    let body = format!("{start}{}{cut}open\n", &fill[..room(cut)]);
    assert_eq!(
        &body[..MAX_ROBOTS_BYTES][MAX_ROBOTS_BYTES - cut.len()..],
        cut
    );
    assert!(!allows(body.as_bytes(), "/shut"));
}

#[test]
fn sitemaps_stand_anywhere() {
    let map = "Sitemap: http://foo.bar/sitemap.xml\n";
    let rules = "User-Agent: foo\nAllow: /some/path\nUser-Agent: bar\n\n\n";
    for body in [
        format!("{rules}{map}"),
        format!("{map}{rules}"),
        format!("{rules}site-map: http://foo.bar/sitemap.xml"),
    ] {
        let robots = Robots::parse("foo", body.as_bytes());
        assert_eq!(robots.sitemaps(), ["http://foo.bar/sitemap.xml"]);
    }
}
