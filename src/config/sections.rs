//! Every section with every key: the one place where a key is declared. The doc
//! comments are what `spoor config reference` prints.

use std::path::PathBuf;
use std::time::Duration;

use super::formula::Formula;
use super::kinds::{
    Boundaries, ClassName, Clue, Contact, Documents, Extension, ImageFormat, LogLevel, MediaType,
    Name, Parameter, ProductToken, Proxy, Scheme, Signal, Source, StoreKind, StrategyKind,
};
use super::listen::Listen;
use super::neutral::Neutral;
use super::rules::{ConnectTo, ScopeRule};
use super::section::{Key, Section, Walker, above, section};
use super::seeds::WatchedSeed;
use super::units::{Size, days, hours, minutes, ms, secs};
use super::values::Auto;
use crate::address::PageUrl;
use crate::language::Language;
use crate::page::Extractor;

section! {
    /// What the job is called and who answers for it.
    pub struct Job = "job" {
        /// The job's name; its results lie in the folder of this name.
        name: Name = Name::example(), required;
        /// How the operators of web sites reach you; sent with every request. A crawl does not begin without it.
        contact: Option<Contact> = None;
        /// The folder in which jobs have their folders.
        folder: PathBuf = PathBuf::from("jobs");
    }
}

section! {
    /// Where the crawl begins. Seeds are fetched before anything else.
    pub struct Seeds = "seeds" {
        /// Seed addresses.
        urls: Vec<PageUrl> = Vec::new();
        /// Files of seed addresses, one a line; blank lines are skipped, and `#` begins a comment at the beginning of a line or after white space.
        files: Vec<PathBuf> = Vec::new();
        /// Whether the sitemaps that robots.txt files name are read. What they list is of the class `normal` and one link from the seeds, and is asked for after the rated links of that class.
        sitemaps: bool = false;
        /// Seeds with a schedule of their own, whatever `[recrawl]` says: each is visited again so long after its last visit, and never given up. A list of tables, or a block `[[seeds.watch]]` for each. Where such a seed redirects, the page it leads to is visited with it.
        watch: Vec<WatchedSeed> = Vec::new();
    }
}

section! {
    /// Whether pages are visited again. A page that has changed is visited after half of the last pause, one that has not after one and a half times the last pause. A crawl that visits pages again does not end by itself, but by `[limits]` or when it is stopped. Every visit is conditional where the server says which version a page has, and a page whose words are the same counts as unchanged.
    pub struct Recrawl = "recrawl" {
        /// The pause between the first and the second visit of a page. Without it every page is fetched once. Pages that were fetched before it was set are not visited again.
        after: Option<Duration> = None, within ms(1)..=days(366);
        /// The shortest pause between two visits of a page.
        min: Duration = hours(1), within ms(1)..=days(366);
        /// The longest pause between two visits of a page.
        max: Duration = days(60), within ms(1)..=days(3660);
    }
}

section! {
    /// What focusing gains. A small share of the fetches goes to links that are drawn by chance from all that are known and not fetched yet, also those above the razor, each as likely as any other; the log marks them. That shows what a crawl that does not look at scores would find from here on, beside what the scores found. How likely each page is on topic is judged from its text, as everywhere. An unfocused crawl has no control sample.
    pub struct ControlSample = "control_sample" {
        /// The share of the fetches of links; 0 for none. Links that were met while it was 0 are not drawn.
        share: f64 = 0.02, within 0.0..=0.5;
        /// The seed of the generator that draws the links.
        seed: u64 = 1, within 0..;
    }
}

