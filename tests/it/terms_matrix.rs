//! Every signal of a publisher in every place where it can stand, and every output: nothing that is
//! forbidden is kept, and what is permitted is. The guide's table is made from the same list.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use spoor::archive::record::Kind;
use spoor::page::{PROHIBITIONS, Use};

use crate::archiving::{ARCHIVE, records};
use crate::support::pdfs::Made;
use crate::support::texts::{image, link, page, some, topical};
use crate::support::{Job, JobText, Live, Ran, spoor};

/// How a signal is written.
#[derive(Debug, Clone, Copy)]
enum Said {
    /// Of `X-Robots-Tag` and meta robots.
    Robots(&'static str),
    Tdm(&'static str),
    Content(&'static str),
    Usage(&'static str),
    /// The prohibited uses in an RSL file.
    Rsl(&'static str),
    /// An RSL file that is not there.
    NoRsl,
}
use Said::{Content, NoRsl, Robots, Rsl, Tdm, Usage};

/// A signal and the statement that it is; an empty one permits everything.
const SIGNALS: [(Said, &str); 36] = [
    (Robots("noindex"), "noindex (robots)"),
    (Robots("NoIndex, follow"), "noindex (robots)"),
    (Robots("none"), "noindex (robots)"),
    (Robots("noai"), "noai (robots)"),
    (Robots("all, NOAI"), "noai (robots)"),
    (Robots("spoor: noai"), "noai (robots)"),
    (Robots("noml"), "noml (robots)"),
    (Robots("noimageindex"), "noimageindex (robots)"),
    (Robots("noimageai"), "noimageai (robots)"),
    (Robots("noarchive"), "noarchive (robots)"),
    (
        Robots("unavailable_after: 25 Jun 2010 15:00:00 PST"),
        "unavailable_after (robots)",
    ),
    (
        Robots("unavailable_after: someday"),
        "unavailable_after (robots)",
    ),
    (Tdm("1"), "tdm-reservation: 1"),
    (Tdm("true"), "tdm-reservation: 1"),
    (Content("ai-train=no"), "Content-Signal: ai-train=no"),
    (
        Content("search=yes, AI-Train = NO"),
        "Content-Signal: ai-train=no",
    ),
    (Content("search=no"), "Content-Signal: search=no"),
    (Content("use=immediate"), "Content-Signal: use=immediate"),
    (
        Content("search=yes,use=reference"),
        "Content-Signal: use=reference",
    ),
    (Usage("train-ai=n"), "Content-Usage: train-ai=n"),
    (
        Usage("search=y;x, train-ai=n;y=1"),
        "Content-Usage: train-ai=n",
    ),
    (Usage("search=n"), "Content-Signal: search=no"),
    (Rsl("all"), "RSL prohibits all"),
    (Rsl("ai-all"), "RSL prohibits ai-train"),
    (Rsl("search ai-train"), "RSL prohibits all"),
    (Rsl("search"), "RSL prohibits search"),
    (NoRsl, "RSL file cannot be read"),
    (Robots("index, follow"), ""),
    (Robots("otherbot: noai"), ""),
    (Robots("unavailable_after: 25 Jun 2090 15:00:00 PST"), ""),
    (Tdm("0"), ""),
    (
        Content("ai-train=yes, search=yes, use=full, ai-input=no"),
        "",
    ),
    (Content("new-thing=no"), ""),
    (Usage("train-ai=y, search=y"), ""),
    (Rsl("ai-input ai-index"), ""),
    (Rsl(""), ""),
];

/// Where a signal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    RobotsTxt,
    WellKnown,
    Header,
    Meta,
    ImageHeader,
    PdfHeader,
    Redirect,
    /// The headers of a 304 to the second visit, and of answers after that.
    Unchanged,
}
use Place::{Header, ImageHeader, Meta, PdfHeader, Redirect, RobotsTxt, Unchanged, WellKnown};

const PLACES: [(Place, &str); 8] = [
    (RobotsTxt, "robots.txt"),
    (WellKnown, "tdmrep.json"),
    (Header, "header of the page"),
    (Meta, "meta or link element"),
    (ImageHeader, "header of the image"),
    (PdfHeader, "header of a PDF file"),
    (Redirect, "header of a redirect"),
    (Unchanged, "header of a 304"),
];

impl Said {
    fn can_stand(self, place: Place) -> bool {
        match self {
            Robots(_) => !matches!(place, RobotsTxt | WellKnown),
            Tdm(_) => place != RobotsTxt,
            _ => place != WellKnown,
        }
    }

    fn header(self) -> String {
        match self {
            Robots(value) => format!("X-Robots-Tag: {value}\r\n"),
            Tdm(value) => format!("TDM-Reservation: {value}\r\n"),
            Content(list) => format!("Content-Signal: {list}\r\n"),
            Usage(list) => format!("Content-Usage: {list}\r\n"),
            Rsl(_) | NoRsl => {
                "Link: </rsl.xml>; type=\"application/rsl+xml\"; rel=license\r\n".to_owned()
            }
        }
    }

    fn element(self) -> String {
        match self {
            Robots(value) => match value
                .split_once(": ")
                .filter(|(name, _)| name.ends_with("bot") || *name == "spoor")
            {
                Some((name, value)) => format!("<meta name={name} content=\"{value}\">"),
                None => format!("<meta name=robots content=\"{value}\">"),
            },
            Tdm(value) => format!("<meta name=tdm-reservation content={value}>"),
            Content(list) => format!("<meta name=content-signal content=\"{list}\">"),
            Usage(list) => format!("<meta name=content-usage content=\"{list}\">"),
            Rsl(_) | NoRsl => {
                "<link rel=license type=application/rsl+xml href=/rsl.xml>".to_owned()
            }
        }
    }

    fn robots(self) -> String {
        match self {
            Content(list) => format!("Content-Signal: {list}\n"),
            Usage(list) => format!("Content-Usage: / {list}\n"),
            _ => "License: /rsl.xml\n".to_owned(),
        }
    }
}

/// One signal in one place, at a host of its own.
struct Case {
    signal: Said,
    statement: &'static str,
    place: Place,
    host: String,
    /// A word that only its page has.
    marker: String,
}

impl Case {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (signal, statement) in SIGNALS {
            for (place, _) in PLACES {
                if signal.can_stand(place) {
                    let number = all.len();
                    all.push(Self {
                        signal,
                        statement,
                        place,
                        host: format!("c{number}.test"),
                        marker: marker(number),
                    });
                }
            }
        }
        all
    }

    fn page(&self) -> String {
        match self.place {
            PdfHeader => format!("{}/page.pdf", self.host),
            Redirect => format!("{}/moved", self.host),
            _ => format!("{}/page", self.host),
        }
    }

    fn image(&self) -> String {
        format!("{}/picture.png", self.host)
    }

    /// Whether its signal forbids a use of its page, or of its image.
    fn forbids(&self, what: Use, of_image: bool) -> bool {
        let row = PROHIBITIONS.iter().find(|row| row.words == self.statement);
        let of_page = self.place != ImageHeader;
        row.is_some_and(|row| row.uses.contains(&what)) && (of_page || of_image)
    }

    /// The answer to a request: status, headers and body.
    fn answer(&self, number: usize, path: &str, is_conditional: bool) -> (u16, String, Vec<u8>) {
        let html = "Content-Type: text/html; charset=utf-8\r\n".to_owned();
        let stated = |place: Place| {
            let is_here = self.place == place;
            if is_here {
                self.signal.header()
            } else {
                String::new()
            }
        };
        let missing = (404, String::new(), b"none".to_vec());
        match path {
            "/robots.txt" => {
                let more = if self.place == RobotsTxt {
                    self.signal.robots()
                } else {
                    String::new()
                };
                (
                    200,
                    String::new(),
                    format!("User-agent: *\nAllow: /\n{more}").into_bytes(),
                )
            }
            "/.well-known/tdmrep.json" => match self.signal {
                Tdm(value) if self.place == WellKnown => {
                    let rule = format!("[{{\"location\": \"/\", \"tdm-reservation\": {value}}}]");
                    (200, String::new(), rule.into_bytes())
                }
                _ => missing,
            },
            "/rsl.xml" => match self.signal {
                Rsl(prohibits) => {
                    let license = format!(
                        "<permits type=\"usage\">all</permits><prohibits type=\"usage\">{prohibits}</prohibits>\
                         <payment type=\"free\"/>"
                    );
                    let file = format!(
                        "<?xml version=\"1.0\"?><rsl xmlns=\"https://rslstandard.org/rsl\">\
                         <content url=\"/\"><license>{license}</license></content></rsl>"
                    );
                    (
                        200,
                        "Content-Type: application/rsl+xml\r\n".to_owned(),
                        file.into_bytes(),
                    )
                }
                _ => missing,
            },
            "/page" if self.place == Redirect => (
                302,
                format!("Location: /moved\r\n{}", stated(Redirect)),
                Vec::new(),
            ),
            "/page" | "/moved" => {
                let later = if is_conditional || number >= 1 {
                    stated(Unchanged)
                } else {
                    String::new()
                };
                if is_conditional {
                    return (304, format!("ETag: \"1\"\r\n{later}"), Vec::new());
                }
                let is_gone = self.place == Unchanged && number_of(&self.host) % 2 == 1;
                if is_gone && number >= 1 {
                    // A page that is read again because of its 304 may be gone.
                    return missing;
                }
                let head = if self.place == Meta {
                    self.signal.element()
                } else {
                    String::new()
                };
                let words = some(topical(), self.host.len() + number_of(&self.host), 4);
                let text = format!(
                    "{words} The keeper of {} lit the lamp every evening.",
                    self.marker
                );
                let paragraphs = [text, image("/picture.png", &some(topical(), 5, 1))];
                let tag = if self.place == Unchanged {
                    "ETag: \"1\"\r\n"
                } else {
                    ""
                };
                let headers = format!("{html}{tag}{}{later}", stated(Header));
                (
                    200,
                    headers,
                    page(&self.marker, &head, &paragraphs).into_bytes(),
                )
            }
            "/page.pdf" => {
                let mut made = Made::titled(&self.marker, "A");
                let words = some(topical(), number_of(&self.host), 3);
                let text = format!(
                    "{words} The keeper of {} lit the lamp every evening.",
                    self.marker
                );
                let lines: Vec<String> = text
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .chunks(8)
                    .map(|words| words.join(" "))
                    .collect();
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                made.page().lines(72, 720, &lines);
                let headers = format!("Content-Type: application/pdf\r\n{}", stated(PdfHeader));
                (200, headers, made.bytes())
            }
            "/picture.png" => {
                let mut bytes = std::io::Cursor::new(Vec::new());
                // Each image has its own size, so that no two have the same bytes.
                let number = u32::try_from(number_of(&self.host)).unwrap();
                let drawn = ::image::DynamicImage::new_rgb8(100 + number, 100 + number % 7);
                drawn
                    .write_to(&mut bytes, ::image::ImageFormat::Png)
                    .unwrap();
                let headers = format!("Content-Type: image/png\r\n{}", stated(ImageHeader));
                (200, headers, bytes.into_inner())
            }
            _ => missing,
        }
    }
}

fn number_of(host: &str) -> usize {
    host.trim_start_matches('c')
        .trim_end_matches(".test")
        .parse()
        .unwrap_or_default()
}

/// A word of letters for a number.
fn marker(number: usize) -> String {
    let letters = number.to_string();
    let letters = letters.bytes().map(|digit| char::from(digit - b'0' + b'a'));
    format!("quoz{}x", letters.collect::<String>())
}

/// The web of all cases. Its first page links to all others.
fn serve(cases: Arc<Vec<Case>>) -> (SocketAddr, Arc<Mutex<HashMap<String, usize>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let asked: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let shared = Arc::clone(&asked);
    // The thread ends with the process of the test.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (cases, asked) = (Arc::clone(&cases), Arc::clone(&shared));
            std::thread::spawn(move || respond(stream, &cases, &asked));
        }
    });
    (addr, asked)
}

