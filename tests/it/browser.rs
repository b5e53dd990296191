//! The page of `spoor annotate` in a real browser: headless Chromium, driven by chromedriver.
//! Skipped without chromedriver. Other tests of pages use the same browser.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use axum::http::Method;
use fantoccini::key::Key;
use fantoccini::wd::{TimeoutConfiguration, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

use super::annotate::{Door, HOSTILE, crawled, kept, serve};
use crate::support::process::GUARD;
use crate::support::{Job, Live};

const DRIVER: &str = "chromedriver";

/// A browser, and its driver, which ends when this is dropped.
pub struct Browser {
    pub client: Client,
    port: u16,
    _driver: Live,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub async fn open() -> Self {
        // chromedriver takes a port that is free for IPv6, and exits if another test has it for
        // IPv4.
        let mut tries = 0;
        let (driver, port) = loop {
            let mut driver = Live::start(Command::new(DRIVER).arg("--port=0"));
            match driver.try_line_with("started successfully on port ") {
                Ok(port) => break (driver, port),
                Err(why) if tries == 5 => panic!("{why}"),
                Err(_) => tries += 1,
            }
        };
        let port: u16 = port.trim_end_matches('.').parse().unwrap();
        let profile = tempfile::tempdir().unwrap();
        let options = json!({"args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--window-size=1280,800",
            format!("--user-data-dir={}", profile.path().display()),
        ]});
        let Value::Object(capabilities) = json!({
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }) else {
            unreachable!()
        };
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .unwrap();
        let patience = TimeoutConfiguration::new(Some(GUARD), None, None);
        client.update_timeouts(patience).await.unwrap();
        Self {
            client,
            port,
            _driver: driver,
            _profile: profile,
        }
    }

    /// Sets the width of a phone; a window cannot be that narrow.
    pub async fn be_a_phone(&self) {
        let metrics = json!({"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true});
        let command = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics});
        let command = Raw("goog/cdp/execute", command);
        self.client.issue_cmd(command).await.unwrap();
    }

    /// The browser's complaints since the last call: script errors, failed loads, and violations of
    /// the page's policy.
    pub async fn complaints(&self) -> Vec<String> {
        let command = Raw("se/log", json!({"type": "browser"}));
        let log = self.client.issue_cmd(command).await.unwrap();
        let rows = log.as_array().unwrap().iter();
        let bad =
            rows.filter(|row| ["SEVERE", "WARNING"].contains(&row["level"].as_str().unwrap()));
        bad.map(|row| row["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits until an expression is true in the page, and returns it.
    pub async fn until(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1]; const look = () => {{ \
             const value = ({expression}); if (value) done(value); \
             else requestAnimationFrame(look) }}; look()"
        );
        match self.client.execute_async(&script, vec![]).await {
            Ok(value) => value,
            Err(error) => panic!(
                "{expression}: {error}\n{}",
                self.client.source().await.unwrap()
            ),
        }
    }

    pub async fn goto(&self, url: &str) {
        self.client.goto(url).await.unwrap();
    }

    /// Waits for an element.
    pub async fn see(&self, css: &str) -> fantoccini::elements::Element {
        let wait = self
            .client
            .wait()
            .at_most(GUARD)
            .every(Duration::from_millis(20));
        match wait.for_element(Locator::Css(css)).await {
            Ok(element) => element,
            Err(error) => panic!("{css}: {error}\n{}", self.client.source().await.unwrap()),
        }
    }

    pub async fn click(&self, css: &str) {
        self.see(css).await.click().await.unwrap();
    }

    async fn press(&self, key: &str) {
        let body = self.see("body").await;
        body.send_keys(key).await.unwrap();
    }

    pub async fn js(&self, script: &str) -> Value {
        self.client.execute(script, vec![]).await.unwrap()
    }

    /// The image that the page asks about, once it is shown.
    async fn asked(&self, question: &str) -> String {
        let body = self.see(&ready(question)).await;
        body.attr("data-image").await.unwrap().unwrap()
    }

    /// The same for the next image, which differs from `last`.
    async fn asked_next(&self, question: &str, last: &str) -> String {
        let css = format!("{}:not([data-image='{last}'])", ready(question));
        self.see(&css).await;
        self.asked(question).await
    }
}

impl Drop for Browser {
    /// Closes the browser before its driver, even after a failed test: if the driver is killed, the
    /// browser stays.
    fn drop(&mut self) {
        let at = format!("127.0.0.1:{}", self.port);
        if let Ok(mut stream) = TcpStream::connect(&at) {
            let head = format!("GET /shutdown HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
            let asked = stream.write_all(head.as_bytes());
            asked
                .and_then(|()| stream.read_to_end(&mut Vec::new()))
                .ok();
        }
    }
}

/// A command that only this driver knows, and its parameters.
#[derive(Debug)]
struct Raw(&'static str, Value);

impl WebDriverCompatibleCommand for Raw {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/{}", self.0))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.1.to_string()))
    }
}

fn ready(question: &str) -> String {
    format!("body[data-view='ask'][data-ready][data-question='{question}']")
}

/// Whether a program is installed; if not, prints that the test is skipped.
pub fn installed(program: &str, packages: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed (Debian: {packages})");
    }
    found
}

/// The same for the programs that drive the browser.
pub fn can_browse() -> bool {
    installed(DRIVER, "chromium, chromium-driver")
}

#[test]
fn people_judge_images_in_a_browser() {
    if !can_browse() {
        return;
    }
    let job = crawled(4, "votes = 2");
    let (_live, to) = serve(&job, &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(judge(&job, to));
}

async fn judge(job: &Job, to: Door) {
    let browser = Browser::open().await;

    // The name first, then an image with its words, which are shown as text only.
    browser.goto(&to.link()).await;
    let name = browser.see("body[data-view='start'] #name").await;
    name.send_keys("ann").await.unwrap();
    browser.click("#name-form button").await;
    let first = browser.asked("image").await;
    let shown = browser
        .js("return document.getElementById('words').textContent")
        .await;
    let shown = shown.as_str().unwrap();
    assert!(HOSTILE.iter().any(|text| shown.contains(text)), "{shown}");
    let inert = "return [document.querySelectorAll('#words script, #words img, #words svg, \
                 #words a').length, document.title, document.querySelectorAll('script').length, \
                 document.getElementById('picture').naturalWidth]";
    assert_eq!(
        browser.js(inert).await,
        json!([0, "Judging images", 1, 320])
    );
    // Even an injected script would not run, and nothing loads from another origin.
    let policy = "const s = document.createElement('script'); s.textContent = \
                  \"document.title = 'owned'\"; document.body.append(s); s.remove(); \
                  return document.title";
    assert_eq!(browser.js(policy).await, "Judging images");

    // By keys, then undone, then by click.
    browser.press("2").await;
    assert_eq!(browser.asked("text").await, first);
    browser.press(&char::from(Key::Left).to_string()).await;
    let second = browser.asked_next("image", &first).await;
    browser.press("u").await;
    assert_eq!(browser.asked("text").await, first);
    browser.press(&char::from(Key::Backspace).to_string()).await;
    assert_eq!(browser.asked("image").await, first);
    assert_eq!(kept(job), []);
    browser.click("#answers button[value='on topic']").await;
    assert_eq!(browser.asked("text").await, first);
    browser.press(&char::from(Key::Up).to_string()).await;
    assert_eq!(browser.asked_next("image", &first).await, second);
    // A reloaded page continues where it was.
    browser.client.refresh().await.unwrap();
    assert_eq!(browser.asked("image").await, second);
    browser.press("4").await;
    assert_eq!(browser.asked("text").await, second);
    browser.click("#undo").await;
    assert_eq!(browser.asked("image").await, second);

    // A second person judges at the same time, on a phone.
    let other = Browser::open().await;
    other.be_a_phone().await;
    other.goto(&format!("{}&as=bob%20b", to.link())).await;
    let mut image = other.asked("image").await;
    let sizes = "return [innerWidth, document.documentElement.scrollWidth, \
                 [...document.querySelectorAll('#answers button, #undo')].every(b => { \
                 const r = b.getBoundingClientRect(); return r.height >= 44 && r.left >= 0 && \
                 r.right <= innerWidth && r.bottom <= innerHeight })]";
    assert_eq!(other.js(sizes).await, json!([390, 390, true]));
    for n in 0..4 {
        other.click("#answers button[value='related']").await;
        assert_eq!(other.asked("text").await, image);
        assert_eq!(other.js(sizes).await, json!([390, 390, true]));
        other.click("#answers button[value='misleading']").await;
        match n {
            3 => drop(other.see("body[data-view='end'][data-state='done']").await),
            _ => image = other.asked_next("image", &image).await,
        }
    }
    drop((other, browser));

    let votes = kept(job);
    let own = |who: &str| {
        let own = votes.iter().filter(|v| v.annotator == who);
        own.map(|v| v.answer.clone()).collect::<Vec<_>>()
    };
    assert_eq!(own("ann"), ["on topic", "describes"]);
    assert_eq!(own("bob b"), ["related", "misleading"].repeat(4));
    let record = job.folder().join("annotations/votes.jsonl");
    let lines = std::fs::read_to_string(&record).unwrap();
    assert_eq!(lines.matches("\"undo\":").count(), 3);
}
