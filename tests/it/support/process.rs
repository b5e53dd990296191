//! The program as a process: its outputs and its exit code. Tests wait for it as long as it makes
//! progress.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a process may make no progress before a test gives up; a safeguard, not a measure. On a
/// busy machine a crawl takes many times as long as on an idle one.
pub const GUARD: Duration = Duration::from_secs(180);

/// The longest that a test waits for a process, even if that makes progress.
const LONGEST: Duration = Duration::from_secs(1_200);

/// The interval between two looks at a process.
const LOOK: Duration = Duration::from_millis(500);

/// Waits for a process as long as it prints something or uses the processor.
#[derive(Debug)]
struct Patience {
    id: nix::unistd::Pid,
    begun: Instant,
    moved: Instant,
    worked: u64,
}

impl Patience {
    /// The processor ticks that count as work. Even a process that only waits uses some: fewer than
    /// this within [`GUARD`].
    const WORK: u64 = 100;

    fn with(id: nix::unistd::Pid) -> Self {
        let now = Instant::now();
        Self {
            id,
            begun: now,
            moved: now,
            worked: worked(id),
        }
    }

    /// The next part of an output, or why there is none.
    fn next(&mut self, from: &Receiver<Vec<u8>>) -> Result<Vec<u8>, RecvTimeoutError> {
        loop {
            let part = from.recv_timeout(LOOK);
            match part {
                Ok(_) => self.moved = Instant::now(),
                Err(RecvTimeoutError::Timeout) if self.is_left() => continue,
                Err(_) => {}
            }
            return part;
        }
    }

    /// Whether to wait any longer.
    fn is_left(&mut self) -> bool {
        let worked = worked(self.id);
        if worked >= self.worked + Self::WORK {
            self.worked = worked;
            self.moved = Instant::now();
        }
        self.moved.elapsed() < GUARD && self.begun.elapsed() < LONGEST
    }
}

