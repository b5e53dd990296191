//! The parts of a long crawl: the endless web with a record of requests, samples of processes from
//! outside, and the final statistics.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plotters::prelude::*;
use spoor_lab::endless;

use super::spoor;
use super::wire::GRAIN;

/// The shortest time between two requests to a host, as in [`endless::job`].
const DELAY: Duration = Duration::from_millis(5);

/// The maximum number of too early requests that are kept as text.
const MOST_NAMED: usize = 20;

/// The endless web, served until this is dropped.
pub struct Endless {
    /// Its address.
    pub addr: SocketAddr,
    asked: Arc<AtomicU64>,
    hosts: Arc<Mutex<Hosts>>,
    served: Option<spoor_lab::Running>,
    runtime: tokio::runtime::Runtime,
}

/// The last request to each host. A request is recorded before its answer is sent, so a client that
/// waits for the answer and then pauses never seems too early, however slow this machine is.
#[derive(Default)]
struct Hosts {
    /// The end of the last request, and its path.
    last: HashMap<String, (Instant, String)>,
    wrong: Vec<String>,
}

impl Hosts {
    fn note(&mut self, request: &spoor_lab::Request) {
        let ended = request.at + request.elapsed;
        if let Some((before, path)) = self.last.get(&request.host) {
            let free = *before + DELAY;
            if request.at + GRAIN < free && self.wrong.len() < MOST_NAMED {
                let early = free - request.at;
                let (host, next) = (&request.host, &request.path);
                self.wrong
                    .push(format!("{host}: {next} {early:?} too early after {path}"));
            }
            if *before > ended {
                return;
            }
        }
        let note = (ended, request.path.clone());
        self.last.insert(request.host.clone(), note);
    }
}

impl Endless {
    /// Serves it. Calls `look` after each `every` page requests, with their number.
    pub fn serve(every: u64, look: impl Fn(u64) + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let hosts = Arc::new(Mutex::new(Hosts::default()));
        let (count, notes) = (Arc::clone(&asked), Arc::clone(&hosts));
        let lab = endless::web().with_observer(Arc::new(move |request: spoor_lab::Request| {
            if request.host.starts_with('h') {
                notes.lock().unwrap().note(&request);
            }
            if is_page(&request.path) {
                let asked = count.fetch_add(1, Ordering::Relaxed) + 1;
                if asked.is_multiple_of(every) {
                    look(asked);
                }
            }
        }));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let served = runtime.block_on(spoor_lab::spawn(lab, any)).unwrap();
        Self {
            addr: served.addr,
            asked,
            hosts,
            served: Some(served),
            runtime,
        }
    }

    /// The number of requests for pages.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// The first requests that came sooner than the host's pause after the previous one, or at the
    /// same time.
    pub fn too_close(&self) -> Vec<String> {
        self.hosts.lock().unwrap().wrong.clone()
    }

    /// Stops serving.
    pub fn stop(mut self) {
        if let Some(served) = self.served.take() {
            self.runtime.block_on(served.stop()).unwrap();
        }
    }
}

fn is_page(path: &str) -> bool {
    let folders = ["/go/", "/gone/", "/busy/"];
    path == "/" || path.ends_with(".html") || folders.iter().any(|f| path.starts_with(f))
}

/// `spoor crawl -v job.toml` in a folder, with this many open files permitted (`ulimit -n`). Its
/// output is appended to `crawl.out` and `crawl.err` there.
pub fn crawl(folder: &Path, files: &str) -> Command {
    let program = spoor(&[]);
    let mut command = Command::new("sh");
    let limited = format!("ulimit -n {files}; exec \"$0\" crawl -v job.toml");
    command.args(["-c", &limited]).arg(program.get_program());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = |name: &str| -> File {
        let mut open = OpenOptions::new();
        let file = open.create(true).append(true).open(folder.join(name));
        file.unwrap()
    };
    command
        .current_dir(folder)
        .stdin(std::process::Stdio::null())
        .stdout(output("crawl.out"))
        .stderr(output("crawl.err"));
    command
}

