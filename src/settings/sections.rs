//! Every section with every key: the only place where keys are declared. `spoor config
//! reference` prints the doc comments.

use std::path::PathBuf;
use std::time::Duration;

use super::formula::Formula;
use super::kinds::{
    ArchiveCompression, Boundaries, BrokerAddress, ClassName, Clue, Contact, Documents, Extension,
    ImageFormat, LogLevel, MediaType, Name, NodeName, Parameter, ProductToken, Proxy, Scheme,
    Source, StoreAddress, StoreKind, StrategyKind,
};
use super::listen::Listen;
use super::neutral::Neutral;
use super::scope_rules::{ConnectTo, ScopeRule};
use super::section::{Key, Section, Walker, above, section};
use super::units::{Size, days, hours, minutes, ms, secs};
use super::values::Auto;
use super::watched::WatchedSeed;
use crate::address::PageUrl;
use crate::language::Language;
use crate::page::{Extractor, Signal};

section! {
    /// The job's name and its operator.
    pub struct Job = "job" {
        /// The job's name, which is also the name of the folder with its results.
        name: Name = Name::example(), required;
        /// A contact address for the operators of web sites, sent with every request. A
        /// crawl does not start without it.
        contact: Option<Contact> = None;
        /// The folder that contains the jobs' folders.
        folder: PathBuf = PathBuf::from("jobs");
    }
}

section! {
    /// Where the crawl begins. Seeds are fetched before anything else.
    pub struct Seeds = "seeds" {
        /// Seed addresses.
        urls: Vec<PageUrl> = Vec::new();
        /// Files of seed addresses, one per line; blank lines are skipped, and `#` starts
        /// a comment at the beginning of a line or after white space.
        files: Vec<PathBuf> = Vec::new();
        /// Whether to read the sitemaps that robots.txt files name. The addresses they
        /// list get the class `normal`, count as one link from the seeds, and are fetched
        /// after the rated links of that class.
        sitemaps: bool = false;
        /// Seeds with their own schedule, independent of `[recrawl]`: each is visited again this
        /// long after its last visit, and never given up. A list of tables, or one block
        /// `[[seeds.watch]]` per seed. If such a seed redirects, the target page is visited with
        /// it. With `depth = 1` every page in scope that it links to is fetched once, before other
        /// links and regardless of its rating; with 2 also the pages that those link to.
        watch: Vec<WatchedSeed> = Vec::new();
    }
}

section! {
    /// Whether pages are visited again. If a page has changed, the next pause is half as
    /// long as the last one; if not, one and a half times as long. A crawl that revisits
    /// pages ends only by `[limits]` or when it is stopped. A revisit uses a conditional
    /// request if the server identified the version of the page, and a page whose words
    /// are the same counts as unchanged.
    pub struct Recrawl = "recrawl" {
        /// The pause between the first and the second visit of a page. Without it every
        /// page is fetched once. Pages that were fetched before it was set are not visited
        /// again.
        after: Option<Duration> = None, within ms(1)..=days(366);
        /// The shortest pause between two visits of a page.
        min: Duration = hours(1), within ms(1)..=days(366);
        /// The longest pause between two visits of a page.
        max: Duration = days(60), within ms(1)..=days(3660);
    }
}

section! {
    /// Measures the benefit of focusing. A small share of the fetches goes to links
    /// sampled uniformly from all known, unfetched links, including those above the cutoff
    /// (`razor`); the log marks them. This shows what a crawl that ignores scores would
    /// find from here on, for comparison with the pages chosen by score. As everywhere,
    /// the probability that a page is on topic is judged by its text. An unfocused crawl
    /// has no control sample.
    pub struct ControlSample = "control_sample" {
        /// The share of fetched links that are sampled; 0 for none. Links found while it
        /// was 0 are never sampled.
        share: f64 = 0.02, within 0.0..=0.5;
        /// The seed of the random generator that samples the links.
        seed: u64 = 1, within 0..;
    }
}