section! {
    /// What the language model and the keyword table are made of.
    pub struct Train = "train" {
        /// Texts about the topic.
        positive: Vec<Source> = Vec::new();
        /// Texts about anything else, which tell the topic's words from common ones. `builtin` takes the 20,000 most frequent words of the topic's language, with how frequent they are; texts of your own measure better. There are built-in words for ar, bg, bn, ca, cs, da, de, el, en, es, fa, fi, fr, he, hi, hr, hu, id, it, lt, lv, mk, nb, nl, pl, pt, ro, ru, sk, sl, sv, ta, tl, tr, uk, ur and vi. An empty list is for no neutral text: then there are no keywords, and how near a page is to the topic rests on its perplexity alone.
        neutral: Neutral = Neutral::Builtin;
        /// The fewest sentences about the topic that a model is made of. With fewer, training refuses; `--force` makes the model all the same.
        min_sentences: usize = 30, within 1..;
        /// The order of the model: how many words an n-gram has at most.
        order: usize = 5, within 2..=6;
        /// How many keywords the table keeps.
        keywords: usize = 50, within 1..=10_000;
        /// The share of the positive sentences that is held out, in whole documents where there are enough, to measure the model and to calibrate bucket boundaries and anchor threshold.
        held_out: f64 = 0.3, within 0.0..=0.9;
        /// The seed of the generator that draws what is held out.
        seed: u64 = 1, within 0..;
        /// What separates the documents of a text file: an empty line, or nothing, so that each file is one. A line end always ends a sentence.
        documents: Documents = Documents::BlankLine;
    }
}

section! {
    /// Where the model lies.
    pub struct ModelSection = "model" {
        /// The model's name; without it, that of the job.
        name: Option<Name> = None;
        /// The folder in which models have their folders.
        folder: PathBuf = PathBuf::from("models");
    }
}

section! {
    /// How a link is rated. The score of a link is (gamma_document * perplexity of its page + gamma_anchor * perplexity of its anchor text) * (1 - gamma_keyword * keyword score of its anchor text); lower is better. These keys may be changed while the crawl runs, with `spoor reload`: what is queued is rated anew, also by the keyword table as it lies in the model's folder then.
    pub struct StrategySection = "strategy" {
        /// What the rating is made of: nothing (breadth first), the page's perplexity, the link score, or what the crawl has learned so far from the pages that links led to (the words of anchor, address, text around and heading, the place on the page, how far the page is on topic, which other pages lead there, host and path, links since the last page on topic).
        kind: StrategyKind = StrategyKind::Learn;
        /// What a learning crawl may know of a link; fewer kinds show what each is worth.
        clues: Vec<Clue> = Clue::ALL.to_vec();
        /// The share of the fetches of a learning crawl that explore: such a fetch goes to the best link of a host that is drawn by chance among those that may be asked.
        explore: f64 = 0.01, within 0.0..=0.5;
        /// The seed of the generator that draws them.
        seed: u64 = 1, within 0..;
        /// How much less likely on topic a link may be than the best one whose host only rests for a moment (up to 5 seconds), to be asked for meanwhile, in a learning crawl: with 0.5 half as likely, with 0 whatever may be asked is asked. A higher share brings more pages on topic with as many fetches, a lower one more in as much time.
        patience: f64 = 0.5, within 0.0..=1.0;
        /// The weight of the page's perplexity.
        gamma_document: f64 = 0.7, within 0.0..=1.0;
        /// The weight of the anchor's perplexity.
        gamma_anchor: f64 = 0.3, within 0.0..=1.0;
        /// How much the keyword score lowers the perplexity, of links and of image texts.
        gamma_keyword: f64 = 3.0, within 0.0..=1000.0;
        /// An anchor whose perplexity is higher than this, or than the page's, says nothing; the page's perplexity stands alone then. `auto` takes the one that training measured: it best separates short texts about the topic from others, on the model's own scale.
        anchor_threshold: Auto<f64> = Auto::Auto, within above(0.0);
    }
}

section! {
    /// The boundaries of link scores between the priority classes. They must ascend. They may be changed while the crawl runs, as `[strategy]`.
    pub struct Buckets = "buckets" {
        /// `auto` takes the boundaries that training measured and keeps in `model.toml`, because perplexities differ from model to model; `fixed` takes the four below.
        boundaries: Boundaries = Boundaries::Auto;
        /// The highest score of the class `high`.
        high: f64 = 600.0, within above(0.0);
        /// The highest score of the class `medium`.
        medium: f64 = 2000.0, within above(0.0);
        /// The highest score of the class `normal`.
        normal: f64 = 10000.0, within above(0.0);
        /// The highest score of the class `low`; links above it are recorded and not followed.
        razor: f64 = 30000.0, within above(0.0);
    }
}

