//! `spoor keys new JOB --agent URL`, `spoor keys page JOB`

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde_json::{Value, json};
use spoor::address::PageUrl;
use spoor::config::Config;
use spoor::fetch::Options;
use spoor::fetch::identity::KeyFile;
use spoor::page::Signal;

/// The names of the files that `spoor keys new` writes.
const PRIVATE: &str = "private.jwk";
const DIRECTORY: &str = "http-message-signatures-directory";
const CARD: &str = "signature-agent-card.json";

/// Say to servers who the crawler is.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make a key with which requests are signed (Web Bot Auth).
    ///
    /// It writes the private key, which only you can read; the directory with the public key, for
    /// `/.well-known/http-message-signatures-directory` of your site; and a card that describes the
    /// crawler.
    New {
        /// The job's TOML file.
        job: PathBuf,
        /// The site on which you publish the directory, as https://bot.example.org.
        #[arg(long, value_name = "URL")]
        agent: PageUrl,
        /// What the pages are used for, for the card.
        #[arg(long, value_name = "TEXT")]
        purpose: Option<String>,
        /// The folder for the files, by default `keys` beside the job file.
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
    /// Write a web page that explains the crawler to webmasters: who, what, how to keep it out.
    ///
    /// Publish it, and give its address as `job.contact`: then every request names it.
    Page {
        /// The job's TOML file.
        job: PathBuf,
        /// A mail address for questions and complaints; by default that of `job.contact`.
        #[arg(long, value_name = "ADDRESS")]
        mail: Option<String>,
        /// What the pages are used for.
        #[arg(long, value_name = "TEXT")]
        purpose: Option<String>,
        /// The file, instead of the terminal.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

impl Keys {
    pub fn run(self) -> Result<()> {
        match self {
            Self::New {
                job,
                agent,
                purpose,
                to,
            } => new(&job, &agent, purpose.as_deref(), to),
            Self::Page {
                job,
                mail,
                purpose,
                to,
            } => page(&job, mail, purpose.as_deref(), to),
        }
    }
}

fn new(job: &Path, agent: &PageUrl, purpose: Option<&str>, to: Option<PathBuf>) -> Result<()> {
    let config = Config::load(job)?;
    if agent.scheme() != "https" || agent.path_and_query() != "/" {
        bail!(
            "{agent}: give the https address of a site without a path, as https://bot.example.org"
        );
    }
    let beside = || job.parent().unwrap_or(Path::new("")).join("keys");
    let folder = to.unwrap_or_else(beside);
    let private = folder.join(PRIVATE);
    if private.exists() {
        bail!(
            "{}: there is a key already; servers know it, so move it away only if you want another",
            private.display()
        );
    }
    let card = card(&config, agent, purpose)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    let key = KeyFile::new()?;
    let directory = with_earlier(&folder.join(DIRECTORY), key.directory())?;
    write_private(&private, &key)?;
    for (name, value) in [(DIRECTORY, directory), (CARD, card)] {
        let path = folder.join(name);
        let text = format!("{value:#}\n");
        std::fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
    }
    let site = agent.as_str();
    println!(
        "{}\n    the private key; only you can read it, keep it so",
        private.display()
    );
    println!(
        "{}\n    serve it with the type application/http-message-signatures-directory+json as\n    \
         {site}.well-known/{DIRECTORY}",
        folder.join(DIRECTORY).display()
    );
    println!(
        "{}\n    describes the crawler; serve it as {site}{CARD}\n    and give that address to \
         networks that keep lists of crawlers",
        folder.join(CARD).display()
    );
    println!("\nThen add to {}:\n\n[identity]", job.display());
    let written = if job.parent() == folder.parent() {
        Path::new(folder.file_name().unwrap_or_default()).join(PRIVATE)
    } else {
        std::path::absolute(&private).unwrap_or(private)
    };
    println!(
        "key = {}\nagent = \"{agent}\"",
        toml::Value::from(written.to_string_lossy().into_owned())
    );
    Ok(())
}

/// The directory with the keys of an earlier one at `path`, which servers may still know.
fn with_earlier(path: &Path, mut directory: Value) -> Result<Value> {
    let Ok(text) = spoor::fs::read_to_string(path) else {
        return Ok(directory);
    };
    let earlier: Value = serde_json::from_str(&text).with_context(|| {
        format!(
            "{}: it is not a key directory; move it away",
            path.display()
        )
    })?;
    let earlier = earlier["keys"].as_array().cloned().unwrap_or_default();
    if let Some(keys) = directory["keys"].as_array_mut() {
        keys.extend(earlier);
    }
    Ok(directory)
}

/// Writes the key, readable by its owner only from the beginning.
fn write_private(path: &Path, key: &KeyFile) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options
        .open(path)
        .with_context(|| format!("{}", path.display()))?;
    writeln!(file, "{}", key.private())?;
    Ok(file.sync_all()?)
}

/// The signature agent card (draft-meunier-webbotauth-registry).
fn card(config: &Config, agent: &PageUrl, purpose: Option<&str>) -> Result<Value> {
    let site = agent.as_str();
    let contact = config.contact()?.as_str().to_owned();
    let contact = if contact.contains(':') {
        contact
    } else {
        format!("mailto:{contact}")
    };
    let slow = config.politeness.min_delay.as_secs_f64();
    let most = config.politeness.connections_per_host as f64 / slow.max(0.001);
    let mut about = json!({
        "expected-user-agent": user_agent(config)?,
        "rfc9309-product-token": config.network.user_agent.as_str(),
        "rfc9309-compliance": true,
        "trigger": "crawler",
        "targeted-content": config.job.name.as_str(),
        "rate-control": "Crawl-delay in robots.txt; 429 or 503 with Retry-After",
        "rate-expectation": format!("max={most:.2}rps for each host"),
        "known-urls": ["/robots.txt", "/.well-known/tdmrep.json"],
    });
    if let Some(purpose) = purpose {
        about["purpose"] = purpose.into();
    }
    Ok(json!({
        "client_id": format!("{site}{CARD}"),
        "client_name": config.network.user_agent.as_str(),
        "contacts": [contact],
        "jwks_uri": format!("{site}.well-known/{DIRECTORY}"),
        "web_bot_auth": about,
    }))
}

fn user_agent(config: &Config) -> Result<String> {
    let options = Options {
        product: config.network.user_agent.as_str().to_owned(),
        contact: config.contact()?.as_str().to_owned(),
        ..Options::default()
    };
    Ok(options.user_agent())
}

fn page(
    job: &Path,
    mail: Option<String>,
    purpose: Option<&str>,
    to: Option<PathBuf>,
) -> Result<()> {
    let config = Config::load(job)?;
    let contact = config.contact()?.as_str();
    let is_page = contact.starts_with("http");
    let mail = match mail {
        Some(mail) => mail,
        None if is_page => bail!("job.contact is a page; give a mail address with --mail"),
        None => contact.trim_start_matches("mailto:").to_owned(),
    };
    let html = html(&config, &mail, purpose)?;
    match to {
        None => print!("{html}"),
        Some(path) => {
            std::fs::write(&path, html).with_context(|| format!("{}", path.display()))?;
            println!("{}", path.display());
            if !is_page {
                println!(
                    "Publish it, and give its address as job.contact: then every request names it."
                );
            }
        }
    }
    Ok(())
}

fn html(config: &Config, mail: &str, purpose: Option<&str>) -> Result<String> {
    let escaped = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        text.replace('"', "&quot;")
    };
    let name = escaped(config.network.user_agent.as_str());
    let user_agent = escaped(&user_agent(config)?);
    let topic = escaped(config.job.name.as_str());
    let mail = escaped(mail);
    let pause = config.politeness.min_delay.as_secs_f64();
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{name}: about this crawler</title>\n\
         <style>body {{ max-width: 40em; margin: 2em auto; padding: 0 1em; font: 1rem/1.5 sans-serif; \
         color-scheme: light dark }} pre {{ overflow-x: auto }}</style>\n</head>\n<body>\n\
         <h1>{name}</h1>\n<p>You found this name in your logs: it is a crawler that collects pages \
         about one topic, <em>{topic}</em>.</p>\n"
    );
    if let Some(purpose) = purpose {
        writeln!(
            html,
            "<p>The pages are used for this: {}.</p>",
            escaped(purpose)
        )?;
    }
    write!(
        html,
        "<h2>Who</h2>\n<p>Questions and complaints: <a href=\"mailto:{mail}\">{mail}</a>. Its user \
         agent is:</p>\n<pre>{user_agent}</pre>\n"
    )?;
    if let Some(agent) = &config.identity.agent {
        let agent = escaped(agent.as_str());
        writeln!(
            html,
            "<p>It signs its requests if your server asks for that (Web Bot Auth). Its keys are at \
             <a href=\"{agent}.well-known/{DIRECTORY}\">{agent}</a>.</p>"
        )?;
    }
    let obeyed = config.consent.obey.iter().map(|signal| match signal {
        Signal::Robots => "<code>noindex</code> and <code>noai</code>",
        Signal::Tdm => "TDM reservations",
        Signal::ContentSignal => "<code>Content-Signal</code> and <code>Content-Usage</code>",
        Signal::Rsl => "RSL files",
    });
    let obeyed = obeyed.collect::<Vec<_>>().join(", ");
    let obeys = if obeyed.is_empty() {
        String::new()
    } else {
        format!("<li>It obeys {obeyed}.</li>\n")
    };
    write!(
        html,
        "<h2>What it does</h2>\n<ul>\n<li>It reads robots.txt first and obeys it (RFC 9309), with \
         <code>Crawl-delay</code>.</li>\n<li>It waits at least {pause} s between two requests to a \
         host, and longer if the host is slow.</li>\n{obeys}<li>It leaves when a server answers 429 or 503, for as long as \
         <code>Retry-After</code> says.</li>\n</ul>\n\
         <h2>How to keep it out</h2>\n<p>In <code>robots.txt</code>, for the whole site or a folder:</p>\n\
         <pre>User-agent: {name}\nDisallow: /</pre>\n\
         <p>To allow reading, but no use for training: <code>Content-Signal: ai-train=no</code>, in \
         robots.txt or as a header. To have something removed that it has collected, write to the \
         address above.</p>\n</body>\n</html>\n"
    )?;
    Ok(html)
}
