//! Two kinds of rules with a small syntax: the scope of a crawl, and the redirection of
//! connections.

use std::fmt;
use std::net::Ipv6Addr;

use regex::{Regex, RegexBuilder};

use super::messages::{shown, shown_whole};
use super::values::TextValue;
use crate::address::PageUrl;

/// A scope rule, which covers some addresses. It has one of three forms.
///
/// - A prefix of SURT forms (see [`PageUrl::surt`]), which covers every address whose SURT
///   form starts with it. It is written as SURT, `org,example,` or `org,example)/cats`,
///   with or without Heritrix's leading `http://(`; or as a URL:
///   `https://example.org/cats/` covers all addresses that start with it, and
///   `https://example.org`, without a slash after the host, the whole domain with its
///   subdomains. Schemes are not compared.
/// - `host:www.example.org`: exactly this host, at any port; with
///   `host:www.example.org:8080` at that port only.
/// - `regex:PATTERN`: every address whose canonical form the pattern, in the syntax of the `regex`
///   crate, matches anywhere. For any pattern, matching takes linear time in the length of the
///   address.
#[derive(Debug, Clone)]
pub struct ScopeRule {
    /// The canonical text, by which rules are compared.
    text: String,
    form: Form,
    /// The most bytes that its compiled form may take.
    weight: usize,
}

#[derive(Debug, Clone)]
enum Form {
    Surt(String),
    Host { name: String, port: Option<u16> },
    Regex(Regex),
}

/// Size limits for compiled patterns; a pattern that exceeds the last is refused. The
/// actual size is not available, so a pattern counts as the first of these that it fits
/// in.
const PATTERN_BYTES: [usize; 4] = [4 << 10, 32 << 10, 256 << 10, 4 << 20];

/// The longest pattern, in bytes: parsing takes a hundred times as much memory.
const MAX_PATTERN: usize = 64 << 10;

const HOST: &str = "host:";
const REGEX: &str = "regex:";

impl ScopeRule {
    /// The rule as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it covers `url`, whose SURT form is `surt`. A prefix that ends within the
    /// host matches whole labels: `org,example` does not cover `org,examples)/`.
    pub fn covers(&self, url: &PageUrl, surt: &str) -> bool {
        match &self.form {
            Form::Surt(prefix) => surt.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                prefix.contains(')') || prefix.ends_with(',') || rest.starts_with([',', ')', ':'])
            }),
            Form::Host { name, port } => {
                url.host() == name && port.is_none_or(|own| url.port() == own)
            }
            Form::Regex(pattern) => pattern.is_match(url.as_str()),
        }
    }

    fn surt(prefix: String) -> Self {
        // A host named `host` must not be read back as another form of rule.
        let plain = !prefix.starts_with(HOST) && !prefix.starts_with(REGEX);
        Self {
            text: if plain {
                prefix.clone()
            } else {
                format!("http://({prefix}")
            },
            form: Form::Surt(prefix),
            weight: 0,
        }
    }

    fn host(written: &str) -> Result<Self, String> {
        let url = PageUrl::parse(&format!("http://{written}/"))
            .ok()
            .filter(|url| url.path_and_query() == "/" && !written.contains(['/', '@']))
            .ok_or_else(|| {
                let written = shown(written);
                format!("\"{HOST}{written}\" names no host; write it as host:www.example.org")
            })?;
        // The port is read from the text, because a canonical URL omits a default port.
        let port = written.rsplit_once(':').and_then(|(_, p)| p.parse().ok());
        let name = url.host().to_owned();
        let text = match port {
            Some(port) => format!("{HOST}{name}:{port}"),
            None => format!("{HOST}{name}"),
        };
        let form = Form::Host { name, port };
        Ok(Self {
            text,
            form,
            weight: 0,
        })
    }

    fn regex(pattern: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("\"{REGEX}{}\" {why}", shown(pattern));
        if pattern.is_empty() {
            return Err(wrong("has no pattern"));
        }
        if pattern.len() > MAX_PATTERN {
            return Err(wrong("is too large a pattern"));
        }
        let mut weight = 0;
        let mut built = Err(regex::Error::CompiledTooBig(0));
        for size in PATTERN_BYTES {
            weight = size;
            built = RegexBuilder::new(pattern).size_limit(size).build();
            if !matches!(built, Err(regex::Error::CompiledTooBig(_))) {
                break;
            }
        }
        let regex = built.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => wrong("is too large a pattern"),
            // The error shows the pattern over several lines; the last one has the reason.
            other => {
                let text = other.to_string();
                let last = text.lines().next_back().unwrap_or_default();
                let why = last.strip_prefix("error: ").unwrap_or(last);
                wrong(&format!("is not a valid pattern: {}", shown(why)))
            }
        })?;
        Ok(Self {
            text: format!("{REGEX}{pattern}"),
            form: Form::Regex(regex),
            weight,
        })
    }
}

