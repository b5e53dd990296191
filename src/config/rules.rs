//! Two rules with a small language of their own: which addresses are in scope,
//! and which connections go elsewhere.

use std::fmt;
use std::net::Ipv6Addr;

use super::errors::shown;
use super::values::TextValue;
use crate::address::PageUrl;

/// A prefix of SURT forms (see [`PageUrl::surt`]), which covers every address
/// whose SURT form begins with it.
///
/// It is written as such, `org,example,` or `org,example)/cats`, with or without
/// Heritrix's `http://(` before it; or as a URL: `https://example.org/cats/`
/// covers what begins with that address, and `https://example.org`, without a
/// slash after the host, the whole domain with its subdomains. Schemes are not
/// compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScopeRule(String);

impl ScopeRule {
    /// The prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it covers the address whose SURT form is `surt`. A prefix that
    /// ends within the host ends at a label: `org,example` does not cover
    /// `org,examples)/`.
    pub fn covers(&self, surt: &str) -> bool {
        let Some(rest) = surt.strip_prefix(self.0.as_str()) else {
            return false;
        };
        self.0.contains(')') || self.0.ends_with(',') || rest.starts_with([',', ')', ':'])
    }
}

impl fmt::Display for ScopeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TextValue for ScopeRule {
    const KIND: &'static str = "a scope rule";
    const FORM: &'static str = "a SURT prefix as \"org,example,\" or \"org,example)/cats/\", or a URL as \"https://example.org/cats/\"";
    const EXAMPLE: &'static str = "org,example)/cats/";

    fn from_text(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        let after = |scheme: &str| lower.starts_with(scheme).then(|| text.get(scheme.len()..));
        let Some(rest) = after("https://").or_else(|| after("http://")).flatten() else {
            return surt_prefix(text, text);
        };
        if let Some(surt) = rest.strip_prefix('(') {
            return surt_prefix(surt, text);
        }
        let url = PageUrl::parse(text).map_err(|error| shown(&error.to_string()))?;
        let surt = url.surt();
        let host_only = !rest.contains(['/', '?', '#']);
        let prefix = surt.strip_suffix(")/").filter(|_| host_only);
        surt_prefix(prefix.unwrap_or(&surt), text)
    }
    fn text(&self) -> String {
        self.0.clone()
    }
}

/// Checks a prefix that is written as SURT: `written` as it stands in the file.
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
    // A comma at the end stands for the labels that follow; where a path follows,
    // there are none.
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
        None => Ok(ScopeRule(host)),
        Some(path) if path.is_empty() || path.starts_with('/') => {
            Ok(ScopeRule(format!("{host}){path}")))
        }
        Some(_) => wrong("has something other than a path after the parenthesis"),
    }
}

/// A rule that sends connections elsewhere, as curl's `--connect-to`: the request
/// stays what it was, only the address that is connected to changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConnectTo {
    /// The hosts it applies to.
    pub host: HostPattern,
    /// The port it applies to, which for a URL that names none is its scheme's;
    /// `None` for any.
    pub port: Option<u16>,
    /// The host name or IP address (IPv6 without brackets) that is connected to;
    /// empty where the host stays what it was.
    pub to_host: String,
    /// The port that is connected to, `None` where it stays what it was.
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
    /// Whether it applies to a connection to `host` (IPv6 with or without
    /// brackets, letters of either case) at `port`. The first rule of a list that
    /// does is the one to follow, even if it changes nothing.
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
                "has {count} part{} instead of 4 (IPv6 addresses stand in brackets)",
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
            to_host: match to_host.is_empty() {
                true => String::new(),
                false => checked_host(to_host).map_err(wrong)?,
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

/// Cuts at colons that do not stand between brackets.
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
    // The URL standard's own host parser: the pattern is compared with its output.
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