fn respond(mut stream: TcpStream, cases: &[Case], asked: &Mutex<HashMap<String, usize>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut line = || lines.next().and_then(Result::ok).unwrap_or_default();
    let first = line();
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut host, mut is_conditional) = (String::new(), false);
    loop {
        let header = line().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("host:") {
            host = value.trim().to_owned();
        }
        is_conditional |= header.starts_with("if-none-match:");
    }
    let number = {
        let mut asked = asked.lock().unwrap();
        let times = asked.entry(format!("{host}{path}")).or_default();
        *times += 1;
        *times - 1
    };
    let (status, headers, body) = answer(cases, &host, &path, number, is_conditional);
    let length = body.len();
    let length = if status == 304 {
        String::new()
    } else {
        format!("Content-Length: {length}\r\n")
    };
    let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\n{length}{headers}\r\n");
    // The client may have closed the connection.
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(&body).ok();
}

fn answer(
    cases: &[Case],
    host: &str,
    path: &str,
    number: usize,
    is_conditional: bool,
) -> (u16, String, Vec<u8>) {
    if host == "seed.test" {
        if path != "/" {
            return (404, String::new(), b"none".to_vec());
        }
        let links = cases.iter().map(|case| {
            let target = if case.place == PdfHeader {
                "page.pdf"
            } else {
                "page"
            };
            link(
                &format!("http://{}/{target}", case.host),
                &some(topical(), 3, 1),
            )
        });
        let paragraphs: Vec<String> = links.collect();
        let html = "Content-Type: text/html\r\n".to_owned();
        return (200, html, page("All", "", &paragraphs).into_bytes());
    }
    match cases.get(number_of(host)) {
        Some(case) if case.host == host => case.answer(number, path, is_conditional),
        _ => (404, String::new(), b"none".to_vec()),
    }
}