section! {
    /// The texts from which the language model and the keyword table are built.
    pub struct Train = "train" {
        /// Texts about the topic.
        positive: Vec<Source> = Vec::new();
        /// Texts about anything else, used to separate the topic's words from common ones.
        /// `builtin` takes the 20,000 most frequent words of the topic's language with
        /// their frequencies; texts of your own give better results. There are built-in
        /// words for ar, bg, bn, ca, cs, da, de, el, en, es, fa, fi, fr, he, hi, hr, hu,
        /// id, it, lt, lv, mk, nb, nl, pl, pt, ro, ru, sk, sl, sv, ta, tl, tr, uk, ur and
        /// vi. An empty list means no neutral text: then there are no keywords, and pages
        /// are judged by their perplexity alone.
        neutral: Neutral = Neutral::Builtin;
        /// The fewest sentences about the topic for training. With fewer, training
        /// refuses, unless `--force` is given.
        min_sentences: usize = 30, within 1..;
        /// The order of the model: the most words in an n-gram.
        order: usize = 5, within 2..=6;
        /// How many keywords the table keeps.
        keywords: usize = 50, within 1..=10_000;
        /// The share of the positive sentences that is held out to evaluate the model and
        /// to calibrate bucket boundaries and anchor threshold. Whole documents are held
        /// out if there are enough.
        held_out: f64 = 0.3, within 0.0..=0.9;
        /// The seed of the random generator that chooses the held-out text.
        seed: u64 = 1, within 0..;
        /// The separator of documents in a text file: an empty line, or nothing, so that
        /// each file is one document. A line end always ends a sentence.
        documents: Documents = Documents::BlankLine;
    }
}

section! {
    /// The location of the model.
    pub struct ModelSection = "model" {
        /// The model's name; by default that of the job.
        name: Option<Name> = None;
        /// The folder that contains the models' folders.
        folder: PathBuf = PathBuf::from("models");
    }
}

section! {
    /// How links are rated. The score of a link is (gamma_document * perplexity of its
    /// page + gamma_anchor * perplexity of its anchor text) * (1 - gamma_keyword * keyword
    /// score of its anchor text); lower is better. `spoor reload` changes these keys while
    /// the crawl runs: queued links are re-rated, with the keyword table that is in the
    /// model's folder at that time.
    pub struct StrategySection = "strategy" {
        /// The basis of the rating: `unfocused` none (breadth first), `document` the
        /// page's perplexity, `link` the link score, `learn` what the crawl has learned so
        /// far from the targets of links (features: words of anchor, address, surrounding
        /// text and heading, position on the page, how far the page is on topic, other
        /// pages with the same link, host and path, links since the last page on topic).
        kind: StrategyKind = StrategyKind::Learn;
        /// The features of links that a learning crawl uses; leaving some out shows their
        /// worth.
        clues: Vec<Clue> = Clue::ALL.to_vec();
        /// The share of a learning crawl's fetches that explore: such a fetch takes the
        /// best link of a host chosen at random among those ready for a request.
        explore: f64 = 0.01, within 0.0..=0.5;
        /// The seed of the random generator that chooses these hosts.
        seed: u64 = 1, within 0..;
        /// When a learning crawl may fetch a link while the host of a better one is only
        /// in its crawl delay (up to 5 seconds): only if the link is at least this
        /// fraction as likely to be on topic. With 0.5 it must be half as likely, with 0
        /// any link is fetched. Higher values yield more pages on topic per fetch, lower
        /// ones more per time.
        patience: f64 = 0.5, within 0.0..=1.0;
        /// The weight of the page's perplexity.
        gamma_document: f64 = 0.7, within 0.0..=1.0;
        /// The weight of the anchor's perplexity.
        gamma_anchor: f64 = 0.3, within 0.0..=1.0;
        /// How strongly the keyword score lowers the perplexity, for links and image
        /// texts.
        gamma_keyword: f64 = 3.0, within 0.0..=1000.0;
        /// An anchor whose perplexity is higher than this, or than the page's, is ignored;
        /// then the page's perplexity counts alone. `auto` takes the value that training
        /// measured: it best separates short texts about the topic from others on the
        /// model's own scale.
        anchor_threshold: Auto<f64> = Auto::Auto, within above(0.0);
    }
}

section! {
    /// The boundaries of link scores between the priority classes, in ascending order.
    /// They may be changed while the crawl runs, like `[strategy]`.
    pub struct Buckets = "buckets" {
        /// `auto` takes the boundaries that training measured and stored in `model.toml`,
        /// because perplexities differ between models; `fixed` takes the four below.
        boundaries: Boundaries = Boundaries::Auto;
        /// The highest score of the class `high`.
        high: f64 = 600.0, within above(0.0);
        /// The highest score of the class `medium`.
        medium: f64 = 2000.0, within above(0.0);
        /// The highest score of the class `normal`.
        normal: f64 = 10000.0, within above(0.0);
        /// The cutoff: the highest score of the class `low`. Links above it are recorded
        /// and not followed.
        razor: f64 = 30000.0, within above(0.0);
    }
}

