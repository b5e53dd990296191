//! Sitemaps, read and crawled.

use std::io::Write;

use spoor_lab::{Lab, MemoryTree};

use crate::support::texts::{plain, tree};
use crate::support::{Job, JobText, Wire};

fn urlset(paths: &[&str]) -> String {
    let url = |path: &&str| format!("<url><loc>http://a.test{path}</loc></url>");
    let urls: String = paths.iter().map(url).collect();
    format!(
        "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{urls}</urlset>"
    )
}

fn packed(text: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(text.as_bytes()).unwrap();
    out.finish().unwrap()
}

/// A front page without a link, and an index of sitemaps: one is compressed, one broken, one a web
/// page, one on another host, and one missing.
fn site() -> MemoryTree {
    let pages = [
        "/packed",
        "/plain?x=1&y=2",
        "/before-the-break",
        "/listed-elsewhere",
        "/secret/1",
    ];
    let mut tree = tree(&[
        (
            "a.test/robots.txt",
            "User-agent: *\nDisallow: /secret/\nSitemap: http://a.test/index.xml\n".into(),
        ),
        ("a.test/", plain(&[], &[])),
        ("a.test/page.xml", plain(&[], &[])),
    ]);
    for page in pages {
        tree.insert_as(
            "a.test",
            page.split('?').next().unwrap(),
            "text/html",
            plain(&[], &[]),
        );
    }
    let maps = [
        "http://a.test/packed.xml.gz",
        "http://a.test/plain.xml",
        "http://a.test/broken.xml",
        "http://a.test/page.xml",
        "http://b.test/list.txt",
        "http://a.test/missing.xml",
    ];
    let maps: String = maps
        .iter()
        .map(|m| format!("<sitemap><loc>{m}</loc></sitemap>"))
        .collect();
    tree.insert(
        "a.test",
        "/index.xml",
        format!("<sitemapindex>{maps}</sitemapindex>"),
    );
    let gz = packed(&urlset(&["/packed", "/secret/1", "/picture.png", "/"]));
    tree.insert_as("a.test", "/packed.xml.gz", "application/gzip", gz);
    tree.insert("a.test", "/plain.xml", urlset(&["/plain?x=1&amp;y=2"]));
    let broken = urlset(&["/before-the-break", "/behind"]).replace("/behind</loc>", "/behind");
    tree.insert("a.test", "/broken.xml", broken);
    tree.insert_as(
        "b.test",
        "/list.txt",
        "text/plain",
        "http://a.test/listed-elsewhere\n",
    );
    tree
}

fn crawl(tree: MemoryTree, sitemaps: bool) -> (Job, String, Vec<String>) {
    let wire = Wire::serve(Lab::from_memory(tree));
    let text = JobText {
        seeds: &["http://a.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    if sitemaps {
        // A key in a section that the job file already has.
        let file = std::fs::read_to_string(job.file()).unwrap();
        std::fs::write(
            job.file(),
            file.replace("[seeds]\n", "[seeds]\nsitemaps = true\n"),
        )
        .unwrap();
    }
    let out = job.run();
    let mut asked: Vec<String> = wire.requests().iter().map(|r| r.address()).collect();
    asked.sort();
    (job, out, asked)
}

#[test]
fn pages_without_links_are_found_in_sitemaps() {
    let (job, _, asked) = crawl(site(), true);
    let expected = [
        "a.test/",
        "a.test/before-the-break",
        "a.test/broken.xml",
        "a.test/index.xml",
        "a.test/listed-elsewhere",
        "a.test/missing.xml",
        "a.test/packed",
        "a.test/packed.xml.gz",
        "a.test/page.xml",
        "a.test/plain.xml",
        "a.test/plain?x=1&y=2",
        "a.test/robots.txt",
        "b.test/list.txt",
        "b.test/robots.txt",
    ];
    assert_eq!(asked, expected);
    let mut endings = job.endings();
    endings.retain(|e| e.starts_with("sitemap"));
    endings.sort();
    let expected = [
        "sitemap done http://a.test/broken.xml",
        "sitemap done http://a.test/index.xml",
        "sitemap done http://a.test/packed.xml.gz",
        "sitemap done http://a.test/plain.xml",
        "sitemap done http://b.test/list.txt",
        "sitemap dropped:client_error http://a.test/missing.xml",
        "sitemap dropped:content_type http://a.test/page.xml",
    ];
    assert_eq!(endings, expected);
    let log = job.log();
    let row = |url: &str| log.iter().find(|row| row["url"] == url).unwrap();
    let error = row("http://a.test/broken.xml")["error"].as_str().unwrap();
    assert!(error.contains("at byte"), "{error}");
    let page = row("http://a.test/packed");
    assert_eq!(
        (&page["via"], &page["bucket"]),
        (&"http://a.test/packed.xml.gz".into(), &"normal".into())
    );
    assert_eq!(page["hops"], 1);
}

#[test]
fn a_long_sitemap_is_added_whole() {
    let urls: String = (0..5_000)
        .map(|i| format!("http://a.test/listed/{i}\n"))
        .collect();
    let mut tree = tree(&[
        (
            "a.test/robots.txt",
            "User-agent: *\nDisallow: /listed/\nSitemap: /all.txt\n".into(),
        ),
        ("a.test/", plain(&[], &[])),
    ]);
    tree.insert("a.test", "/all.txt", urls);
    let (job, out, asked) = crawl(tree, true);
    assert_eq!(asked, ["a.test/", "a.test/all.txt", "a.test/robots.txt"]);
    assert_eq!(
        job.endings().last().unwrap(),
        "sitemap done http://a.test/all.txt"
    );
    assert!(out.contains("robots 5000"), "{out}");
    assert!(out.contains("sitemaps  1 read"), "{out}");
}

#[test]
fn addresses_beyond_the_budget_are_reported() {
    let urls: String = (0..12_000)
        .map(|i| format!("http://a.test/listed/{i}\n"))
        .collect();
    let mut tree = tree(&[
        (
            "a.test/robots.txt",
            "User-agent: *\nDisallow: /listed/\nSitemap: /all.txt\nSitemap: /more.txt\n".into(),
        ),
        ("a.test/", plain(&[], &[])),
    ]);
    tree.insert("a.test", "/all.txt", urls);
    tree.insert("a.test", "/more.txt", "http://a.test/listed/more\n");
    let (job, out, asked) = crawl(tree, true);
    // The second sitemap is not even requested.
    assert_eq!(asked, ["a.test/", "a.test/all.txt", "a.test/robots.txt"]);
    assert_eq!(
        job.endings().last().unwrap(),
        "sitemap dropped:list_budget http://a.test/all.txt"
    );
    let log = job.log();
    let error = log.last().unwrap()["error"].as_str().unwrap();
    let words = "1950 of its addresses were passed over: the sitemaps of a.test may list 10050";
    assert!(error.contains(words), "{error}");
    assert!(out.contains("robots 10050"), "{out}");
    assert!(out.contains("list_budget 2"), "{out}");
}

#[test]
fn sitemaps_are_left_alone_by_default() {
    let (_, _, asked) = crawl(site(), false);
    assert_eq!(asked, ["a.test/", "a.test/robots.txt"]);
}
