//! Pages with deep, long, many or broken elements. None of their links is worth a fetch: they lead
//! to archives, which are not pages, or are marked as not to be followed.

use super::{Case, Expect, Parts, chain, many, repeat, whole};

const HEAD: &str = "<!DOCTYPE html><html lang=en><head><meta charset=utf-8>\
    <meta name=robots content=noimageindex><title>A cage</title></head><body>";
const ALONE: &str = "<!DOCTYPE html><meta charset=utf-8><meta name=robots \
    content='nofollow, noimageindex'><title>A cage</title>";
const END: &str = "<p>the end <a href=/end.zip>of it</a></p></body></html>";

/// The cases of this group.
pub(super) fn cases() -> Vec<Case> {
    let page = |(name, about, body)| {
        super::case(
            name,
            about,
            "/case",
            "text/html",
            body,
            Expect::done("page"),
        )
    };
    NESTED
        .iter()
        .chain(LONG)
        .chain(MANY)
        .chain(UNCLOSED)
        .chain(ADDRESSES)
        .copied()
        .map(page)
        .collect()
}

/// Name, description, and body.
type HtmlRow = (&'static str, &'static str, fn() -> Parts);

/// A page with the same text this many times.
fn nest(text: &'static str, times: u64) -> Parts {
    chain([whole(HEAD), repeat(text, times), whole(END)])
}

/// A page of numbered elements.
fn count(times: u64, element: impl Fn(u64) -> String + Send + 'static) -> Parts {
    chain([whole(HEAD), many(times, element), whole(END)])
}

/// A page with something long between two texts.
fn long(before: &'static str, text: &'static str, bytes: u64, after: &'static str) -> Parts {
    let times = bytes / text.len() as u64;
    let body = [whole(before), repeat(text, times), whole(after)];
    chain([whole(HEAD), chain(body), whole(END)])
}

#[rustfmt::skip]
const NESTED: &[HtmlRow] = &[
    ("nested-div", "100,000 nested div", || nest("<div>", 100_000)),
    ("nested-table", "50,000 nested tables", || nest("<table><tr><td>", 50_000)),
    ("nested-links", "formatting elements and links, none closed", || nest("<b><a>", 300_000)),
    ("nested-svg", "nested svg", || nest("<svg><g>", 100_000)),
    ("nested-math", "nested math", || nest("<math><mrow>", 100_000)),
    ("nested-template", "nested templates", || nest("<template>", 100_000)),
    ("nested-object", "end tags that the parser ignores", || nest("<div><object></div>", 50_000)),
    ("nested-select", "select, option and table in turn", || nest("<select><option><table>", 40_000)),
    ("adoption-agency", "250 open b, closed wrongly in 100,000 paragraphs", || {
        chain([whole(HEAD), repeat("<b>", 250), repeat("<p>x</b>", 100_000), whole(END)])
    }),
    ("reopened-formatting", "200 open b with different attributes, reopened by 100,000 paragraphs", || {
        let open = many(200, |n| format!("<b id={n}>"));
        chain([whole(HEAD), whole("<p>"), open, repeat("<p>x", 100_000), whole(END)])
    }),
    ("compared-formatting", "250 open b of 127 attributes, compared with 5,000 more", || {
        let attributes: String = (0..127).map(|n| format!(" {}{}", char::from(b'a' + n % 26), n / 26)).collect();
        let again = attributes.clone();
        let open = many(240, move |n| format!("<b{attributes} z9={n}>"));
        let more = many(5_000, move |n| format!("<b{again} z9=x{n}></b>"));
        chain([whole(HEAD), whole("<p>"), open, more, whole(END)])
    }),
];