section! {
    /// When the crawl ends: as soon as one of the limits is reached, or when nothing is
    /// left to fetch.
    pub struct Limits = "limits" {
        /// Pages fetched successfully; each counts once, however often it is visited.
        documents: Option<u64> = None, within 1..;
        /// Page requests that were answered with any status, including revisits.
        fetches: Option<u64> = None, within 1..;
        /// Bytes of all bodies received.
        bytes: Option<Size> = None, within Size(1)..;
        /// Time spent crawling, over all runs of the job.
        time: Option<Duration> = None, within secs(1)..;
    }
}

section! {
    /// The load on hosts. The pause between two requests to one host is delay_factor times
    /// the duration of the last fetch, but at least min_delay and at most max_delay, and
    /// never shorter than robots.txt asks for.
    pub struct Politeness = "politeness" {
        /// The shortest pause between two requests to one host.
        min_delay: Duration = secs(1), within secs(0)..=days(1);
        /// The longest pause that results from a slow host alone.
        max_delay: Duration = secs(60), within secs(0)..=days(1);
        /// The pause as a multiple of the duration of the last fetch.
        delay_factor: f64 = 5.0, within 0.0..=100.0;
        /// Simultaneous requests to one host.
        connections_per_host: usize = 1, within 1..=16;
        /// The shortest pause between two requests to one IP address, over all hosts on
        /// it; 0 disables it.
        address_delay: Duration = ms(500), within secs(0)..=hours(1);
        /// The shortest pause between two requests to the hosts of one registered domain;
        /// 0 disables it.
        domain_delay: Duration = secs(0), within secs(0)..=hours(1);
        /// The longest Crawl-delay of a robots.txt that is accepted; a host that asks for
        /// more is left alone for a day.
        max_crawl_delay: Duration = minutes(10), within secs(1)..=days(30);
        /// Requests per second over all hosts; without it, no limit.
        requests_per_second: Option<f64> = None, within 0.001..=1_000_000.0;
        /// Bytes per second over all hosts; without it, no limit.
        bytes_per_second: Option<Size> = None, within Size::kib(1)..=Size::mib(1 << 20);
        /// How often a failed request is retried before the address is given up.
        retries: u8 = 3, within 0..=20;
        /// The pause after a first failure that calls for backing off; it doubles with
        /// each further one.
        back_off: Duration = secs(30), within ms(1)..=days(1);
        /// The longest such pause. A server's Retry-After is obeyed regardless of its length.
        max_back_off: Duration = days(1), within ms(1)..=days(30);
        /// How long robots.txt rules are used before they are fetched again; at most a day
        /// (RFC 9309 section 2.4).
        robots_max_age: Duration = hours(24), within secs(1)..=hours(24);
    }
}

section! {
    /// How requests are made.
    pub struct Network = "network" {
        /// Simultaneous requests over all hosts.
        concurrency: usize = 64, within 1..=4096;
        /// Whether addresses of private networks and of this machine may be fetched. Leave
        /// it false for a crawl of the web: otherwise pages could make the crawler read
        /// what only this network can reach.
        allow_private: bool = false;
        /// Redirected connections, as with curl's --connect-to. HOST may begin with `*.`
        /// for every host below a domain; an empty HOST or PORT matches any, an empty
        /// target part leaves it unchanged; IPv6 addresses are written in brackets. The
        /// first matching rule applies. A target that is an IP address needs no
        /// allow_private.
        connect_to: Vec<ConnectTo> = Vec::new();
        /// The proxy for all requests, except those that match a rule of connect_to: the
        /// URL of an HTTP proxy, or "environment" for the variables HTTP_PROXY,
        /// HTTPS_PROXY, ALL_PROXY and NO_PROXY. Without this key the variables are
        /// ignored. A proxy with a password belongs in the environment, not in this file.
        /// Unless allow_private is set, names are resolved and checked on this machine
        /// before the request goes to the proxy.
        proxy: Option<Proxy> = None;
        /// The time limit for connecting, including TLS.
        connect_timeout: Duration = secs(10), within ms(1)..=hours(1);
        /// The longest pause within a response.
        read_timeout: Duration = secs(20), within ms(1)..=hours(1);
        /// The longest time from the request to the last byte. While other hosts wait for
        /// a free place, most requests that have taken more than ten seconds, and more
        /// than eight times as long as responses usually take, are given up earlier and
        /// retried.
        total_timeout: Duration = minutes(5), within ms(1)..=days(1);
        /// The largest body of a page; the rest is not read.
        max_page_bytes: Size = Size::mib(10), within Size::kib(1)..=Size::mib(1024);
        /// The most redirects followed in a row.
        max_redirects: u8 = 5, within 0..=20;
        /// Whether the cookies that a redirect sets are sent with the request that follows
        /// it at the same host, and then forgotten. Some sites show a page only after that.
        /// No other cookies are ever sent.
        cookies: bool = true;
        /// Whether HTTP/2 is used if the server offers it.
        http2: bool = true;
        /// A PEM file of certificate authorities to trust in addition to Mozilla's, for a
        /// web of your own. The holders of their keys can impersonate any site.
        extra_ca: Option<PathBuf> = None;
        /// The crawler's product token, sent to servers and matched against robots.txt.
        user_agent: ProductToken = ProductToken::spoor();
    }
}

