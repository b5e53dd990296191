//! User names and passwords: those of a proxy reach only the proxy, those in addresses reach no
//! server, and none appears in any file or output.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::texts::{some, topical};
use crate::support::{Job, JobText, Ran};

const SECRET: &str = "s3cret";
/// `joe:s3cret` as a header of basic authentication (RFC 7617).
const ENCODED: &str = "am9lOnMzY3JldA==";

fn page() -> String {
    let mut html = String::from("<html><head><title>Secrets</title>");
    for (element, attribute) in [
        ("link rel=canonical", "href"),
        ("link rel=license", "href"),
        ("meta property=og:image", "content"),
    ] {
        html += &format!("<{element} {attribute}='http://joe:{SECRET}@cats.example/cat.png'>");
    }
    html += &format!("<base href='http://joe:{SECRET}@cats.example/'></head><body>");
    html += &format!("<p>{}</p>", some(topical(), 0, 4));
    for href in ["", "moved", "astray", "%zz", "?a=b"] {
        html += &format!("<a href='http://joe:{SECRET}@cats.example/{href}'>a cat</a>");
    }
    html += &format!("<a href='http://joe:{SECRET}@ca ts.example/'>a broken cat</a>");
    html += &format!("<a href='http://joe:{SECRET}@127.0.0.1:1/'>a dead cat</a>");
    html += &format!(
        "<p>{0}<a href='http://joe:{SECRET}@cats.example/cat.png'>\
         <img src='http://joe:{SECRET}@cats.example/cat.png' alt='{0}'></a></p></body></html>",
        some(topical(), 1, 2)
    );
    html
}

fn png() -> Vec<u8> {
    let picture = image::RgbImage::from_fn(400, 300, |x, y| {
        image::Rgb([(x % 251) as u8, (y % 241) as u8, ((x * y) % 255) as u8])
    });
    let mut bytes = Cursor::new(Vec::new());
    let written = picture.write_to(&mut bytes, image::ImageFormat::Png);
    written.unwrap();
    bytes.into_inner()
}

fn answer(target: &str) -> Vec<u8> {
    let place = |to: &str| format!("301 Moved\r\nLocation: {to}");
    let (head, body) = match target {
        "http://cats.example/" => ("200 OK\r\nContent-Type: text/html".into(), page().into()),
        "http://cats.example/cat.png" => ("200 OK\r\nContent-Type: image/png".into(), png()),
        "http://cats.example/moved" => (
            place(&format!("http://joe:{SECRET}@cats.example/target")),
            Vec::new(),
        ),
        "http://cats.example/astray" => (
            place(&format!("http://joe:{SECRET}@ca ts.example:99999/")),
            Vec::new(),
        ),
        _ => ("404 Not Found".to_owned(), Vec::new()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    [head.into_bytes(), body].concat()
}

fn serve(mut stream: TcpStream, heads: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    heads.lock().unwrap().push(head);
    stream.write_all(&answer(&target))
}

/// Finds the secrets in all files below a folder.
fn betrayed(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            betrayed(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let mut plain = bytes.clone();
            if path.extension().is_some_and(|e| e == "gz") {
                plain.clear();
                let mut packed = flate2::read::MultiGzDecoder::new(bytes.as_slice());
                packed.read_to_end(&mut plain).unwrap();
            }
            let text = String::from_utf8_lossy(&plain);
            if text.contains(SECRET) || text.contains(ENCODED) {
                found.push(path.display().to_string());
            }
        }
    }
}

#[test]
fn passwords_stay_where_they_belong() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Ignores clients that leave early.
            serve(stream, &kept).unwrap_or_default();
        }
    });
    let seed = format!("http://joe:{SECRET}@cats.example/");
    let text = JobText {
        seeds: &[&seed],
        network: "allow_private = true\nproxy = \"environment\"",
        rest: "[images]\nenabled = true",
        ..JobText::default()
    };
    let job = Job::at(addr, &text);
    let mut command = job.crawl();
    command
        .env("HTTP_PROXY", format!("http://joe:{SECRET}@{addr}"))
        // The parser's own trace is the page itself.
        .env("SPOOR_LOG", "trace,html5ever=info");
    let ran = Ran::of(&mut command);
    assert!(ran.status.success(), "{ran:#?}");

    let heads = heads.lock().unwrap();
    let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
    for head in heads.iter() {
        *asked.entry(head.split(' ').nth(1).unwrap()).or_default() += 1;
        // The proxy gets the password of the proxy, and servers get no password.
        let head = head.to_ascii_lowercase();
        let proxy = format!("proxy-authorization: basic {}", ENCODED.to_lowercase());
        assert!(head.contains(&proxy), "{head}");
        assert!(!head.contains("\r\nauthorization:"), "{head}");
        assert!(!head.contains(SECRET), "{head}");
    }
    for path in ["", "moved", "target", "astray", "cat.png", "?a=b"] {
        let url = format!("http://cats.example/{path}");
        assert_eq!(asked.get(url.as_str()), Some(&1), "{url}: {asked:?}");
    }
    assert_eq!(job.sidecars().len(), 1);
    assert!(ran.err.contains("cats.example"), "nothing was logged");
    for said in [&ran.out, &ran.err] {
        let line = |l: &&str| l.contains(SECRET) || l.contains(ENCODED);
        assert_eq!(said.lines().find(line), None);
    }
    let mut found = Vec::new();
    betrayed(&job.folder(), &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_proxys_password_may_not_stand_in_the_job() {
    let addr = "127.0.0.1:9".parse().unwrap();
    let network = format!("proxy = \"http://joe:{SECRET}@127.0.0.1:9\"");
    let text = JobText {
        seeds: &["http://a.test/"],
        network: &network,
        ..JobText::default()
    };
    let said = Ran::of(&mut Job::at(addr, &text).crawl()).refused();
    assert!(
        said.contains("network.proxy") && said.contains("HTTPS_PROXY"),
        "{said}"
    );
    assert!(!said.contains(SECRET), "{said}");
    let text = JobText {
        network: "proxy = \"environment\"",
        ..text
    };
    let job = Job::at(addr, &text);
    let mut command = job.crawl();
    command.env("HTTP_PROXY", format!("socks5://joe:{SECRET}@127.0.0.1:9"));
    let said = Ran::of(&mut command).refused();
    assert!(said.contains("HTTP_PROXY"), "{said}");
    assert!(!said.contains(SECRET), "{said}");
}