section! {
    /// When the crawl ends by itself: as soon as one of the limits is reached, or when nothing is left to fetch.
    pub struct Limits = "limits" {
        /// Pages fetched with success, each counted once however often it is visited.
        documents: Option<u64> = None, within 1..;
        /// Page requests answered, whatever the status, further visits included.
        fetches: Option<u64> = None, within 1..;
        /// Bytes of all bodies received.
        bytes: Option<Size> = None, within Size(1)..;
        /// Time spent crawling, over all runs of the job.
        time: Option<Duration> = None, within secs(1)..;
    }
}

section! {
    /// How hosts are treated. The pause between two requests to one host is delay_factor times the duration of the last fetch, but at least min_delay and at most max_delay, and never shorter than what robots.txt asks for.
    pub struct Politeness = "politeness" {
        /// The shortest pause between two requests to one host.
        min_delay: Duration = secs(1), within secs(0)..=days(1);
        /// The longest pause that a slow host brings about by itself.
        max_delay: Duration = secs(60), within secs(0)..=days(1);
        /// How many times the duration of the last fetch the pause lasts.
        delay_factor: f64 = 5.0, within 0.0..=100.0;
        /// Requests to one host at the same time.
        connections_per_host: usize = 1, within 1..=16;
        /// The shortest pause between two requests to one IP address, whatever hosts stand on it; 0 keeps no watch over addresses.
        address_delay: Duration = ms(500), within secs(0)..=hours(1);
        /// The shortest pause between two requests to the hosts of one registered domain; 0 keeps no watch over domains.
        domain_delay: Duration = secs(0), within secs(0)..=hours(1);
        /// The longest Crawl-delay of a robots.txt that is waited for; a host that asks for more is left alone for a day.
        max_crawl_delay: Duration = minutes(10), within secs(1)..=days(30);
        /// Requests a second over all hosts; without it, no limit.
        requests_per_second: Option<f64> = None, within 0.001..=1_000_000.0;
        /// Bytes a second over all hosts; without it, no limit.
        bytes_per_second: Option<Size> = None, within Size::kib(1)..=Size::mib(1 << 20);
        /// How often a failed request is repeated before the address is given up.
        retries: u8 = 3, within 0..=20;
        /// The pause after a first failure that asks for patience; it doubles with each further one.
        back_off: Duration = secs(30), within ms(1)..=days(1);
        /// The longest such pause. A server's Retry-After is obeyed whatever its length.
        max_back_off: Duration = days(1), within ms(1)..=days(30);
        /// How long robots.txt rules are used before they are fetched again; no longer than a day (RFC 9309 section 2.4).
        robots_max_age: Duration = hours(24), within secs(1)..=hours(24);
    }
}

section! {
    /// How requests are made.
    pub struct Network = "network" {
        /// Requests at the same time over all hosts.
        concurrency: usize = 64, within 1..=4096;
        /// Whether addresses of private networks and of this machine may be fetched. Leave it false for a crawl of the web: pages could otherwise make the crawler read what only this network can see.
        allow_private: bool = false;
        /// Connections that go elsewhere, as curl's --connect-to. HOST may begin with `*.` for every host below a domain; an empty HOST or PORT fits any, an empty target part leaves it unchanged; IPv6 addresses stand in brackets. The first rule that fits applies. A target that is an IP address is reached without allow_private too.
        connect_to: Vec<ConnectTo> = Vec::new();
        /// The proxy that requests go through, all but those that a rule of connect_to fits: the URL of an HTTP proxy, or "environment" for what the variables HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say. Without it they are not heeded. A proxy that asks for a password belongs into the environment, not into this file. Unless allow_private is set, names are looked up and judged on this machine before the proxy is asked for them.
        proxy: Option<Proxy> = None;
        /// The longest time to connect, TLS included.
        connect_timeout: Duration = secs(10), within ms(1)..=hours(1);
        /// The longest silence while a response is read.
        read_timeout: Duration = secs(20), within ms(1)..=hours(1);
        /// The longest time from the request to the last byte. When no place is free for other hosts, most of the requests that have taken more than ten seconds, and more than eight times as long as an answer usually takes, are given up earlier and tried again.
        total_timeout: Duration = minutes(5), within ms(1)..=days(1);
        /// The largest body of a page; the rest is not read.
        max_page_bytes: Size = Size::mib(10), within Size::kib(1)..=Size::mib(1024);
        /// Redirects in a row that are followed.
        max_redirects: u8 = 5, within 0..=20;
        /// Whether HTTP/2 is spoken where the server offers it.
        http2: bool = true;
        /// A PEM file of certificate authorities that are trusted besides Mozilla's, for a web of your own. Whoever has their keys can pretend to be any site.
        extra_ca: Option<PathBuf> = None;
        /// The product token that the crawler calls itself by, to servers and in robots.txt.
        user_agent: ProductToken = ProductToken::spoor();
    }
}