/// The outputs of a crawl in which something was kept.
#[derive(Debug, Default)]
struct Outputs {
    /// By the name of the output, the addresses or markers that it has.
    has: BTreeMap<&'static str, BTreeSet<String>>,
    checked: usize,
    wrong: Vec<String>,
}

impl Outputs {
    fn expect(&mut self, output: &'static str, case: &Case, key: &str, is_kept: bool) {
        self.checked += 1;
        let is_there = self.has[output].contains(key);
        if is_there != is_kept {
            let place = PLACES
                .iter()
                .find(|(place, _)| *place == case.place)
                .unwrap()
                .1;
            let what = if is_there { "kept" } else { "missing" };
            self.wrong.push(format!(
                "{output}: {what}: {:?} in {place} ({})",
                case.signal, case.host
            ));
        }
    }

    fn markers(&mut self, output: &'static str, text: &str) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let markers = words.filter(|word| word.starts_with("quoz"));
        self.has
            .insert(output, markers.map(str::to_owned).collect());
    }

    /// Reads what a job exports as text, and what a search in it finds.
    fn read_again(&mut self, job: &Job) {
        let file = job.file();
        let file = file.to_str().unwrap();
        let folder = job.folder().with_file_name("texts");
        let to = folder.to_str().unwrap();
        let all = ["--near", "1", "--keep-repeated", "--format", "jsonl"];
        let begin = ["export", file, "--text", "--to", to];
        run(&[&begin[..], &all].concat());
        self.markers("export of texts", &lines_below(&folder.join("documents")));
        run(&["index", file]);
        let found = run(&["search", file, "--json", "--limit", "1000", "keeper"]);
        self.markers("index", &found);
    }