/// The state of a process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process {
    /// Memory in RAM, in KiB.
    pub rss: u64,
    /// Open files.
    pub files: u64,
    /// Threads.
    pub threads: u64,
}

impl Process {
    /// Samples a process; `None` if it is gone.
    pub fn of(id: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        Some(Self {
            rss: last_number(&status, "VmRSS:")?,
            threads: last_number(&status, "Threads:")?,
            files: std::fs::read_dir(format!("/proc/{id}/fd")).ok()?.count() as u64,
        })
    }
}

/// The number after the last `key` in a text.
pub fn last_number(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(key)?;
    let end = rest.trim_start().split(|c: char| !c.is_ascii_digit());
    end.take(1).next()?.parse().ok()
}

/// The number of files below a folder, and their bytes.
pub fn files_below(folder: &Path) -> (u64, u64) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_below(&entry.path()),
        // It may have been removed in the meantime.
        _ => (1, entry.metadata().map_or(0, |data| data.len())),
    });
    sizes.fold((0, 0), |(files, bytes), (f, b)| (files + f, bytes + b))
}

/// The median of a figure over a quarter of a crawl, 1 to 4.
pub fn median<T>(samples: &[T], quarter: usize, of: impl Fn(&T) -> u64) -> u64 {
    let length = samples.len() / 4;
    let mut values: Vec<u64> = samples[(quarter - 1) * length..quarter * length]
        .iter()
        .map(of)
        .collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// The maximum of a figure over a whole crawl.
pub fn most<T>(samples: &[T], of: impl Fn(&T) -> u64) -> u64 {
    samples.iter().map(of).max().unwrap()
}

/// A curve over the fetches: its name, and the points.
pub type Line<'a> = (&'a str, Vec<(u64, f64)>);

/// Draws two curves over the fetches, each with its own axis.
pub fn draw(file: &Path, left: &Line<'_>, right: &Line<'_>) -> Result<(), DrawError> {
    let last = left.1.last().map_or(1, |(fetches, _)| *fetches);
    let above = |line: &Line<'_>, times: f64| {
        let most = line.1.iter().map(|(_, value)| *value).fold(1.0, f64::max);
        0.0..most * times
    };
    let root = SVGBackend::new(file, (900, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .right_y_label_area_size(60)
        .build_cartesian_2d(0..last, above(left, 1.2))?
        .set_secondary_coord(0..last, above(right, 2.0));
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE)
        .x_desc("fetches")
        .y_desc(left.0)
        .draw()?;
    chart.configure_secondary_axes().y_desc(right.0).draw()?;
    chart
        .draw_series(LineSeries::new(left.1.iter().copied(), &BLUE))?
        .label(left.0)
        .legend(legend(BLUE));
    chart
        .draw_secondary_series(LineSeries::new(right.1.iter().copied(), &RED))?
        .label(right.0)
        .legend(legend(RED));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

/// Why nothing is drawn.
pub type DrawError = Box<dyn std::error::Error>;

fn legend(colour: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour)
}

#[test]
fn requests_that_come_too_soon_are_noted() {
    let zero = Instant::now();
    let ms = Duration::from_millis;
    let request = |at: u64, elapsed: u64, path: &str| spoor_lab::Request {
        at: zero + ms(at),
        elapsed: ms(elapsed),
        host: "h1.test".to_owned(),
        path: path.to_owned(),
        method: "GET".to_owned(),
        agent: String::new(),
        status: Some(200),
    };
    let wrong = |requests: &[spoor_lab::Request]| {
        let mut hosts = Hosts::default();
        requests.iter().for_each(|request| hosts.note(request));
        hosts.wrong
    };
    let fine = [
        request(0, 3, "/a"),
        request(8, 3, "/b"),
        request(16, 1, "/c"),
    ];
    assert_eq!(wrong(&fine), Vec::<String>::new());
    let soon = wrong(&[request(0, 3, "/a"), request(5, 1, "/b")]);
    assert_eq!(soon, ["h1.test: /b 3ms too early after /a"]);
    // The request that began first was answered last.
    let at_once = wrong(&[request(2, 1, "/b"), request(0, 9, "/a")]);
    assert_eq!(at_once.len(), 1, "{at_once:?}");
}