section! {
    /// Which addresses are followed. These rules may be changed while the crawl runs, with `spoor reload`: the queue is checked again, and addresses that they had kept out come back if they no longer do.
    pub struct Scope = "scope" {
        /// Only addresses that one of these rules covers; empty for all. A rule is a SURT prefix (the host backwards: `org,example` covers example.org and everything below it), a URL (`https://example.org/cats/` covers what begins so, `https://example.org` the host and everything below it), `host:www.example.org` for this host alone, or `regex:` and a pattern that is searched in the whole address.
        accept: Vec<ScopeRule> = Vec::new();
        /// No addresses that one of these rules covers, even if they are accepted.
        reject: Vec<ScopeRule> = Vec::new();
        /// The most links between a seed and a page; without it, no limit.
        max_hops: Option<u32> = None, within 0..;
        /// The most pages of one host; without it, no limit.
        host_documents: Option<u64> = None, within 1..;
        /// The most pages of one registered domain (example.co.uk with all hosts below it, by the public suffix list); without it, no limit.
        domain_documents: Option<u64> = None, within 1..;
        /// Parameters that say who asks and whence, not what: sessions and campaigns. They are taken out of every address of a page, in the query and in the path (`;jsessionid=1`), so that it is fetched once.
        drop_parameters: Vec<Parameter> = Parameter::list(SESSIONS_AND_CAMPAIGNS);
        /// Further ones of this job, besides drop_parameters.
        drop_also: Vec<Parameter> = Vec::new();
        /// The longest address of a page, in bytes; longer ones are taken for a trap.
        max_url_bytes: usize = 2000, within 100..=8000;
        /// Extensions of links that lead to no page. Embedded images do not count as links.
        reject_files: Vec<Extension> = Extension::list(NO_PAGES);
        /// MIME types of pages, by the Content-Type of the answer; a page of another type is dropped. An answer without one is judged by its first bytes. HTML, XHTML and text can be read, so other types than these bring nothing.
        accept_types: Vec<MediaType> = MediaType::list(PAGES);
        /// The most segments of a path; deeper ones are taken for a trap.
        max_depth: usize = 20, within 1..=100;
        /// How often a segment may stand in one path; more often is taken for a trap.
        repeated_segments: usize = 3, within 1..=100;
        /// Schemes of addresses.
        schemes: Vec<Scheme> = vec![Scheme::Http, Scheme::Https];
    }
}

section! {
    /// Which images are brought home, and with how many words around them.
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
        /// How many times as long as its shorter side the longer side of an image may be; banners and rules are longer.
        max_aspect: f64 = 10.0, within 1.0..=65_535.0;
        /// The smallest file. Photographs have thousands of bytes, whatever their size.
        min_bytes: Size = Size::kib(0), within Size::kib(0)..=Size::mib(1024);
        /// The largest file; a larger one is given up.
        max_bytes: Size = Size::mib(20), within Size::kib(1)..=Size::mib(1024);
        /// How many enclosing elements with text are kept.
        parents: usize = 5, within 0..=20;
        /// How many sibling elements with text are kept.
        siblings: usize = 5, within 0..=20;
        /// The share of the requests that go to images while both pages and images wait, so that a crawl that is stopped early has both; the best images come first. At 0 images wait until no page may be asked for, at 1 they go before all pages. Nobody waits for a turn: images on hosts of their own come as fast as these permit. No limit of pages counts them.
        share: f64 = 0.33, within 0.0..=1.0;
        /// Whether the images of fetched pages are still brought home after limits.documents is reached.
        after_limit: bool = true;
    }
}