#[rustfmt::skip]
const LONG: &[HtmlRow] = &[
    ("long-attribute", "an attribute of 50 MB", || long("<p title='", "0123456789abcdef", 50_000_000, "'>x</p>")),
    ("long-name", "a tag name of 10 MB", || long("<", "abcdefgh", 10_000_000, ">")),
    ("long-text", "one text of 40 MB", || long("<p>", "words of no end ", 40_000_000, "</p>")),
    ("long-word", "one word of 10 MB", || long("<p>", "abcdefgh", 10_000_000, "</p>")),
    ("long-href", "a link of 1 MB", || long("<a href='/", "abcdefgh", 1_000_000, "'>x</a>")),
    ("long-base", "a base of 1 MB", || long("<base href='/", "abcdefgh", 1_000_000, "/'><a href=y.zip>x</a>")),
    ("long-data-image", "a data: image of 10 MB", || {
        long("<img alt=x src='data:image/png;base64,", "AAAAAAAA", 10_000_000, "'>")
    }),
    ("long-style", "a url() of 1 MB in a style", || {
        long("<p style='background:url(/", "abcdefgh", 1_000_000, ")'>x</p>")
    }),
    ("broken-style", "blocks and functions that do not end in a style", || {
        long("<p style='background:", "url((;{[", 1_000_000, "'>x</p>")
    }),
    ("long-srcset", "100,000 candidates in a srcset", || {
        let set = many(100_000, |n| format!("/{n}.jpg {n}w,"));
        chain([whole(HEAD), whole("<img alt=x srcset='"), set, whole("'>"), whole(END)])
    }),
    ("deep-json-ld", "JSON-LD of 100,000 levels", || {
        let (open, close) = (repeat("{\"image\":[", 100_000), repeat("]}", 100_000));
        let script = [whole("<script type=application/ld+json>"), open, close, whole("</script>")];
        chain([whole(HEAD), chain(script), whole(END)])
    }),
    ("long-json-ld", "JSON-LD of 20 MB", || {
        long("<script type=application/ld+json>{\"name\":\"", "abcdefgh", 20_000_000, "\"}</script>")
    }),
    ("json-ld-images", "a million images in JSON-LD", || {
        let images = many(1_000_000, |n| format!("\"/{n}.jpg\","));
        let open = "<script type=application/ld+json>{\"image\":[";
        chain([whole(HEAD), whole(open), images, whole("0]}</script>"), whole(END)])
    }),
];

#[rustfmt::skip]
const MANY: &[HtmlRow] = &[
    ("many-attributes", "a million attributes on one element", || {
        let attributes = many(1_000_000, |n| format!(" a{n}=1"));
        chain([whole(HEAD), whole("<p"), attributes, whole(">"), whole(END)])
    }),
    ("many-links", "a million links", || count(1_000_000, |n| format!("<a href=/{n}.zip>link {n}</a> "))),
    ("many-images", "a million images", || count(1_000_000, |n| format!("<img src=/{n}.jpg alt='image {n}'>"))),
    ("many-blocks", "a million distinct blocks", || count(1_000_000, |n| format!("<p>b{n}"))),
    ("many-small-attributes", "a million attributes on many elements", || {
        let attributes: String = (0..100).map(|n| format!(" {}{}", char::from(b'a' + n % 26), n / 26)).collect();
        count(10_000, move |_| format!("<i{attributes}></i>"))
    }),
    ("many-alternates", "a million translations", || {
        count(1_000_000, |n| format!("<link rel=alternate hreflang=x-{n} href=/{n}.zip>"))
    }),
    ("many-metas", "a million images in metadata", || {
        count(1_000_000, |n| format!("<meta property=og:image content=/{n}.jpg>"))
    }),
    ("many-comments", "a million comments", || nest("<!---->", 1_000_000)),
    ("many-entities", "a million entities, broken and of no character", || {
        nest("&#x110000;&#0;&#xD800;&#99999999999999999999;&#x;&notit;&amp", 20_000)
    }),
    ("many-licences", "20 long licences of an image that stands there 5,000 times", || {
        let licences = many(20, |n| format!("\"https://l.test/{n}{}\",", "x".repeat(1_900)));
        let open = "<script type=application/ld+json>{\"image\":{\"url\":\"/a.jpg\",\"license\":[";
        let images = repeat("<img src=/a.jpg>", 6_000);
        chain([whole(HEAD), whole(open), licences, whole("\"\"]}}</script>"), images, whole(END)])
    }),
    ("many-tricks-of-base", "a base of 7,900 bytes for 100,000 links and images", || {
        let base = format!("<base href='/{}/'>", "b".repeat(7_900));
        let all = many(100_000, |n| format!("<a href=?{n}.zip>x</a><img src=?{n} alt=y>"));
        chain([whole(ALONE), whole(base), all, whole(END)])
    }),
];

