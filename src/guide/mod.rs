//! The user's guide, with one page per topic.
//!
//! A topic is a Markdown file in this folder and a line in the list below. `cargo doc` and
//! `spoor help TOPIC` show these pages.

mod plain;
#[cfg(test)]
mod tests;

/// A page of the guide.
#[derive(Debug, Clone, Copy)]
pub struct Topic {
    /// The name of its file without `.md`.
    pub name: &'static str,
    /// Its subject, in a few words.
    pub about: &'static str,
    /// The page, in Markdown.
    pub text: &'static str,
}

impl Topic {
    /// The topic with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        TOPICS.iter().find(|topic| topic.name == name)
    }

    /// The page as plain text with lines of at most `width` columns. Lines of code are never
    /// broken, and may be longer.
    pub fn plain(&self, width: usize) -> String {
        plain::page(self.text, width)
    }
}

macro_rules! topics {
    ($($name:ident: $about:literal,)*) => {
        /// All topics, in reading order.
        pub const TOPICS: &[Topic] = &[$(Topic {
            name: stringify!($name),
            about: $about,
            text: include_str!(concat!(stringify!($name), ".md")),
        }),*];
        topics!(@modules [$($name)*] $($name)*);
    };
    (@modules $all:tt $($name:ident)*) => {
        $(topics!(@module $name $all);)*
    };
    // A page links to other pages as files, which works where the folder is shown, as on GitHub.
    // Markdown takes the first definition of a link, so these make rustdoc link to the modules.
    (@module $name:ident [$($all:ident)*]) => {
        #[doc = concat!($("[", stringify!($all), "]: crate::guide::", stringify!($all), "\n"),*)]
        ///
        #[doc = include_str!(concat!(stringify!($name), ".md"))]
        pub mod $name {}
    };
}

topics! {
    installing: "build and install spoor, in a container or as one static program",
    python: "the wheel, and documents and images as dicts in Python",
    jobs: "the job file, the texts a topic is learned from, and how to begin",
    operating: "progress, exit codes, logs, and running it as a service",
    control: "watch, pause, change and explain a crawl; the dashboard",
    api: "the HTTP API of a running crawl: every request, its body and its answer",
    headline: "how many pages are on topic, what focusing gained, and how sure that is",
    reports: "the results of jobs, as HTML with plots",
    images: "which images are kept, with which words; ranking and export",
    text: "documents, extractors, and the text of a crawl as a corpus",
    corpora: "documents from jobs and archives, filtered, each once, in many formats",
    archives: "write, read, search and replay WARC and ARC files, also damaged ones",
    pdfs: "PDF files: their text, with the place of every character; limits; crawls and corpora",
    fields: "fields such as title and date from the pages of a site; when the site changes",
    grammar: "stems, lemmas, stopwords and parts of speech in a corpus",
    names: "find persons, places and works of a list in documents",
    searching: "find documents by their words, on the terminal and on a page",
    languages: "how languages are recognised and chosen",
    terms: "what publishers allow, what spoor obeys, and takedowns",
    publishers: "how to say to spoor what it may do: one line each",
    identity: "who the crawler is: the page about it, and signed requests",
    annotation: "people judge the images; how far they agree",
    watching: "revisit pages, watch addresses, read sitemaps",
    scope: "which addresses belong to a crawl, and endless sites",
    calibration: "what is near the topic: boundaries, and growing a model",
    strategies: "how a crawl chooses its next link, and what each strategy finds",
    experiments: "compare settings on a stored web, offline",
    journey: "how a page travels from a link to the disk",
    layout: "the files and folders of a job and of a model",
    stores: "sled or fjall for the frontier; convert, check, export, import",
    machines: "a checkpoint in a bucket or on another disk; going on elsewhere",
    clusters: "several machines that crawl one job together",
    politeness: "robots.txt, pauses, and shared clocks",
    failures: "the consequences when a request or a host fails",
    troubleshooting: "full disks, lost networks, damaged stores, and what to do",
    safety: "hostile sites, slow hosts, private addresses",
    performance: "a crawl of a million pages, and the benchmarks",
    measurements: "all figures: what crawls find, speed, memory, correctness",
    glossary: "the words of this guide",
}