impl PartialEq for ScopeRule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ScopeRule {}

impl fmt::Display for ScopeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TextValue for ScopeRule {
    const KIND: &'static str = "a scope rule";
    const FORM: &'static str = "a SURT prefix as \"org,example,\" or \"org,example)/cats/\", a URL as \"https://example.org/cats/\", \"host:www.example.org\" or \"regex:PATTERN\"";
    const EXAMPLE: &'static str = "org,example)/cats/";

    fn from_text(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(host) = text.strip_prefix(HOST) {
            return Self::host(host.trim());
        }
        if let Some(pattern) = text.strip_prefix(REGEX) {
            return Self::regex(pattern);
        }
        let lower = text.to_ascii_lowercase();
        let after = |scheme: &str| lower.starts_with(scheme).then(|| text.get(scheme.len()..));
        let Some(rest) = after("https://").or_else(|| after("http://")).flatten() else {
            return surt_prefix(text, text);
        };
        if let Some(surt) = rest.strip_prefix('(') {
            return surt_prefix(surt, text);
        }
        let url = PageUrl::parse(text).map_err(|error| shown_whole(&error.to_string()))?;
        let surt = url.surt();
        let host_only = !rest.contains(['/', '?', '#']);
        let prefix = surt.strip_suffix(")/").filter(|_| host_only);
        surt_prefix(prefix.unwrap_or(&surt), text)
    }
    fn text(&self) -> String {
        self.text.clone()
    }
    fn text_weight(&self) -> usize {
        self.weight
    }
}

/// Checks a SURT prefix; `written` is the original text of the file.
fn surt_prefix(surt: &str, written: &str) -> Result<ScopeRule, String> {
    let wrong = |why: &str| Err(format!("\"{}\" {why}", shown(written)));
    let (host, path) = match surt.split_once(')') {
        Some((host, path)) => (host, Some(path)),
        None => (surt, None),
    };
    // Heritrix ends the host of `org,example,)/` with a comma; here it has none.
    let host = match path {
        Some(_) => host.strip_suffix(',').unwrap_or(host),
        None => host,
    }
    .to_ascii_lowercase();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, Some(port)),
        _ => (host.as_str(), None),
    };
    let ip = url::Host::parse(name)
        .ok()
        .filter(|ip| name.contains(['.', ':']) && !matches!(ip, url::Host::Domain(_)));
    let label = |part: &str| {
        let within = |c: char| c.is_ascii_graphic() && !"./:?#@[]()\\%".contains(c);
        !part.is_empty() && part.chars().all(within)
    };
    // A trailing comma stands for further labels, and there can be none if a path follows.
    let open = name.strip_suffix(',').filter(|_| path.is_none());
    let labels = open.unwrap_or(name);
    if name.is_empty() {
        return wrong("names no host");
    }
    if ip.is_none() && name.contains('.') {
        return wrong(
            "is neither a URL nor a SURT prefix; a host is written backwards with commas, as org,example",
        );
    }
    if ip.is_none() && !labels.split(',').all(label) {
        return wrong(
            "is not a SURT prefix; a host is written backwards with commas, in ASCII (punycode)",
        );
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return wrong("has no valid port");
    }
    let host = match (ip, port) {
        (Some(ip), Some(port)) => format!("{ip}:{port}"),
        (Some(ip), None) => ip.to_string(),
        (None, _) => host,
    };
    match path {
        None => Ok(ScopeRule::surt(host)),
        Some(path) if path.is_empty() || path.starts_with('/') => {
            Ok(ScopeRule::surt(format!("{host}){path}")))
        }
        Some(_) => wrong("has something other than a path after the parenthesis"),
    }
}