    fn finish(self, least: usize) {
        assert!(
            self.wrong.is_empty(),
            "{} wrong: {:#?}",
            self.wrong.len(),
            self.wrong
        );
        assert!(self.checked >= least, "{} checked", self.checked);
    }
}

fn bare(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

fn rest(more: &str) -> String {
    format!(
        "{ARCHIVE}[scope]\naccept_types = [\"text/*\", \"application/pdf\", \"application/xhtml+xml\"]\n\
         [consent]\ntdmrep = true\n\
         [buckets]\nboundaries = \"fixed\"\nrazor = 1e12\n[images]\nmin_width = 10\nmin_height = 10\nmin_bytes = 1\nmax_aspect = 20\n{more}"
    )
}

fn run(arguments: &[&str]) -> String {
    Ran::of(&mut spoor(arguments)).good()
}

#[test]
fn nothing_that_is_forbidden_is_kept_by_a_crawl() {
    let cases = Arc::new(Case::all());
    let (addr, _) = serve(Arc::clone(&cases));
    let job = Job::at(
        addr,
        &JobText {
            seeds: &["http://seed.test/"],
            rest: &rest(""),
            ..JobText::default()
        },
    );
    job.run();
    let file = job.file();
    let file = file.to_str().unwrap();
    let mut outputs = Outputs::default();
    let documents = job
        .documents()
        .into_iter()
        .map(|document| bare(&document.url));
    outputs.has.insert("documents", documents.collect());
    outputs.markers("sentences", &job.sentences().join(" "));
    let sidecars = job.sidecars();
    let images = sidecars
        .iter()
        .map(|sidecar| bare(sidecar["url"].as_str().unwrap()));
    outputs.has.insert("images", images.collect());
    let stored = records(&job);
    let responses = stored.iter().filter(|record| record.kind == Kind::Response);
    outputs.has.insert(
        "archive",
        responses.map(|record| bare(&record.uri)).collect(),
    );
    outputs.read_again(&job);
    let folder = job.folder().with_file_name("samples");
    run(&[
        "export",
        file,
        "--format",
        "jsonl",
        "--to",
        folder.to_str().unwrap(),
    ]);
    let samples = lines_below(&folder);
    let samples = samples
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let samples = samples.filter_map(|sample| Some(bare(sample["url"].as_str()?)));
    outputs.has.insert("export of images", samples.collect());
    let archive = job.folder().join("archive");
    let (corpus, _) = corpus_of(&job, &format!("[{archive:?}]"));
    outputs.markers("corpus of the archive", &corpus);
    for case in cases.iter().filter(|case| case.place != Unchanged) {
        let text = !case.forbids(Use::Text, false);
        outputs.expect("documents", case, &case.page(), text);
        outputs.expect("sentences", case, &case.marker, text);
        outputs.expect("export of texts", case, &case.marker, text);
        let is_indexed = text && !case.forbids(Use::Index, false);
        outputs.expect("index", case, &case.marker, is_indexed);
        let is_archived = !case.forbids(Use::Archive, false);
        outputs.expect("archive", case, &case.page(), is_archived);
        let is_in_both = text && is_archived;
        outputs.expect("corpus of the archive", case, &case.marker, is_in_both);
        if case.place == Redirect {
            let redirect = format!("{}/page", case.host);
            outputs.expect("archive", case, &redirect, is_archived);
        }
        if case.place != PdfHeader {
            let image = !case.forbids(Use::Images, true);
            outputs.expect("images", case, &case.image(), image);
            outputs.expect("export of images", case, &case.image(), image);
            // A page whose image may be kept, but which is not the image's own answer, forbids no
            // archive of the image.
            let own = case.place == ImageHeader || matches!(case.place, RobotsTxt | WellKnown);
            let is_archived = image && !(own && case.forbids(Use::Archive, true));
            outputs.expect("archive", case, &case.image(), is_archived);
        }
    }
    outputs.finish(1_300);
}

/// The second visit to a page: the server says that nothing has changed but the terms.
#[test]
fn what_a_later_visit_forbids_is_withdrawn() {
    let cases = Arc::new(Case::all());
    let (addr, asked) = serve(Arc::clone(&cases));
    let later: Vec<&Case> = cases
        .iter()
        .filter(|case| case.place == Unchanged)
        .collect();
    let seeds: Vec<String> = later
        .iter()
        .map(|case| format!("http://{}", case.page()))
        .collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let text = JobText {
        seeds: &seeds,
        rest: &rest("[recrawl]\nafter = \"1s\"\nmin = \"1s\"\nmax = \"30d\"\n"),
        ..JobText::default()
    };
    let job = Job::at(addr, &text);
    // Every page is fetched once before any is visited again.
    let visits = |least: usize| {
        let asked = asked.lock().unwrap();
        later
            .iter()
            .all(|case| asked.get(&case.page()).is_some_and(|times| *times >= least))
    };
    let mut crawl = Live::start(&mut job.crawl());
    crawl.wait_for(|| visits(3));
    crawl.signal(nix::sys::signal::Signal::SIGTERM);
    crawl.ended();
    let mut outputs = Outputs::default();
    outputs.read_again(&job);
    let revisits = records(&job).into_iter();
    let revisits = revisits.filter(|record| record.kind == Kind::Revisit);
    let revisits = revisits.map(|record| bare(&record.uri)).collect();
    outputs.has.insert("archive of a 304", revisits);
    let texts = spoor::outputs::page_texts(&job.folder()).unwrap();
    let pages = texts.pages.iter().map(|page| bare(page.url.as_str()));
    outputs.has.insert("sentences", pages.collect());
    for case in &later {
        let text = !case.forbids(Use::Text, false);
        outputs.expect("export of texts", case, &case.marker, text);
        outputs.expect("sentences", case, &case.page(), text);
        let is_indexed = text && !case.forbids(Use::Index, false);
        outputs.expect("index", case, &case.marker, is_indexed);
        let is_archived = !case.forbids(Use::Archive, false);
        outputs.expect("archive of a 304", case, &case.page(), is_archived);
    }
    outputs.finish(140);
}

/// The documents of a corpus of archives, and its plan.
fn corpus_of(job: &Job, archives: &str) -> (String, PathBuf) {
    let plan = job.folder().with_file_name("corpus.toml");
    let text = format!(
        "[source]\narchives = {archives}\n[[step]]\nkind = \"consent\"\n\
         [output]\nfolder = \"corpus\"\nformats = [\"jsonl\"]\n"
    );
    std::fs::write(&plan, text).unwrap();
    run(&["corpus", "build", plan.to_str().unwrap()]);
    let folder = plan.with_file_name("corpus");
    (lines_below(&folder.join("documents")), plan)
}

/// The text of all files below a folder, unpacked.
fn lines_below(folder: &Path) -> String {
    let mut text = String::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let bytes = match path.extension().and_then(|ending| ending.to_str()) {
                Some("zst") => zstd::decode_all(bytes.as_slice()).unwrap(),
                Some("gz") => {
                    let mut plain = Vec::new();
                    let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
                    std::io::Read::read_to_end(&mut decoder, &mut plain).unwrap();
                    plain
                }
                _ => bytes,
            };
            text.push_str(&String::from_utf8_lossy(&bytes));
            text.push('\n');
        }
    }
    text
}