section! {
    /// Who the crawler is. The user agent always names `job.contact`; here are further ways in which
    /// servers can recognise it (`spoor help identity`).
    pub struct Identity = "identity" {
        /// The private key of Web Bot Auth, made by `spoor keys new`. Requests are signed with it
        /// where a server asks for that (Accept-Signature).
        key: Option<PathBuf> = None;
        /// The https address of the site on which the operator serves the key's directory.
        agent: Option<PageUrl> = None;
        /// Whose requests are signed without being asked, as rules of scope.accept.
        sign: Vec<ScopeRule> = Vec::new();
        /// The mail address that is sent as `From`; without it, no `From` is sent.
        from: Option<Contact> = None;
    }
}

section! {
    /// Which addresses are followed. `spoor reload` changes these rules while the crawl
    /// runs: the queue is checked again, and addresses that only the old rules rejected
    /// come back.
    pub struct Scope = "scope" {
        /// Only addresses covered by one of these rules; empty for all. A rule is a SURT
        /// prefix (the host backwards: `org,example` covers example.org and everything
        /// below it), a URL (`https://example.org/cats/` covers all addresses that start
        /// with it, `https://example.org` the host and everything below it),
        /// `host:www.example.org` for this host alone, or `regex:` and a pattern that is
        /// searched in the whole address.
        accept: Vec<ScopeRule> = Vec::new();
        /// No addresses covered by one of these rules, even if they are accepted.
        reject: Vec<ScopeRule> = Vec::new();
        /// The most links between a seed and a page; without it, no limit.
        max_hops: Option<u32> = None, within 0..;
        /// The most pages of one host; without it, no limit.
        host_documents: Option<u64> = None, within 1..;
        /// The most pages of one registered domain (example.co.uk with all hosts below it, by the
        /// public suffix list); without it, no limit.
        domain_documents: Option<u64> = None, within 1..;
        /// Parameters that identify the visitor or the referrer, not the content: sessions
        /// and campaigns. They are removed from every page address, in the query and in
        /// the path (`;jsessionid=1`), so that the page is fetched once.
        drop_parameters: Vec<Parameter> = Parameter::list(SESSIONS_AND_CAMPAIGNS);
        /// Further such parameters of this job, in addition to drop_parameters.
        drop_also: Vec<Parameter> = Vec::new();
        /// The longest address of a page, in bytes; a longer one counts as a trap.
        max_url_bytes: usize = 2000, within 100..=8000;
        /// Extensions of links that do not lead to pages. Embedded images do not count as links.
        /// `pdf` has no effect if accept_types has application/pdf.
        reject_files: Vec<Extension> = Extension::list(NO_PAGES);
        /// MIME types of pages, by the Content-Type of the response; a page of another
        /// type is dropped. A response without one is judged by its first bytes. Besides
        /// HTML, XHTML and text only application/pdf can be read: with it PDF files are
        /// pages, within the limits of `[pdf]`. Adding other types has no effect.
        accept_types: Vec<MediaType> = MediaType::list(PAGES);
        /// The most segments of a path; a deeper one counts as a trap.
        max_depth: usize = 20, within 1..=100;
        /// How often a segment may occur in one path; more often counts as a trap.
        repeated_segments: usize = 3, within 1..=100;
        /// Schemes of addresses.
        schemes: Vec<Scheme> = vec![Scheme::Http, Scheme::Https];
    }
}