/// A rule that redirects connections, like curl's `--connect-to`: the request is
/// unchanged, only the address to connect to differs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConnectTo {
    /// The hosts it applies to.
    pub host: HostPattern,
    /// The port it applies to, by default that of the URL's scheme; `None` for any.
    pub port: Option<u16>,
    /// The host name or IP address (IPv6 without brackets) to connect to; empty to keep
    /// the host.
    pub to_host: String,
    /// The port to connect to; `None` to keep the port.
    pub to_port: Option<u16>,
}

/// The hosts that a [`ConnectTo`] applies to, lower-case, IPv6 without brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// Every host.
    Any,
    /// Every host below this domain, at any depth, but not the domain itself.
    Below(String),
    /// This host.
    Exact(String),
}

impl ConnectTo {
    /// Whether it applies to a connection to `host` (IPv6 with or without brackets, in
    /// either case) at `port`. The first matching rule of a list is used, even if it
    /// changes nothing.
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let host = normal_host(host);
        let host_fits = match &self.host {
            HostPattern::Any => true,
            HostPattern::Exact(name) => *name == host,
            HostPattern::Below(domain) => host
                .strip_suffix(domain.as_str())
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|labels| !labels.is_empty()),
        };
        host_fits && self.port.is_none_or(|own| own == port)
    }
}

impl fmt::Display for ConnectTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl TextValue for ConnectTo {
    const KIND: &'static str = "a connection rule";
    const FORM: &'static str = "HOST:PORT:TARGET_HOST:TARGET_PORT with any part empty, as \"*.example.org:80:127.0.0.1:8080\"";
    const EXAMPLE: &'static str = "*.example.org:80:127.0.0.1:8080";

    fn from_text(text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("\"{}\" {why}", shown(text));
        let parts = outside_brackets(text.trim());
        let [host, port, to_host, to_port] = parts.as_slice() else {
            let count = parts.len();
            return Err(wrong(format!(
                "has {count} part{} instead of 4 (put IPv6 addresses in brackets)",
                if count == 1 { "" } else { "s" }
            )));
        };
        let pattern = match host.strip_prefix("*.") {
            _ if host.is_empty() => HostPattern::Any,
            Some(domain) => HostPattern::Below(checked_host(domain).map_err(wrong)?),
            None => HostPattern::Exact(checked_host(host).map_err(wrong)?),
        };
        Ok(Self {
            host: pattern,
            port: checked_port(port).map_err(wrong)?,
            to_host: if to_host.is_empty() {
                String::new()
            } else {
                checked_host(to_host).map_err(wrong)?
            },
            to_port: checked_port(to_port).map_err(wrong)?,
        })
    }

    fn text(&self) -> String {
        let host = match &self.host {
            HostPattern::Any => String::new(),
            HostPattern::Below(domain) => format!("*.{domain}"),
            HostPattern::Exact(host) => bracketed(host),
        };
        let port = |port: Option<u16>| port.map(|p| p.to_string()).unwrap_or_default();
        let to_host = bracketed(&self.to_host);
        format!(
            "{host}:{}:{to_host}:{}",
            port(self.port),
            port(self.to_port)
        )
    }
}

/// Splits at colons outside of brackets.
fn outside_brackets(text: &str) -> Vec<&str> {
    let mut inside = false;
    text.split(|c| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ':' && !inside
    })
    .collect()
}

fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

fn checked_host(text: &str) -> Result<String, String> {
    // Uses the URL standard's host parser, because the pattern is compared with its
    // output.
    url::Host::parse(text)
        .map(|host| normal_host(&host.to_string()))
        .ok()
        .filter(|host| !host.is_empty() && !host.contains('*'))
        .ok_or_else(|| format!("has an invalid host `{}`", shown(text)))
}

fn checked_port(text: &str) -> Result<Option<u16>, String> {
    match text.parse() {
        _ if text.is_empty() => Ok(None),
        Ok(port) if port > 0 => Ok(Some(port)),
        _ => Err(format!("has an invalid port `{}`", shown(text))),
    }
}

/// Lower-case, without brackets and trailing dot, IPv6 in its canonical form.
fn normal_host(host: &str) -> String {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let bare = bare.unwrap_or(&host);
    match bare.parse::<Ipv6Addr>() {
        Ok(address) => address.to_string(),
        Err(_) => bare.to_owned(),
    }
}