/// An archive, without any metadata.
#[derive(Default)]
struct Warc(Vec<u8>);

impl Warc {
    fn add(&mut self, address: &str, (status, headers, body): (u16, String, Vec<u8>)) {
        let mut block = format!("HTTP/1.1 {status} x\r\n{headers}\r\n").into_bytes();
        block.extend(body);
        // It is older than the day of an `unavailable_after`.
        let head = format!(
            "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://{address}\r\n\
             WARC-Date: 2005-11-30T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:{:032x}>\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n",
            self.0.len(),
            block.len()
        );
        self.0.extend(head.into_bytes());
        self.0.extend(block);
        self.0.extend(b"\r\n\r\n");
    }
}

/// Files of all hosts that permit everything, as they were at other times: their robots.txt in one
/// archive, the others in the other one.
fn permissive(cases: &[Case], robots_path: &Path, path: &Path) {
    let (mut first, mut out) = (Warc::default(), Warc::default());
    let none = String::new;
    for Case { host, .. } in cases {
        let robots = b"User-agent: *\nContent-Signal: ai-train=yes, search=yes, use=full\n";
        first.add(&format!("{host}/robots.txt"), (200, none(), robots.into()));
        let rule = b"[{\"location\": \"/\", \"tdm-reservation\": 0}]";
        let tdmrep = format!("{host}/.well-known/tdmrep.json");
        out.add(&tdmrep, (200, none(), rule.into()));
        let rsl =
            b"<rsl><content url='/'><license><permits>all</permits></license></content></rsl>";
        out.add(&format!("{host}/rsl.xml"), (200, none(), rsl.into()));
    }
    std::fs::write(robots_path, first.0).unwrap();
    std::fs::write(path, out.0).unwrap();
}