section! {
    /// What is done with text.
    pub struct Text = "text" {
        /// Whether the sentences of the pages are written to sentences/*.txt.gz.
        sentences: bool = true;
        /// Whether each page is written to documents/*.jsonl.zst as a document: its main text as its author wrote it, with address, dates, title, authors, language, rating, licence and terms of use.
        documents: bool = true;
        /// What of an HTML page is the text of its document, by the same names as `extractor`. Navigation is left out by default, whatever is rated. Where little would be left, all is taken; the document says which it was. `article` costs about as much as reading the page does; `density` and `all` cost next to nothing.
        documents_extractor: Extractor = Extractor::Article;
        /// What of an HTML page is its text: `all` of it; the `article`, its main content as the reader modes of browsers find it; or the segments of some `density` (words a line) and those that speak of what the title speaks of. Only that is scored and kept as sentences; links, images and the words around them are always of the whole page. Where little would be left (fewer than 50 words, or one in twenty), all is taken; the log says which it was. Training reads HTML in the same way.
        extractor: Extractor = Extractor::All;
        /// The languages of the pages that are kept, recognised from the text and not from what pages say of themselves; empty for any. Neither text nor images are kept of a page that is in another one for certain; pages whose language is not certain are kept.
        languages: Vec<Language> = Vec::new();
        /// Whether the links of pages in other languages than these are followed. They are rated as on a page of unknown words.
        follow_foreign: bool = true;
        /// The longest text of one page after decoding; the rest is cut off.
        max_bytes: Size = Size::mib(2), within Size::kib(1)..=Size::mib(256);
        /// How deep elements may nest; a deeper page is read without its structure.
        max_nesting: usize = 256, within 16..=1024;
    }
}

section! {
    /// Which terms of use are obeyed. All that publishers say is recorded with each sample, in the sidecars and the crawl log, whatever is obeyed. Where they forbid the use of a page its sentences, its document and its images are left out, and where they forbid that of an image it is not fetched or not kept; links are followed all the same, but for those that `nofollow` speaks of.
    pub struct Consent = "consent" {
        /// The signals that are obeyed: `robots` is noindex, noai, noml, noimageindex and noimageai of X-Robots-Tag headers and meta robots, the last two for images only; `tdm` is a reservation by the TDM Reservation Protocol; `content-signal` is ai-train=no of a Content-Signal line, or train-ai=n of a Content-Usage line, in robots.txt. An empty list obeys none.
        obey: Vec<Signal> = vec![Signal::Robots, Signal::Tdm, Signal::ContentSignal];
        /// Whether each host is asked for its /.well-known/tdmrep.json before its first page or image. No host is asked where the job keeps neither images nor text.
        tdmrep: bool = true;
    }
}

section! {
    /// How `spoor rank` orders a job's images, and which of them it leaves out.
    pub struct Rank = "rank" {
        /// The score of an image in one of its contexts; the lowest of its contexts counts, and lower is better. Without it the geometric mean of the weighted perplexities of alt and parent 1, as the crawl recorded it. Texts that are absent have the perplexity of unknown words and the keyword score 0.
        formula: Option<Formula> = None;
        /// Formats that are ranked, by the bytes themselves.
        formats: Vec<ImageFormat> = RANKED.to_vec();
        /// The smallest width that is ranked, in pixels. The crawl itself keeps none below images.min_width.
        min_width: u32 = 0, within 0..=65_535;
        /// The smallest height that is ranked, in pixels.
        min_height: u32 = 0, within 0..=65_535;
        /// The lowest score that is ranked; without it, no limit.
        from: Option<f64> = None;
        /// The highest score that is ranked; without it, no limit.
        to: Option<f64> = None;
        /// How many of the 64 bits of their perceptual hashes may differ for two images to count as the same picture; the better one is kept.
        near: u32 = 4, within 0..=16;
    }
}

