//! The kinds of value that a crawler brings: names, addresses, rules. A value of
//! one of these types has been checked and is in canonical form.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use url::Url;

use super::errors::{shown, shown_whole};
use super::values::{TextValue, choice};
use crate::address::PageUrl;

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
            .map_err(|_| format!("\"{}\" is no IP address with a port", shown(text)))
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

/// Declares a text that has been checked, and how it shows itself.
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
    /// The name of a job or a model: 1 to 64 characters of `a-z`, `0-9`, `_` and
    /// `-`, so that it is a folder's name on every system.
    pub struct Name;

    /// How the operator is reached: a `mailto:` address, a plain e-mail address
    /// or an `http(s)` URL. ASCII without spaces, parentheses and backslashes, so
    /// that it may stand in a `User-Agent` comment (RFC 9110 section 5.6.5).
    pub struct Contact;

    /// The name of the crawler that robots.txt groups are matched against: 1 to
    /// 64 characters of `A-Z`, `a-z`, `_` and `-` (RFC 9309 section 2.2.1).
    pub struct ProductToken;

    /// A parameter of addresses that says nothing about the page: a name in lower
    /// case; with `*` at its end for all names that begin so; with `=hex` after it
    /// only where the value is 32 or more hexadecimal digits, as session numbers are.
    pub struct Parameter;

    /// The extension of a file name, lower-case and without its dot: 1 to 16
    /// characters of `a-z` and `0-9`.
    pub struct Extension;

    /// A class that an image can be put in: 1 to 40 characters on one line, no
    /// white space around them.
    pub struct ClassName;

    /// A MIME type as `text/html`, or all of a kind as `text/*`; lower-case, without
    /// parameters (RFC 9110 section 8.3.1).
    pub struct MediaType;
}

impl Name {
    /// Checks a name from elsewhere than a file.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why| format!("{why}; allowed: {}", Self::FORM);
        Self::from_text(text).map_err(wrong)
    }

    /// What the reference shows, and what `Config::default` is called.
    pub(super) fn example() -> Self {
        Self(Self::EXAMPLE.to_owned())
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
    pub(super) fn spoor() -> Self {
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

/// The way to the web, where it leads through a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proxy {
    /// The one that the environment's variables name, if they do.
    Environment,
    /// This one: `http` or `https`, a host and a port, nothing else.
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
        // The text is not repeated: it may have a password in it.
        let url = Url::parse(text).map_err(|error| format!("it is no URL: {error}"))?;
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
    /// The extensions of these names, each of which must be one.
    pub(super) fn list(names: &str) -> Vec<Self> {
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
    /// The classes of these names, each of which must be one.
    pub(super) fn list(names: &[&str]) -> Vec<Self> {
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
    /// The types of these names, each of which must be one.
    pub(super) fn list(names: &str) -> Vec<Self> {
        names
            .split_whitespace()
            .map(|name| Self(name.to_owned()))
            .collect()
    }

    /// Whether it covers `media`, a type in lower case without parameters.
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
        // A token of RFC 9110 section 5.6.2, but for `*`, which stands for any.
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
    /// The parameters of these patterns, each of which must be one.
    pub(super) fn list(patterns: &str) -> Vec<Self> {
        patterns
            .split_whitespace()
            .map(|pattern| Self(pattern.to_owned()))
            .collect()
    }

    /// Whether a parameter of this name and value is meant; case does not count.
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

/// The dot-atom form of RFC 5322 section 3.4.1, at a domain with a dot; that an
/// operator answers cannot be seen, but a forgotten part can.
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
    /// An HTML or text file, or a folder of these.
    Path(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl TextValue for Source {
    const KIND: &'static str = "a training source";
    const FORM: &'static str = "a URL, or the path of an HTML or text file or of a folder of these";
    const EXAMPLE: &'static str = "texts/topic.txt";

    fn from_text(text: &str) -> Result<Self, String> {
        // A scheme makes it an address, and a wrong one must not pass as a path.
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
    /// What separates the documents of a text file.
    pub enum Documents = "a separator of documents" {
        /// One or more blank lines.
        BlankLine = "blank_line",
        /// Nothing: a file is a document.
        File = "file",
    }
}

choice! {
    /// What the frontier is stored with.
    pub enum StoreKind = "a store" {
        /// sled 0.34: proven against SIGKILL, not against power cuts.
        Sled = "sled",
        /// fjall 3: quicker, smaller, and safe across power cuts.
        Fjall = "fjall",
    }
}

choice! {
    /// How important an event must be to be written.
    pub enum LogLevel = "a level" {
        /// None is.
        Off = "off",
        /// What needs the operator.
        Error = "error",
        /// What may need the operator.
        Warn = "warn",
        /// What happens to the crawl as a whole.
        Info = "info",
        /// What happens to each address.
        Debug = "debug",
    }
}

choice! {
    /// What a link's priority is made of.
    pub enum StrategyKind = "a strategy" {
        /// Nothing: breadth first.
        Unfocused = "unfocused",
        /// The perplexity of the page it stands on (Remus and Biemann 2016).
        Document = "document",
        /// The link score (Werner 2015).
        Link = "link",
        /// What the crawl itself has learned of which links lead to the topic.
        Learn = "learn",
    }
}

choice! {
    /// What a learning crawl may know of a link.
    pub enum Clue = "a kind of clue" {
        /// The words of its anchor and address, of the text around it and of the heading.
        Words = "words",
        /// Its place on the page, and the other links of the same list.
        Place = "place",
        /// How far the pages that lead there are on topic.
        Pages = "pages",
        /// Its host and the first part of its path.
        Host = "host",
        /// Links since the last page on topic.
        Hops = "hops",
    }
}

choice! {
    /// Whose boundaries divide the buckets.
    pub enum Boundaries = "a choice of boundaries" {
        /// Those that training measured, kept with the model.
        Auto = "auto",
        /// Those of the configuration.
        Fixed = "fixed",
    }
}

choice! {
    /// A format of images, by the bytes themselves.
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

choice! {
    /// A way in which publishers reserve the use of what they publish.
    pub enum Signal = "a signal" {
        /// `X-Robots-Tag` headers and meta robots.
        Robots = "robots",
        /// The TDM Reservation Protocol.
        Tdm = "tdm",
        /// `Content-Signal` and `Content-Usage` lines of robots.txt.
        ContentSignal = "content-signal",
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
