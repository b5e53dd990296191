//! The program as a process: its two outputs, how it ended, and never longer
//! than the guard.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The longest that any process of a test may take; a guard, not a measure.
pub const GUARD: Duration = Duration::from_secs(90);

/// The program with arguments, in an environment that does not change what it
/// says or where it connects.
pub fn spoor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spoor"));
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
    // Where a defect would print a backtrace, it must not hide.
    command.env("RUST_BACKTRACE", "1");
    command
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ran {
    /// How.
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

    /// Its standard output, where it ended well.
    pub fn good(self) -> String {
        assert!(self.status.success(), "{self:#?}");
        self.out
    }

    /// The standard output of a crawl that was stopped in good order.
    pub fn stopped(self) -> String {
        assert!(matches!(self.status.code(), Some(130 | 143)), "{self:#?}");
        self.out
    }

    /// Its standard error, where it refused in good order: it failed, the job file is
    /// wrong, or another has the job; with a message, no panic and no backtrace.
    pub fn refused(self) -> String {
        assert!(matches!(self.status.code(), Some(1 | 5 | 6)), "{self:#?}");
        assert!(self.err.contains("spoor: "), "{self:#?}");
        for word in ["panicked", "backtrace", "RUST_BACKTRACE", "unwrap"] {
            assert!(!self.err.contains(word), "`{word}` in {self:#?}");
        }
        without_steps(&self.err)
    }
}

/// What was said besides the steps and the progress of a crawl, whose lines begin with a
/// time in whole seconds; those of the log have fractions of them.
fn without_steps(err: &str) -> String {
    let is_step = |line: &&str| line.get(10..11) == Some("T") && line.get(19..21) == Some("Z ");
    let rest = err.split_inclusive('\n').filter(|line| !is_step(line));
    rest.collect()
}

/// A process that runs. It is killed when this is dropped.
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

    /// Waits until it has said so on its standard error.
    pub fn says(&mut self, words: &str) {
        let deadline = Instant::now() + GUARD;
        while !String::from_utf8_lossy(&self.said).contains(words) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.err.recv_timeout(left) {
                Ok(part) => self.said.extend(part),
                Err(error) => {
                    let said = String::from_utf8_lossy(&self.said);
                    panic!("never said {words:?} ({error}), but\n{said}")
                }
            }
        }
    }

    /// What follows `mark` in a whole line of its standard error, as soon as it is there.
    pub fn says_after(&mut self, mark: &str) -> String {
        self.says(mark);
        loop {
            let text = String::from_utf8_lossy(&self.said).into_owned();
            let rest = text.split_once(mark).unwrap().1;
            match rest.split_once('\n') {
                Some((line, _)) => return line.to_owned(),
                None => self.said.extend(self.err.recv_timeout(GUARD).unwrap()),
            }
        }
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

    /// What follows `mark` in the first line that has it.
    pub fn line_with(&mut self, mark: &str) -> String {
        let deadline = Instant::now() + GUARD;
        loop {
            let last = self.read.iter().rposition(|b| *b == b'\n');
            let whole = last.map_or(0, |at| at + 1);
            let text = String::from_utf8(self.read[..whole].to_vec()).unwrap();
            let found = text.lines().find_map(|line| line.split_once(mark));
            if let Some((_, rest)) = found {
                return rest.to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.out.recv_timeout(left) {
                Ok(part) => self.read.extend(part),
                Err(error) => panic!(
                    "no line on standard output ({error}), but {:?}, and on the other {:?}",
                    String::from_utf8_lossy(&self.read),
                    self.err
                        .try_iter()
                        .map(|p| String::from_utf8_lossy(&p).into_owned())
                        .collect::<String>()
                ),
            }
        }
    }

    /// SIGKILL; returns when the process is gone. False where it had ended by
    /// itself before.
    pub fn kill(&mut self) -> bool {
        // It may have ended between the two calls, then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().unwrap().code().is_none()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends by itself; with the most memory that it had in RAM at any
    /// time, in KiB.
    pub fn ended_with_peak(mut self) -> (Ran, u64) {
        const LOOK: Duration = Duration::from_millis(20);
        let id = self.id().to_string();
        let deadline = Instant::now() + GUARD;
        let mut peak = 0;
        loop {
            // The system keeps the peak, so that nothing between two looks is missed.
            peak = peak_kib(&id).unwrap_or(peak);
            assert!(Instant::now() < deadline, "the process did not end in time");
            match self.out.recv_timeout(LOOK) {
                Ok(part) => self.read.extend(part),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return (self.ended(), peak),
            }
        }
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> Ran {
        let deadline = Instant::now() + GUARD;
        let mut out = std::mem::take(&mut self.read);
        let mut err = std::mem::take(&mut self.said);
        let whole =
            collect(&self.out, &mut out, deadline) && collect(&self.err, &mut err, deadline);
        let [out, err] = [out, err].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(
            whole,
            "the process did not end in time; it said\n{out}\n{err}"
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
        // Both fail where it has ended, which is how it should be.
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

/// Reads to the end; false where the deadline came first.
fn collect(from: &Receiver<Vec<u8>>, into: &mut Vec<u8>, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match from.recv_timeout(left) {
            Ok(part) => into.extend(part),
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

/// The most memory that a process, by its id or `self`, has had in RAM so far, in KiB;
/// `None` where it is gone.
pub fn peak_kib(id: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix(" kB")?.parse().ok()
}

/// The state of a process, as `T` for a stopped one.
pub fn state(id: nix::unistd::Pid) -> char {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let after_name = status.rsplit_once(") ").unwrap().1;
    after_name.chars().next().unwrap()
}
