//! The kinds of value that are specific to a crawler: names, addresses, rules. A value of
//! one of these types has been checked and is in canonical form.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use url::Url;

use super::messages::{shown, shown_whole};
use super::values::{TextValue, choice, no_choice};
use crate::address::PageUrl;
use crate::page::Signal;

impl TextValue for PageUrl {
    const KIND: &'static str = "a URL";
    const FORM: &'static str = "an http or https URL in full, as \"https://example.org/page\"";
    const EXAMPLE: &'static str = "https://example.org/page";

    fn from_text(text: &str) -> Result<Self, String> {
        PageUrl::parse(text).map_err(|error| shown_whole(&error.to_string()))
    }
    fn text(&self) -> String {
        self.as_str().to_owned()
    }
}

impl TextValue for SocketAddr {
    const KIND: &'static str = "an address to listen on";
    const FORM: &'static str =
        "an IP address and a port, as \"127.0.0.1:8470\"; port 0 takes a free one";
    const EXAMPLE: &'static str = "127.0.0.1:8470";

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("\"{}\" is not an IP address with a port", shown(text)))
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

/// Declares a checked text type and its formatting.
macro_rules! checked_text {
    ($($(#[doc = $about:literal])* pub struct $struct:ident;)*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $struct(String);

        impl $struct {
            /// The checked text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $struct {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $struct {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

checked_text! {
    /// The name of a job or a model: 1 to 64 characters of `a-z`, `0-9`, `_` and `-`, so
    /// that it is a valid folder name on every system.
    pub struct Name;

    /// The contact address of the operator: a `mailto:` address, a plain e-mail address
    /// or an `http(s)` URL. ASCII without spaces, parentheses and backslashes, so that it
    /// may be part of a `User-Agent` comment (RFC 9110 section 5.6.5).
    pub struct Contact;

    /// The name of the crawler that robots.txt groups are matched against: 1 to
    /// 64 characters of `A-Z`, `a-z`, `_` and `-` (RFC 9309 section 2.2.1).
    pub struct ProductToken;

    /// A query parameter that does not affect the page: a name in lower case; with a
    /// final `*` for all names with that prefix; with a final `=hex` only for values of
    /// 32 or more hexadecimal digits, such as session numbers.
    pub struct Parameter;

    /// The address of a store of objects: `s3://BUCKET/PATH` or `file:///PATH`.
    pub struct StoreAddress;

    /// The address of a server of NATS: `nats://HOST:PORT` or `tls://HOST:PORT`.
    pub struct BrokerAddress;

    /// The name of a machine of a cluster: letters, digits, `-`, `_`, and dots between them.
    pub struct NodeName;

    /// The extension of a file name, lower-case and without its dot: 1 to 16
    /// characters of `a-z` and `0-9`.
    pub struct Extension;

    /// A class for images: 1 to 40 characters on one line, without surrounding white
    /// space.
    pub struct ClassName;

    /// A MIME type such as `text/html`, or all of a kind such as `text/*`; lower-case,
    /// without parameters (RFC 9110 section 8.3.1).
    pub struct MediaType;
}

impl Name {
    /// Checks a name that does not come from a file.
    ///
    /// # Errors
    /// The problem, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why| format!("{why}; allowed: {}", Self::FORM);
        Self::from_text(text).map_err(wrong)
    }

    /// The example in the reference, and the name in `Config::default`.
    pub fn example() -> Self {
        Self(Self::EXAMPLE.to_owned())
    }
}

impl TextValue for StoreAddress {
    const KIND: &'static str = "the address of a store";
    const FORM: &'static str = "\"s3://BUCKET/PATH\" or \"file:///PATH\"";
    const EXAMPLE: &'static str = "s3://bucket/checkpoints/cats";

    fn from_text(text: &str) -> Result<Self, String> {
        let bucket = text.strip_prefix("s3://");
        let path = text.strip_prefix("file:///");
        let is_bucket = bucket.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
        let is_odd = |c: char| c.is_control() || c == '?' || c == '#';
        if (is_bucket || path.is_some_and(|path| !path.is_empty())) && !text.contains(is_odd) {
            return Ok(Self(text.trim_end_matches('/').to_owned()));
        }
        Err(format!("\"{}\" is not {}", shown(text), Self::FORM))
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl TextValue for BrokerAddress {
    const KIND: &'static str = "a broker";
    const FORM: &'static str = "\"nats://HOST:PORT\" or \"tls://HOST:PORT\"";
    const EXAMPLE: &'static str = "nats://n1.example.org:4222";

    fn from_text(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("\"{}\" {why}", shown(text));
        let url = Url::parse(text).map_err(|_| wrong("is not an address"))?;
        if !url.username().is_empty() || url.password().is_some() {
            // The password stays out of the message.
            return Err(
                "an address has a name or a password in it; write these to the file that \
                 cluster.credentials names"
                    .to_owned(),
            );
        }
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none();
        if !matches!(url.scheme(), "nats" | "tls") || url.host().is_none() || !is_bare {
            return Err(wrong("is not the address of a broker"));
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl TextValue for NodeName {
    const KIND: &'static str = "the name of a machine";
    const FORM: &'static str = "1 to 64 letters, digits, - and _, with dots between them";
    const EXAMPLE: &'static str = "crawler-3";

    fn from_text(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name = of_characters(text, 64, fits, Self::KIND)?;
        if name.split('.').any(str::is_empty) {
            return Err(format!(
                "\"{}\" has a dot that is not between two parts",
                shown(text)
            ));
        }
        Ok(Self(name))
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl TextValue for Name {
    const KIND: &'static str = "a name";
    const FORM: &'static str = "1 to 64 characters of a-z, 0-9, _ and -";
    const EXAMPLE: &'static str = "example";

    fn from_text(text: &str) -> Result<Self, String> {
        let fits = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-');
        of_characters(text, 64, fits, "a name").map(Self)
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl ProductToken {
    /// The crawler's own name, `spoor`.
    pub fn spoor() -> Self {
        Self(Self::EXAMPLE.to_owned())
    }
}

impl TextValue for ProductToken {
    const KIND: &'static str = "a product token";
    const FORM: &'static str = "1 to 64 characters of A-Z, a-z, _ and -";
    const EXAMPLE: &'static str = "spoor";

    fn from_text(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '-');
        of_characters(text, 64, fits, Self::KIND).map(Self)
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

/// The proxy for access to the web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proxy {
    /// The proxy in the environment's variables, if any.
    Environment,
    /// This proxy: `http` or `https`, a host and a port, nothing else.
    At(Url),
}

impl TextValue for Proxy {
    const KIND: &'static str = "a proxy";
    const FORM: &'static str =
        "\"environment\", or a URL of scheme, host and port as \"http://proxy.example.org:3128\"";
    const EXAMPLE: &'static str = "http://proxy.example.org:3128";

    fn from_text(text: &str) -> Result<Self, String> {
        if text == "environment" {
            return Ok(Self::Environment);
        }
        // The text is not repeated, because it may contain a password.
        let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "a user name or a password may not stand here; write \"environment\" and set HTTPS_PROXY and HTTP_PROXY"
                    .to_owned(),
            );
        }
        let bare = url.path().len() <= 1 && url.query().is_none() && url.fragment().is_none();
        match url.scheme() {
            "http" | "https" if bare => Ok(Self::At(url)),
            "http" | "https" => Err("a proxy has no path".to_owned()),
            _ => Err("only http and https proxies can be spoken to".to_owned()),
        }
    }
    fn text(&self) -> String {
        match self {
            Self::Environment => "environment".to_owned(),
            Self::At(url) => url.as_str().trim_end_matches('/').to_owned(),
        }
    }
}

impl Extension {
    /// The extensions with these names, each of which must be valid.
    pub fn list(names: &str) -> Vec<Self> {
        names
            .split_whitespace()
            .map(|name| Self(name.to_owned()))
            .collect()
    }
}

impl TextValue for Extension {
    const KIND: &'static str = "a file extension";
    const FORM: &'static str = "1 to 16 characters of a-z and 0-9, as \"pdf\"";
    const EXAMPLE: &'static str = "pdf";

    fn from_text(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('.').unwrap_or(text).to_ascii_lowercase();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        of_characters(&bare, 16, fits, Self::KIND).map(Self)
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl ClassName {
    /// The classes with these names, each of which must be valid.
    pub fn list(names: &[&str]) -> Vec<Self> {
        names.iter().map(|name| Self((*name).to_owned())).collect()
    }
}

impl TextValue for ClassName {
    const KIND: &'static str = "a class name";
    const FORM: &'static str = "1 to 40 characters on one line";
    const EXAMPLE: &'static str = "on topic";

    fn from_text(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let length = text.chars().count();
        if (1..=40).contains(&length) && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("\"{}\" is not {}", shown(text), Self::KIND))
        }
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl MediaType {
    /// The types with these names, each of which must be valid.
    pub fn list(names: &str) -> Vec<Self> {
        names
            .split_whitespace()
            .map(|name| Self(name.to_owned()))
            .collect()
    }

    /// Whether it includes `media`, a type in lower case without parameters.
    pub fn covers(&self, media: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(kind) => media.starts_with(kind),
            None => media == self.0,
        }
    }
}

impl TextValue for MediaType {
    const KIND: &'static str = "a MIME type";
    const FORM: &'static str = "a type as \"text/html\", or all of a kind as \"text/*\"";
    const EXAMPLE: &'static str = "text/html";

    fn from_text(text: &str) -> Result<Self, String> {
        // A token of RFC 9110 section 5.6.2, except `*`, which stands for any.
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'+-.^_`|~".contains(c);
        let is_token = |part: &str| !part.is_empty() && part.chars().all(token);
        let lower = text.trim().to_ascii_lowercase();
        match lower.split_once('/') {
            Some((kind, sub))
                if lower.len() <= 128 && is_token(kind) && (sub == "*" || is_token(sub)) =>
            {
                Ok(Self(lower))
            }
            _ => Err(format!("\"{}\" is not {}", shown(text), Self::KIND)),
        }
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl Parameter {
    /// The parameters of these patterns, each of which must be valid.
    pub fn list(patterns: &str) -> Vec<Self> {
        patterns
            .split_whitespace()
            .map(|pattern| Self(pattern.to_owned()))
            .collect()
    }

    /// Whether it includes a parameter with this name and value; case is ignored.
    pub fn covers(&self, name: &str, value: &str) -> bool {
        let (pattern, hex) = match self.0.strip_suffix("=hex") {
            Some(pattern) => (pattern, true),
            None => (self.0.as_str(), false),
        };
        let begins = |prefix: &str| {
            let start = name.as_bytes().get(..prefix.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        let named = match pattern.strip_suffix('*') {
            Some(prefix) => begins(prefix),
            None => name.eq_ignore_ascii_case(pattern),
        };
        let digits = || value.len() >= 32 && value.bytes().all(|b| b.is_ascii_hexdigit());
        named && (!hex || digits())
    }
}

impl TextValue for Parameter {
    const KIND: &'static str = "a parameter";
    const FORM: &'static str = "the name of an address's parameter, as \"ref\"; \"utm_*\" for all that begin so; \"sid=hex\" for one whose value is 32 or more hexadecimal digits";
    const EXAMPLE: &'static str = "ref";

    fn from_text(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let name = lower.strip_suffix("=hex").unwrap_or(&lower);
        let name = name.strip_suffix('*').unwrap_or(name);
        let fits = |c: char| c.is_ascii_graphic() && !"&=;#?/*".contains(c);
        of_characters(name, 64, fits, Self::KIND)
            .map(|_| Self(lower.clone()))
            .map_err(|_| format!("\"{}\" is not {}", shown(text), Self::KIND))
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

impl TextValue for Contact {
    const KIND: &'static str = "a contact address";
    const FORM: &'static str =
        "an e-mail address, with or without `mailto:`, or an http or https URL";
    const EXAMPLE: &'static str = "mailto:crawler@example.org";

    fn from_text(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = |why: &str| Err(format!("\"{}\" {why}", shown(text)));
        if !text.chars().all(|c| c.is_ascii_graphic()) {
            return wrong("contains spaces or characters beyond ASCII");
        }
        if text.contains(['(', ')', '\\', '"', '<', '>']) {
            return wrong(
                "contains one of ( ) \\ \" < >, which a User-Agent line cannot carry; write %28 for ( and %29 for )",
            );
        }
        let lower = text.to_ascii_lowercase();
        if lower.starts_with("http:") || lower.starts_with("https:") {
            let url = PageUrl::parse(text).map_err(|error| shown_whole(&error.to_string()))?;
            return Ok(Self(url.to_string()));
        }
        let scheme = "mailto:";
        let address = match lower.strip_prefix(scheme) {
            Some(_) => text.get(scheme.len()..).unwrap_or_default(),
            None => text,
        };
        if is_email(address) {
            Ok(Self(text.to_owned()))
        } else {
            wrong("is not an address that somebody can be reached at")
        }
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

/// The dot-atom form of RFC 5322 section 3.4.1, at a domain with a dot. Whether the
/// address is in use cannot be checked, but a missing part can.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    let atoms = |part: &str| !part.is_empty() && part.chars().all(atom);
    let label = |part: &str| {
        let within = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !part.is_empty()
            && part.chars().all(within)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    local.split('.').all(atoms)
        && domain.split('.').all(label)
        && (domain.contains('.') || domain == "localhost")
}

/// Where training text comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// A page of the web.
    Url(PageUrl),
    /// An HTML, text or PDF file, or a folder of these.
    Path(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl TextValue for Source {
    const KIND: &'static str = "a training source";
    const FORM: &'static str =
        "a URL, or the path of an HTML, text or PDF file or of a folder of these";
    const EXAMPLE: &'static str = "texts/topic.txt";

    fn from_text(text: &str) -> Result<Self, String> {
        // A text with a scheme is an address, and a malformed address must not pass as a
        // path.
        if text.contains("://") {
            PageUrl::from_text(text).map(Self::Url)
        } else {
            PathBuf::from_text(text).map(Self::Path)
        }
    }
    fn text(&self) -> String {
        match self {
            Self::Url(url) => url.text(),
            Self::Path(path) => path.text(),
        }
    }
    fn text_within(&self, folder: &Path) -> Self {
        match self {
            Self::Url(url) => Self::Url(url.clone()),
            Self::Path(path) => Self::Path(path.text_within(folder)),
        }
    }
}

choice! {
    /// The separator of documents in a text file.
    pub enum Documents = "a separator of documents" {
        /// One or more blank lines.
        BlankLine = "blank_line",
        /// Nothing: a file is a document.
        File = "file",
    }
}

choice! {
    /// The store of the frontier.
    pub enum StoreKind = "a store" {
        /// sled 0.34: proven against SIGKILL, not against power cuts.
        Sled = "sled",
        /// fjall 3: quicker, smaller, and safe across power cuts.
        Fjall = "fjall",
    }
}

choice! {
    /// The compression of an archive.
    pub enum ArchiveCompression = "a compression" {
        /// gzip, which every program for archives reads.
        Gzip = "gzip",
        /// zstd: smaller, but few programs read it yet.
        Zstd = "zstd",
    }
}

choice! {
    /// The least importance of events that are logged.
    pub enum LogLevel = "a level" {
        /// Nothing is logged.
        Off = "off",
        /// Events that need the operator.
        Error = "error",
        /// Events that may need the operator.
        Warn = "warn",
        /// Events of the crawl as a whole.
        Info = "info",
        /// Events of each address.
        Debug = "debug",
    }
}

choice! {
    /// The basis of a link's priority.
    pub enum StrategyKind = "a strategy" {
        /// None: breadth first.
        Unfocused = "unfocused",
        /// The perplexity of the page with the link (Remus and Biemann 2016).
        Document = "document",
        /// The link score (Werner 2015).
        Link = "link",
        /// The learned probability that the link leads to the topic.
        Learn = "learn",
    }
}

choice! {
    /// A kind of link features that a learning crawl may use.
    pub enum Clue = "a kind of clue" {
        /// The words of its anchor and address, of the text around it and of the heading.
        Words = "words",
        /// Its place on the page, and the other links of the same list.
        Place = "place",
        /// How far the pages with a link to it are on topic.
        Pages = "pages",
        /// Its host and the first part of its path.
        Host = "host",
        /// Links since the last page on topic.
        Hops = "hops",
    }
}

choice! {
    /// The source of the boundaries between buckets.
    pub enum Boundaries = "a choice of boundaries" {
        /// The boundaries that training measured, kept with the model.
        Auto = "auto",
        /// The boundaries of the configuration.
        Fixed = "fixed",
    }
}

choice! {
    /// An image format, as detected from the bytes.
    pub enum ImageFormat = "an image format" {
        /// JPEG.
        Jpeg = "jpeg",
        /// PNG.
        Png = "png",
        /// GIF.
        Gif = "gif",
        /// WebP.
        WebP = "webp",
        /// Windows bitmap.
        Bmp = "bmp",
        /// TIFF.
        Tiff = "tiff",
        /// Windows icon.
        Ico = "ico",
    }
}

impl TextValue for Signal {
    const KIND: &'static str = "a signal";
    const EXAMPLE: &'static str = "";
    const WORDS: &'static [&'static str] = &["robots", "tdm", "content-signal", "rsl"];

    fn from_text(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|signal| signal.name() == text);
        named.ok_or_else(|| no_choice::<Self>(text))
    }

    fn text(&self) -> String {
        self.name().to_owned()
    }
}

choice! {
    /// A scheme of addresses that are followed.
    pub enum Scheme = "a scheme" {
        /// Plain HTTP.
        Http = "http",
        /// HTTP over TLS.
        Https = "https",
    }
}

fn of_characters(
    text: &str,
    longest: usize,
    fits: impl Fn(char) -> bool,
    kind: &str,
) -> Result<String, String> {
    if (1..=longest).contains(&text.len()) && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err(format!("\"{}\" is not {kind}", shown(text)))
    }
}