section! {
    /// The limits for one PDF file. PDF files are pages of the crawl if scope.accept_types has
    /// application/pdf: their text is rated and kept, their links are followed, but their images
    /// are not collected. A separate process reads each file. The largest file is set by
    /// network.max_page_bytes.
    pub struct PdfSection = "pdf" {
        /// The longest processor time, in whole seconds; a file that takes more is dropped.
        time: Duration = secs(20), within secs(1)..=hours(1);
        /// The most memory; a file that needs more is dropped.
        memory: Size = Size::mib(512), within Size::mib(64)..=Size::mib(1 << 16);
        /// The most pages read from a file; later ones are left out.
        pages: usize = 2_000, within 1..=1_000_000;
    }
}

section! {
    /// Which images are collected, and how many of the words around them.
    pub struct Images = "images" {
        /// Whether images are fetched.
        enabled: bool = true;
        /// The smallest width in pixels.
        min_width: u32 = 100, within 0..=65_535;
        /// The smallest height in pixels.
        min_height: u32 = 100, within 0..=65_535;
        /// The largest width in pixels.
        max_width: u32 = 20_000, within 1..=65_535;
        /// The largest height in pixels.
        max_height: u32 = 20_000, within 1..=65_535;
        /// The longest side of an image as a multiple of the shorter one; banners and
        /// rules exceed it.
        max_aspect: f64 = 10.0, within 1.0..=65_535.0;
        /// The smallest file. Photographs have thousands of bytes, regardless of their dimensions.
        min_bytes: Size = Size::kib(0), within Size::kib(0)..=Size::mib(1024);
        /// The largest file; the download of a larger one is abandoned.
        max_bytes: Size = Size::mib(20), within Size::kib(1)..=Size::mib(1024);
        /// How many enclosing elements with text are kept.
        parents: usize = 5, within 0..=20;
        /// How many sibling elements with text are kept.
        siblings: usize = 5, within 0..=20;
        /// The share of requests that go to images while both pages and images wait, so that a
        /// crawl that is stopped early has both; the best images come first. At 0 images wait until
        /// no page can be fetched, at 1 they precede all pages. No request waits for its turn:
        /// images on separate hosts arrive as fast as these hosts permit. Images do not count
        /// towards the page limits.
        share: f64 = 0.33, within 0.0..=1.0;
        /// Whether the images of fetched pages are still collected after limits.documents
        /// is reached.
        after_limit: bool = true;
    }
}

section! {
    /// What is kept of text.
    pub struct Text = "text" {
        /// Whether the sentences of the pages are written to sentences/*.txt.gz.
        sentences: bool = true;
        /// Whether each page is written to documents/*.jsonl.zst as a document: its main
        /// text as the author wrote it, with address, dates, title, authors, language,
        /// rating, licence and terms of use.
        documents: bool = true;
        /// Which text of an HTML page goes into its document; the values are those of
        /// `extractor`. By default navigation is left out, whichever text is rated. The
        /// document records which extractor was used.
        documents_extractor: Extractor = Extractor::Main;
        /// Which text of an HTML page is scored and kept as sentences: `all` of it;
        /// `main`, the main text of a page of any kind, which a model chooses block by block;
        /// or `density`, the segments dense in text (words per line) or sharing the title's
        /// words. Links, images and the words around images are always taken from the
        /// whole page. If `density` would leave fewer than 50 words, or one in twenty, all of
        /// it is taken; the log records which extractor was used. Training reads HTML in the
        /// same way.
        extractor: Extractor = Extractor::All;
        /// The languages of pages to keep, recognised from the text rather than declared;
        /// empty for any. Neither text nor images are kept of a page that is certain to be
        /// in another language; a page whose language is uncertain is kept.
        languages: Vec<Language> = Vec::new();
        /// Whether the links of pages in other languages are followed. They are rated as
        /// on a page of unknown words.
        follow_foreign: bool = true;
        /// The longest text of one page after decoding; the rest is cut off.
        max_bytes: Size = Size::mib(2), within Size::kib(1)..=Size::mib(256);
        /// How deep elements may nest; a deeper page is read without its structure.
        max_nesting: usize = 256, within 16..=1024;
    }
}