/// Somebody's archive of the web: every answer that a browser would get.
fn archive(cases: &[Case], path: &Path) {
    let mut out = Warc::default();
    let mut record = |address: &str, answer| out.add(address, answer);
    record("seed.test/", answer(cases, "seed.test", "/", 0, false));
    for case in cases {
        // The pages come first, as nobody has sorted them.
        for path in [
            "/page",
            "/moved",
            "/page.pdf",
            "/picture.png",
            "/robots.txt",
            "/.well-known/tdmrep.json",
            "/rsl.xml",
        ] {
            let is_there = match path {
                "/moved" => case.place == Redirect,
                "/page.pdf" => case.place == PdfHeader,
                "/page" | "/picture.png" => case.place != PdfHeader,
                _ => true,
            };
            if is_there {
                record(&format!("{}{path}", case.host), case.answer(0, path, false));
            }
        }
    }
    std::fs::write(path, out.0).unwrap();
}

#[test]
fn nothing_that_is_forbidden_is_kept_of_somebodys_archive() {
    let cases = Arc::new(Case::all());
    let (addr, asked) = serve(Arc::clone(&cases));
    let job = Job::at(
        addr,
        &JobText {
            seeds: &["http://seed.test/"],
            rest: &rest("[text]\ndocuments = true\nsentences = true\n"),
            ..JobText::default()
        },
    );
    let warc = job.folder().with_file_name("some.warc");
    archive(&cases, &warc);
    let before = job.folder().with_file_name("before.warc");
    let after = job.folder().with_file_name("later.warc");
    permissive(&cases, &before, &after);
    let warc = warc.to_str().unwrap();
    let file = job.file();
    let to = job.folder().with_file_name("replayed");
    let to_text = to.to_str().unwrap();
    run(&[
        "replay",
        file.to_str().unwrap(),
        "--from",
        warc,
        "--output",
        to_text,
    ]);
    assert!(asked.lock().unwrap().is_empty(), "a replay asks no server");
    let mut outputs = Outputs::default();
    let documents = spoor::outputs::documents(&to).unwrap().map(Result::unwrap);
    outputs.has.insert(
        "replayed documents",
        documents.map(|d| bare(&d.url)).collect(),
    );
    outputs.markers("replayed sentences", &lines_below(&to.join("sentences")));
    let images = lines_below(&to.join("images"));
    let urls = images
        .split('"')
        .filter(|text| text.ends_with("/picture.png"));
    outputs
        .has
        .insert("replayed images", urls.map(bare).collect());
    // A corpus of the archive, and its index.
    let (corpus, plan) = corpus_of(&job, &format!("[{before:?}, {warc:?}, {after:?}]"));
    outputs.markers("corpus", &corpus);
    run(&["index", plan.to_str().unwrap()]);
    let found = run(&[
        "search",
        plan.to_str().unwrap(),
        "--json",
        "--limit",
        "1000",
        "keeper",
    ]);
    outputs.markers("index of the corpus", &found);
    for case in cases.iter().filter(|case| case.place != Unchanged) {
        let text = !case.forbids(Use::Text, false);
        outputs.expect("replayed documents", case, &case.page(), text);
        outputs.expect("replayed sentences", case, &case.marker, text);
        if case.place != PdfHeader {
            let image = !case.forbids(Use::Images, true);
            outputs.expect("replayed images", case, &case.image(), image);
        }
        // Records of an archive have no order, so that a page does not know what led to it.
        if case.place != Redirect {
            outputs.expect("corpus", case, &case.marker, text);
            let is_indexed = text && !case.forbids(Use::Index, false);
            outputs.expect("index of the corpus", case, &case.marker, is_indexed);
        }
    }
    outputs.finish(800);
}