section! {
    /// What people are asked about a job's images on the page of `spoor annotate`, and whose votes count.
    pub struct Annotate = "annotate" {
        /// The answers to the question of what an image shows, at most nine, in the order of their keys 1 to 9.
        classes: Vec<ClassName> = ClassName::list(&["on topic", "related", "off topic", "no picture"]);
        /// Which of them count as on topic.
        on_topic: Vec<ClassName> = ClassName::list(&["on topic"]);
        /// How many people answer each question about an image.
        votes: usize = 3, within 1..=100;
        /// Whether every image is judged alone first, and only then the words of those that a majority of its votes calls on topic. Otherwise image and words are judged together.
        two_phase: bool = false;
        /// A table (TSV) of gold questions, images of the job whose answers are known: the SHA-256 or the address of the image, the right class, and, if it is known too, the right answer about the words. They are mixed with the others, and their votes count for nothing else.
        gold: Option<PathBuf> = None;
        /// One question in so many is a gold question, at no regular place.
        gold_every: usize = 8, within 2..=1000;
        /// The share of the gold questions that one must answer rightly; who falls below gets no more images, and their votes do not count.
        qualify: f64 = 0.7, within 0.0..=1.0;
        /// How many gold questions must be answered before that share is looked at.
        qualify_after: usize = 5, within 1..=1000;
    }
}

section! {
    /// What the frontier is kept in.
    pub struct FrontierSection = "frontier" {
        /// The store. `fjall` is the better one for crawls of weeks and for machines that may lose power; a store is converted by `spoor frontier convert`.
        store: StoreKind = StoreKind::Sled;
    }
}

section! {
    /// How a crawl survives its end.
    pub struct Checkpoint = "checkpoint" {
        /// How long open requests may take to finish when the crawl ends or is stopped. Where limits.time ends it, they have at most a tenth of limits.time, or a second if that is longer. What has not finished by then is asked for again at the next start.
        drain: Duration = minutes(2), within ms(1)..=hours(1);
        /// How often the frontier is flushed to disk.
        interval: Duration = secs(30), within secs(1)..=hours(1);
        /// How often the whole frontier is exported to the job's checkpoints folder while the crawl goes on; the last two exports are kept. `spoor frontier import` makes a frontier of one where the store is damaged.
        export: Duration = hours(6), within secs(1)..=days(30);
    }
}

section! {
    /// What a crawl writes into `logs/spoor.DATE.jsonl` of its folder, a line of JSON for each event: pauses, outages, changed rules, what went wrong. Every finished task has its line in `logs/crawl.jsonl` besides. A new file begins every day, by UTC.
    pub struct Logs = "logs" {
        /// The least important events that are written: `error`, `warn`, `info`, `debug`, or `off` for none. `info` is some lines an hour; `debug` is several for every fetch.
        level: LogLevel = LogLevel::Info;
        /// How many of these files are kept; older ones are removed.
        keep: usize = 14, within 1..=3_660;
        /// How large `logs/crawl.jsonl` and `images.tsv` may become. A file that reaches this size gets a number and is compressed, as `crawl.00001.jsonl.zst`, and a new one begins; all commands read them as one.
        rotate: Size = Size::mib(256), within Size::kib(4)..=Size::mib(1 << 20);
    }
}

section! {
    /// How a running crawl is asked and told what to do. It always answers its owner on the socket `control.sock` in the job's folder; the API over TCP is the same.
    pub struct Control = "control" {
        /// Where it answers over TCP, with the dashboard. "auto" takes 127.0.0.1:8470, or the next port that is free, and a token of the run's own: `spoor crawl` prints the link that has it, and nobody else on the machine gets in. On an address of your own the crawl refuses to start where the port is taken; everybody on this machine may ask and steer there unless there is a token, and one beyond this machine is refused without. Nothing is encrypted: put a TLS proxy in front of it, or take a tunnel. false switches it off.
        listen: Listen = Listen::Auto;
        /// A file with the token that every request over TCP must bring: 16 visible characters or more, in a file that not everybody can read. Without it the variable SPOOR_CONTROL_TOKEN is taken where it is set.
        token_file: Option<PathBuf> = None;
    }
}

/// Pictures; icons are none.
const RANKED: [ImageFormat; 6] = [
    ImageFormat::Jpeg,
    ImageFormat::Png,
    ImageFormat::Gif,
    ImageFormat::WebP,
    ImageFormat::Bmp,
    ImageFormat::Tiff,
];

/// What pages come as.
const PAGES: &str = "text/html application/xhtml+xml application/vnd.wap.xhtml+xml text/plain";

/// Those of the common campaign and mail services, then those of the common
/// session mechanisms. Short names that mean other things elsewhere are left out.
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