section! {
    /// Rules that take fields from the pages of a site, such as title, date and price, by
    /// CSS, XPath or regular expressions (`spoor help fields`). What they find is in the log
    /// and in the documents.
    pub struct Rules = "rules" {
        /// Rule files, and folders whose `*.toml` files are rule files. `[[rule]]` blocks may also
        /// be in the job file itself.
        files: Vec<PathBuf> = Vec::new();
    }
}

section! {
    /// The archive of what was sent and received.
    pub struct Archive = "archive" {
        /// Whether every exchange with a server is written to archive/*.warc.* (WARC 1.1,
        /// ISO 28500): requests, responses with their bodies as received, and what the
        /// crawl knows of each page. Pages and images whose terms of use forbid keeping
        /// them are left out, as elsewhere.
        enabled: bool = false;
        /// How records are compressed.
        compression: ArchiveCompression = ArchiveCompression::Gzip;
        /// A dictionary for zstd, made by `zstd --train` from similar pages. It is stored at the
        /// beginning of each file. The crawl needs it, readers do not.
        dictionary: Option<PathBuf> = None;
    }
}

section! {
    /// Which terms of use are obeyed. All statements of publishers are recorded with each
    /// sample, in the sidecars and the crawl log, whether obeyed or not. If they forbid
    /// the use of a page, its sentences, document and images are left out; if they forbid
    /// that of an image, it is not fetched or not kept. Links are followed nevertheless,
    /// except those covered by `nofollow`.
    pub struct Consent = "consent" {
        /// The signals to obey: `robots` is X-Robots-Tag headers and meta robots, such as
        /// noindex, noai and noimageindex; `tdm` is a reservation by the TDM Reservation
        /// Protocol; `content-signal` is Content-Signal and Content-Usage in robots.txt,
        /// headers and meta elements, such as ai-train=no; `rsl` is what a file of Really
        /// Simple Licensing prohibits, which is fetched once for each host that names one.
        /// `spoor help terms` has a table of what each forbids. With an empty list none
        /// is obeyed.
        obey: Vec<Signal> = Signal::ALL.to_vec();
        /// Whether each host's /.well-known/tdmrep.json is fetched before its first page
        /// or image. It is not fetched if the job keeps nothing: no images, text or archive.
        tdmrep: bool = true;
    }
}

section! {
    /// How `spoor rank` orders a job's images, and which of them it leaves out.
    pub struct Rank = "rank" {
        /// The score of an image in one of its contexts; its lowest score counts, and
        /// lower is better. The default is what the crawl recorded as rank:
        /// (words.weighted * file_name.weighted * parent1.weighted *
        /// document_perplexity)^0.25 * (2 - in_main_text). Absent texts have the
        /// perplexity of unknown words and the keyword score 0.
        formula: Option<Formula> = None;
        /// The image formats to rank, recognised by content.
        formats: Vec<ImageFormat> = RANKED.to_vec();
        /// The smallest width to rank, in pixels. The crawl itself keeps none below
        /// images.min_width.
        min_width: u32 = 0, within 0..=65_535;
        /// The smallest height to rank, in pixels.
        min_height: u32 = 0, within 0..=65_535;
        /// The lowest score to rank; without it, no limit.
        from: Option<f64> = None;
        /// The highest score to rank; without it, no limit.
        to: Option<f64> = None;
        /// How many of the 64 bits of their perceptual hashes may differ for two images to count as
        /// the same picture; the better one is kept.
        near: u32 = 4, within 0..=16;
    }
}

section! {
    /// The questions about a job's images on the page of `spoor annotate`, and whose votes
    /// count.
    pub struct Annotate = "annotate" {
        /// The answers to the question of what an image shows, at most nine, in the order of their
        /// keys 1 to 9.
        classes: Vec<ClassName> = ClassName::list(&["on topic", "related", "off topic", "no picture"]);
        /// The classes that count as on topic.
        on_topic: Vec<ClassName> = ClassName::list(&["on topic"]);
        /// How many people answer each question about an image.
        votes: usize = 3, within 1..=100;
        /// Whether every image is first judged alone, and then the words only of those
        /// that a majority calls on topic. Otherwise image and words are judged together.
        two_phase: bool = false;
        /// A table (TSV) of gold questions, images of the job with known answers: the
        /// SHA-256 or the address of the image, the right class, and, if known, the right
        /// answer about the words. They are mixed with the others, and votes on them serve
        /// no other purpose.
        gold: Option<PathBuf> = None;
        /// On average one question in this many is a gold question, at random positions.
        gold_every: usize = 8, within 2..=1000;
        /// The share of gold questions that an annotator must answer correctly; below it,
        /// annotators get no more images and their votes do not count.
        qualify: f64 = 0.7, within 0.0..=1.0;
        /// How many gold questions an annotator answers before that share is applied.
        qualify_after: usize = 5, within 1..=1000;
    }
}