/// The processor time of a process so far, in ticks of 10 ms; 0 if the system does not report it.
fn worked(id: nix::unistd::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let after_name = status.rsplit_once(") ").map_or("", |(_, rest)| rest);
    // Fields 14 and 15 of proc(5); the third field is the first after the name.
    let times = after_name.split(' ').skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// The program with arguments, in an environment that does not change its output or its
/// connections. `SPOOR_PROGRAM` names another program than that of this build, for tests that run
/// longer than until the next build.
pub fn spoor(arguments: &[&str]) -> Command {
    let own = env!("CARGO_BIN_EXE_spoor").into();
    let program = std::env::var_os("SPOOR_PROGRAM").unwrap_or(own);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for name in [
        "SPOOR_LOG",
        "RUST_LOG",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ] {
        command.env_remove(name);
    }
    // If a defect would print a backtrace, the test must see it.
    command.env("RUST_BACKTRACE", "1");
    command
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Ran {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        Live::start(command).ended()
    }

    /// The standard output; the process must have succeeded.
    pub fn good(self) -> String {
        assert!(self.status.success(), "{self:#?}");
        self.out
    }

    /// The standard output of a crawl that was stopped in good order.
    pub fn stopped(self) -> String {
        assert!(matches!(self.status.code(), Some(130 | 143)), "{self:#?}");
        self.out
    }

    /// The standard error of a process that refused in good order: it failed, the job file is
    /// wrong, or another process has the job; with a message, but no panic and no backtrace.
    pub fn refused(self) -> String {
        assert!(matches!(self.status.code(), Some(1 | 5 | 6)), "{self:#?}");
        assert!(self.err.contains("spoor: "), "{self:#?}");
        for word in ["panicked", "backtrace", "RUST_BACKTRACE", "unwrap"] {
            assert!(!self.err.contains(word), "`{word}` in {self:#?}");
        }
        without_steps(&self.err)
    }
}

/// The output except for the steps and the progress of a crawl, whose lines begin with a time in
/// whole seconds; those of the log have fractions.
fn without_steps(err: &str) -> String {
    let is_step = |line: &&str| line.get(10..11) == Some("T") && line.get(19..21) == Some("Z ");
    let rest = err.split_inclusive('\n').filter(|line| !is_step(line));
    rest.collect()
}

/// A running process, which is killed when this is dropped.
#[derive(Debug)]
pub struct Live {
    child: Child,
    out: Receiver<Vec<u8>>,
    err: Receiver<Vec<u8>>,
    read: Vec<u8>,
    said: Vec<u8>,
}

impl Live {
    /// Starts a command with both outputs in pipes.
    pub fn start(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = pump(child.stdout.take().unwrap());
        let err = pump(child.stderr.take().unwrap());
        Self {
            child,
            out,
            err,
            read: Vec::new(),
            said: Vec::new(),
        }
    }

    /// Waits until it has printed these words on its standard error.
    pub fn says(&mut self, words: &str) {
        let mut patience = Patience::with(self.id());
        while !String::from_utf8_lossy(&self.said).contains(words) {
            match patience.next(&self.err) {
                Ok(part) => self.said.extend(part),
                Err(error) => {
                    let said = self.said();
                    panic!("never said {words:?} ({error}), but\n{said}")
                }
            }
        }
    }

    /// The rest of a complete line of its standard error after `mark`, as soon as it is there.
    pub fn says_after(&mut self, mark: &str) -> String {
        self.says(mark);
        let mut patience = Patience::with(self.id());
        loop {
            let text = String::from_utf8_lossy(&self.said).into_owned();
            let rest = text.split_once(mark).unwrap().1;
            match rest.split_once('\n') {
                Some((line, _)) => return line.to_owned(),
                None => self.said.extend(patience.next(&self.err).unwrap()),
            }
        }
    }

    /// Its standard error so far.
    pub fn said(&mut self) -> String {
        self.said.extend(self.err.try_iter().flatten());
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// The process id.
    pub fn id(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Sends a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(self.id(), signal).unwrap();
    }

    /// The first line of the standard output, as soon as it is there.
    pub fn first_line(&mut self) -> String {
        self.line_with("")
    }

    /// The rest of the first line with `mark`.
    pub fn line_with(&mut self, mark: &str) -> String {
        let line = self.try_line_with(mark);
        line.unwrap_or_else(|why| panic!("{why}"))
    }

    /// The same, or the reason why there is no such line.
    pub fn try_line_with(&mut self, mark: &str) -> Result<String, String> {
        let mut patience = Patience::with(self.id());
        loop {
            let last = self.read.iter().rposition(|b| *b == b'\n');
            let whole = last.map_or(0, |at| at + 1);
            let text = String::from_utf8(self.read[..whole].to_vec()).unwrap();
            let found = text.lines().find_map(|line| line.split_once(mark));
            if let Some((_, rest)) = found {
                return Ok(rest.to_owned());
            }
            match patience.next(&self.out) {
                Ok(part) => self.read.extend(part),
                Err(error) => {
                    let other = self.err.try_iter();
                    let other = other.map(|p| String::from_utf8_lossy(&p).into_owned());
                    return Err(format!(
                        "no line on standard output ({error}), but {:?}, and on the other {:?}",
                        String::from_utf8_lossy(&self.read),
                        other.collect::<String>()
                    ));
                }
            }
        }
    }

    /// Sends SIGKILL, and returns when the process is gone. False if it had already ended.
    pub fn kill(&mut self) -> bool {
        // If it ended between the two calls, there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().unwrap().code().is_none()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until `seen` is true or the process has ended, without using a whole core as a busy
    /// loop would. Changes shorter than a millisecond can be missed.
    pub fn wait_for(&mut self, mut seen: impl FnMut() -> bool) {
        const SOON: Duration = Duration::from_millis(1);
        let mut patience = Patience::with(self.id());
        while !seen() && !self.has_ended() {
            assert!(
                patience.is_left(),
                "the process does nothing and does not end"
            );
            match self.out.recv_timeout(SOON) {
                Ok(part) => self.read.extend(part),
                Err(RecvTimeoutError::Timeout) => {}
                // It has closed its output and is about to end.
                Err(RecvTimeoutError::Disconnected) => std::thread::yield_now(),
            }
        }
    }

    /// Waits until it ends by itself; returns also its peak memory in RAM, in KiB, without that of
    /// its own file.
    pub fn ended_with_peak(mut self) -> (Ran, u64) {
        const SOON: Duration = Duration::from_millis(20);
        let id = self.id().to_string();
        let mut patience = Patience::with(self.id());
        let mut peak = 0;
        loop {
            // The system keeps the peak, so nothing is missed between two looks. The mapped part of
            // the program's file only grows, so most of it is excluded.
            peak = peak_kib(&id)
                .zip(of_files_kib(&id))
                .map_or(peak, |(all, files)| all.saturating_sub(files));
            assert!(
                patience.is_left(),
                "the process does nothing and does not end"
            );
            match self.out.recv_timeout(SOON) {
                Ok(part) => self.read.extend(part),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return (self.ended(), peak),
            }
        }
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> Ran {
        let mut patience = Patience::with(self.id());
        let mut out = std::mem::take(&mut self.read);
        let mut err = std::mem::take(&mut self.said);
        let whole = collect(&self.out, &mut out, &mut patience)
            && collect(&self.err, &mut err, &mut patience);
        let [out, err] = [out, err].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(
            whole,
            "the process does nothing and does not end; it said\n{out}\n{err}"
        );
        Ran {
            status: self.child.wait().unwrap(),
            out,
            err,
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is the normal case.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn pump(mut from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads to the end; false if patience ended before that.
fn collect(from: &Receiver<Vec<u8>>, into: &mut Vec<u8>, patience: &mut Patience) -> bool {
    loop {
        match patience.next(from) {
            Ok(part) => into.extend(part),
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

/// The peak memory of a process (its id or `self`) in RAM so far, in KiB; `None` if it is gone.
pub fn peak_kib(id: &str) -> Option<u64> {
    status_kib(id, "VmHWM:")
}

/// The part of its memory in RAM that is mapped from files: 70 MB for a debug build alone, which
/// the system can reclaim.
fn of_files_kib(id: &str) -> Option<u64> {
    status_kib(id, "RssFile:")
}

fn status_kib(id: &str, key: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(key))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// The state of a process, such as `T` for a stopped one.
pub fn state(id: nix::unistd::Pid) -> char {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let after_name = status.rsplit_once(") ").unwrap().1;
    after_name.chars().next().unwrap()
}