#[rustfmt::skip]
const UNCLOSED: &[HtmlRow] = &[
    ("unclosed-comment", "a comment to the end of 10 MB", || long("<p>before</p><!-- ", "<p>- ", 10_000_000, "")),
    ("unclosed-script", "a script to the end of 10 MB", || long("<p>before</p><script>", "if (a < b) { ", 10_000_000, "")),
    ("unclosed-style", "a style to the end of 10 MB", || long("<p>before</p><style>", "a { b: c } ", 10_000_000, "")),
    ("unclosed-plaintext", "plaintext to the end of 10 MB", || long("<p>before</p><plaintext>", "words\n", 10_000_000, "")),
    ("unclosed-title", "a title to the end of 10 MB", || {
        let start = "<!DOCTYPE html><meta charset=utf-8><title>before ";
        chain([whole(start), repeat("words without end ", 600_000)])
    }),
    ("unclosed-textarea", "a textarea to the end of 10 MB", || long("<p>before</p><textarea>", "<p>x ", 10_000_000, "")),
    ("unclosed-cdata", "a CDATA section to the end of 10 MB", || {
        long("<p>before</p><svg><![CDATA[", "]] > x ", 10_000_000, "")
    }),
    ("unclosed-tag", "a tag to the end of 10 MB", || long("<p>before</p><a href='x' ", "a='<b' ", 10_000_000, "")),
    ("unclosed-doctype", "a doctype to the end of 10 MB", || {
        chain([whole("<!DOCTYPE html PUBLIC \""), repeat("-//W3C//", 1_250_000)])
    }),
];

#[rustfmt::skip]
const ADDRESSES: &[HtmlRow] = &[
    ("base-schemes", "several base elements, the first of them of no web address", || {
        whole(format!("{ALONE}<base href='javascript:alert(1)//'><base href='data:text/html,x'>\
            <base href='file:///etc/'><base href='http://127.0.0.1/'><p>the end <a href=x.zip>of it</a>"))
    }),
    ("base-private", "a base at a private host", || {
        whole(format!("{ALONE}<base href='http://169.254.169.254/'><p>the end <a href=x.zip>of it</a>"))
    }),
    ("refresh-self", "a refresh to itself, to a file and to a script", || {
        whole("<meta http-equiv=refresh content='0'><meta http-equiv=refresh content='0;url=/case'>\
            <meta http-equiv=refresh content='0;url=file:///etc/passwd'>\
            <meta http-equiv=refresh content='0;url=javascript:alert(1)'><p>the end")
    }),
    ("canonical-elsewhere", "canonical addresses at other hosts", || {
        whole("<link rel=canonical href='http://127.0.0.1/admin'><link rel=canonical href='//victim.test/'>\
            <meta name=robots content=nofollow><p>the end")
    }),
    ("odd-hosts", "homographs, bidi, ports that are none, hosts that are none", || {
        let links: String = ODD_ADDRESSES.iter().map(|odd| format!("<a href=\"{odd}\">x</a> ")).collect();
        whole(format!("{ALONE}{links}{END}"))
    }),
];

/// Addresses as no honest page writes them.
#[rustfmt::skip]
pub(super) const ODD_ADDRESSES: &[&str] = &[
    "http://раураl.test/", "http://\u{202e}gro.elpmaxe.test/", "http://a\u{200b}b.test/", "http://a.test:0/",
    "http://a.test:65535/", "http://a.test:65536/", "http://a.test:-1/", "http:///", "http://", "http:/\\a.test\\b\\c",
    "\\\\a.test\\share", "ht\ttp://a.\ntest/\tx", "http://a.test/\u{0}\u{1b}[31m", "http://[::1", "http://[fe80::1%25eth0]/",
    "http://0x7f.1/", "http://2130706433/", "http://127.1/", "http://[::ffff:127.0.0.1]/", "http://a:b@127.0.0.1@c.test/",
    "http://%31%32%37.0.0.1/", "http://１２７.0.0.1/", "http://a..test/", "http://.test/", "http://a.test./", "http://a%00.test/",
    "http://a\u{1b}.test/", "//", "////a.test", "?\u{202e}", "#", "javascript:alert(1)", "vbscript:x", "file:///etc/passwd",
    "gopher://127.0.0.1:25/x", "view-source:http://a.test/", "http://a.test/%00%1b%0d%0aSet-Cookie:x", "http://xn--/",
    "http://xn--a.test/", "http://a_b.test/", "http://ß.test/", "http://☃.test/", "http://\u{ad}.test/",
];