section! {
    /// How the frontier is stored.
    pub struct FrontierSection = "frontier" {
        /// The storage engine. `fjall` is better for crawls of weeks and for machines that
        /// may lose power; `spoor frontier convert` converts a frontier.
        store: StoreKind = StoreKind::Sled;
        /// The number of cells of the frontier: parts that each have a share of the hosts, as on
        /// the machines of a cluster. Fixed when the job begins.
        cells: usize = 1, within 1..=1024, hidden 1;
    }
}

section! {
    /// How a crawl is saved so that it can resume.
    pub struct Checkpoint = "checkpoint" {
        /// How long open requests may take to finish when the crawl ends or is stopped. If
        /// limits.time ends it, they have at most a tenth of limits.time, or a second if
        /// that is longer. Unfinished requests are repeated at the next start.
        drain: Duration = minutes(2), within ms(1)..=hours(1);
        /// How often the frontier is flushed to disk.
        interval: Duration = secs(30), within secs(1)..=hours(1);
        /// How often the whole frontier is exported to the job's checkpoints folder while
        /// the crawl runs; the last two exports are kept. If the store is damaged, `spoor
        /// frontier import` restores the frontier from an export.
        export: Duration = hours(6), within secs(1)..=days(30);
        /// Where to store checkpoints of the running job that survive the loss of this machine: a
        /// bucket of an S3-compatible store, as "s3://BUCKET/PATH", with the usual variables AWS_*,
        /// or a folder on another disk, as "file:///PATH". Another machine with this job file
        /// continues from there. Each job needs its own place.
        store: Option<StoreAddress> = None;
        /// How often such a checkpoint is made. What was fetched since the last one is lost
        /// with the machine.
        every: Duration = minutes(1), within secs(1)..=hours(6);
        /// Whether these checkpoints also contain the documents, sentences, images, archives and
        /// logs. Without them another machine starts new ones, but does not repeat finished
        /// fetches.
        outputs: bool = true;
    }
}

section! {
    /// Several machines that crawl this job together. Each runs `spoor crawl` with the same job
    /// file; they share the hosts among them, and no host gets requests from two machines at the
    /// same time. See `spoor help clusters`.
    pub struct Cluster = "cluster" {
        /// The servers of NATS JetStream, 2.10 or newer, through which the machines find each
        /// other. Without any, this machine crawls alone.
        brokers: Vec<BrokerAddress> = Vec::new();
        /// A file of credentials (an NKey and a JWT, as `nsc` writes it), if the brokers ask
        /// for it.
        credentials: Option<PathBuf> = None;
        /// The name of this machine, different from that of every other one. By default the name
        /// that the system has.
        node: Option<NodeName> = None;
        /// Where the machines store their checkpoints, from which another machine continues with
        /// the hosts of a lost one: a bucket of an S3-compatible store, as "s3://BUCKET/PATH", or a
        /// folder that all of them share, as "file:///PATH".
        store: Option<StoreAddress> = None;
        /// The number of parts into which the hosts are divided: four to eight for each machine,
        /// for the largest number of machines. Fixed when the first machine starts.
        cells: usize = 64, within 2..=1024;
        /// How many brokers store everything: 3 survive the loss of one.
        replicas: usize = 3, within 1..=5;
        /// This machine's share of the hosts, compared with those of the others.
        weight: f64 = 1.0, within 0.01..=100.0;
        /// How long a machine may send requests to hosts after it last heard from the brokers. A
        /// machine that is silent for longer loses its hosts to the others.
        term: Duration = secs(15), within secs(5)..=minutes(5);
        /// How often a machine makes a checkpoint. If the machine is lost, others repeat what it
        /// did since the last one.
        checkpoint: Duration = minutes(1), within secs(1)..=hours(1);
        /// How long links to the hosts of other machines are collected before they are sent.
        linger: Duration = secs(5), within ms(100)..=minutes(5);
        /// How long a machine must be present before others give it some of their hosts.
        settle: Duration = minutes(1), within secs(1)..=hours(1);
    }
}