#[test]
fn the_guide_has_a_table_of_what_forbids_what() {
    let mut table =
        String::from("| statement | text | images | index | archive |\n|---|---|---|---|---|\n");
    for row in PROHIBITIONS {
        let cell = |what: &Use| {
            if row.uses.contains(what) {
                " no |"
            } else {
                " |"
            }
        };
        let cells: String = Use::ALL.iter().map(cell).collect();
        writeln!(table, "| {} |{cells}", row.words).unwrap();
    }
    let guide = include_str!("../../src/guide/terms.md");
    assert!(
        guide.contains(&table),
        "the guide's table should be:\n{table}"
    );
    let signals = [Robots(""), Tdm(""), Content(""), Usage(""), Rsl("")];
    let mut table = String::from(
        "| place | robots directives | TDM | Content-Signal | Content-Usage | RSL |\n|---|---|---|---|---|---|\n",
    );
    for (place, name) in PLACES {
        let cells = signals.map(|signal| {
            if signal.can_stand(place) {
                " yes |"
            } else {
                " |"
            }
        });
        writeln!(table, "| {name} |{}", cells.concat()).unwrap();
    }
    assert!(guide.contains(&table), "the guide should have:\n{table}");
    // Every statement is in the matrix.
    for row in PROHIBITIONS {
        assert!(
            SIGNALS.iter().any(|(_, statement)| *statement == row.words),
            "{}",
            row.words
        );
    }
}