section! {
    /// The log in `logs/spoor.DATE.jsonl` of the job's folder, one JSON line per event:
    /// pauses, outages, changed rules, failures. In addition every finished task has a
    /// line in `logs/crawl.jsonl`. A new file begins every day, by UTC.
    pub struct Logs = "logs" {
        /// The least important events to write: `error`, `warn`, `info`, `debug`, or `off`
        /// for none. `info` is a few lines an hour; `debug` is several for every fetch.
        level: LogLevel = LogLevel::Info;
        /// How many of these files are kept; older ones are deleted.
        keep: usize = 14, within 1..=3_660;
        /// The largest size of `logs/crawl.jsonl` and `images.tsv`. A file that reaches it
        /// is numbered and compressed, as `crawl.00001.jsonl.zst`, and a new one begins;
        /// all commands read them as one.
        rotate: Size = Size::mib(256), within Size::kib(4)..=Size::mib(1 << 20);
    }
}

section! {
    /// How to query and control a running crawl. Its owner can always use the socket
    /// `control.sock` in the job's folder; the API over TCP is the same.
    pub struct Control = "control" {
        /// The address of the API over TCP, with the dashboard. "auto" takes
        /// 127.0.0.1:8470, or the next free port, and generates a token for the run:
        /// `spoor crawl` prints the link with it, and other users of the machine have no
        /// access. With an address of your own the crawl refuses to start if the port is
        /// taken; without a token everybody on this machine has full access there, and an
        /// address reachable from other machines is refused. Traffic is not encrypted: use
        /// a TLS proxy or a tunnel. false disables it.
        listen: Listen = Listen::Auto;
        /// A file with the token that every request over TCP must carry: 16 visible characters or
        /// more, in a file that other users cannot read. Without it the variable
        /// SPOOR_CONTROL_TOKEN is used if it is set.
        token_file: Option<PathBuf> = None;
    }
}

impl Images {
    /// Whether the images of all pages are fetched even after the page limit.
    pub fn are_finished(&self) -> bool {
        self.enabled && self.after_limit
    }
}

impl Cluster {
    /// Whether the job is crawled by several machines.
    pub fn is_there(&self) -> bool {
        !self.brokers.is_empty()
    }
}

impl Scope {
    /// Whether PDF files are pages.
    pub fn accepts_pdf(&self) -> bool {
        self.accept_types
            .iter()
            .any(|kind| kind.covers("application/pdf"))
    }
}

/// All formats but icons.
const RANKED: [ImageFormat; 6] = [
    ImageFormat::Jpeg,
    ImageFormat::Png,
    ImageFormat::Gif,
    ImageFormat::WebP,
    ImageFormat::Bmp,
    ImageFormat::Tiff,
];

/// Media types of pages.
const PAGES: &str = "text/html application/xhtml+xml application/vnd.wap.xhtml+xml text/plain";

/// Parameters of the common campaign and mail services, then those of the common session
/// mechanisms. Short names with other meanings elsewhere are left out.
const SESSIONS_AND_CAMPAIGNS: &str = "utm_* mtm_* matomo_* piwik_* \
    pk_campaign pk_kwd pk_source pk_medium pk_content pk_cid \
    gclid gclsrc dclid gbraid wbraid srsltid _ga _gl fbclid msclkid yclid ysclid twclid ttclid \
    igsh igshid mc_cid mc_eid _hsenc _hsmi __hssc __hstc __hsfp hsctatracking mkt_tok vero_id \
    vero_conv oly_anon_id oly_enc_id _openstat s_cid xtor wt_mc irclickid zanpid \
    phpsessid jsessionid sessionid session_id sessid cfid cftoken zenid oscsid mscsid xtcsid \
    asp.net_sessionid sid=hex s=hex";

/// Archives, programs, office documents, sound, film, images, data and fonts.
const NO_PAGES: &str = "7z apk bz2 dmg exe gz iso jar msi rar rpm deb tar tgz xz zip zst \
    doc docx epub mobi odp ods odt pdf ppt pptx ps rtf xls xlsx \
    aac flac m4a mid mp3 oga ogg opus wav wma \
    avi flv m4v mkv mov mp4 mpeg mpg ogv webm wmv \
    avif bmp gif heic ico jpeg jpg png psd svg tif tiff webp \
    bin css csv dat eot ics js json otf rss sql torrent ttf wasm woff woff2 xml";
