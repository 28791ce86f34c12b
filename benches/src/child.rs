//! Tries a solver on a matrix in a process of its own.
//!
//! The process is stopped when it takes too long, and how far its resident set grows is known to be
//! the solver's doing.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use luge_peers::{Matrix, Peer};
use serde::{Deserialize, Serialize};

use crate::results::Outcome;
use crate::systems::{Origin, Source};

/// What a trial finds out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Why the solver refused, if it did.
    pub refusal: Option<String>,
    /// Increase of the resident set during analysis and factorization, in bytes.
    pub resident: Option<u64>,
}

/// Tries `solver` on the matrix of `source` in a process of this program, whose `peers` takes `--child` and
/// `options`. The second value is the increase of its resident set.
pub fn try_apart(
    source: &Source,
    solver: &str,
    options: &[String],
    limit: f64,
) -> (Outcome, Option<u64>) {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            let reason = format!("this program is not found: {error}");
            return (Outcome::Failed { reason }, None);
        }
    };
    let mut command = Command::new(program);
    command.arg("peers").arg(format!("--child={solver}"));
    command.args(options);
    match &source.origin {
        Origin::File(path) => command.arg("--matrix").arg(path),
        Origin::SmallSignals(path, _) => command.arg("--complex").arg("--matrix").arg(path),
        Origin::Generator | Origin::Family(..) => command.arg(format!("--only={}", source.name)),
    };
    watch(command, limit)
}

/// Runs `command`, which must print a [`Trial`], for at most `limit` seconds. The second value is the
/// increase of its resident set.
pub fn watch(mut command: Command, limit: f64) -> (Outcome, Option<u64>) {
    let failed = |reason: String| (Outcome::Failed { reason }, None);
    let start = Instant::now();
    let spawned = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return failed(format!("no process for a trial: {error}")),
    };
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed().as_secs_f64() > limit => {
                // It may have ended in this moment; then there is nothing to stop.
                let _ = child.kill();
                let _ = child.wait();
                return (Outcome::TooSlow { seconds: limit }, None);
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => return failed(format!("the trial was lost: {error}")),
        }
    };
    let mut words = String::new();
    if let Some(mut output) = child.stdout.take()
        && let Err(error) = output.read_to_string(&mut words)
    {
        return failed(format!("the trial was lost: {error}"));
    }
    match serde_json::from_str::<Trial>(words.trim()) {
        Ok(Trial {
            refusal: None,
            resident,
        }) => (Outcome::Measured, resident),
        Ok(Trial {
            refusal: Some(reason),
            ..
        }) => failed(reason),
        Err(_) => failed(format!("the trial ended with {status}")),
    }
}

/// The trial itself: analyzes and factorizes a matrix.
pub fn attempt<T>(a: &Matrix<T>, peer: &mut dyn Peer<T>) -> Trial {
    give_back_freed_memory();
    // 5 sets the peak back to what is resident now (proc(5)); where that is not allowed, the peak may
    // be that of reading the matrix.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = resident("VmRSS");
    let done = peer.analyze(a).and_then(|()| peer.factorize(a));
    let peak = resident("VmHWM");
    Trial {
        refusal: done.err().map(|error| error.to_string()),
        resident: peak
            .zip(before)
            .map(|(peak, before)| peak.saturating_sub(before)),
    }
}

/// Bytes of this process, by the name that `/proc/self/status` uses.
fn resident(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// So that memory freed by the reader does not serve the solver unseen.
fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: a function of glibc that takes any padding and keeps all live allocations.
        unsafe { malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    use luge_peers::Structure;

    use super::*;

    fn shell(words: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", words]);
        command
    }

    #[test]
    fn a_trial_that_takes_too_long_is_stopped() {
        let start = Instant::now();
        let (outcome, _) = watch(shell("exec sleep 30"), 0.1);
        assert_eq!(outcome, Outcome::TooSlow { seconds: 0.1 });
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn trials_report() {
        let well = r#"echo '{"refusal":null,"resident":4096}'"#;
        assert_eq!(watch(shell(well), 10.0), (Outcome::Measured, Some(4096)));
        let refused = r#"echo '{"refusal":"singular","resident":0}'"#;
        let (outcome, _) = watch(shell(refused), 10.0);
        assert_eq!(
            outcome,
            Outcome::Failed {
                reason: "singular".to_owned()
            }
        );
    }

    #[test]
    fn a_crash_is_a_failure() {
        let (outcome, _) = watch(shell("kill -9 $$"), 10.0);
        let Outcome::Failed { reason } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(reason.contains("signal"), "{reason}");
    }

    #[test]
    fn memory_is_seen() {
        let source = Source::of_generator("gen_cdr2d_150").expect("it is there");
        let Some((_, found)) = luge_peers::Found::first() else {
            luge_testkit::corpus::skip_loudly(1, "no other solver is there");
            return;
        };
        let mut solver = found.solver(Structure::General, 1).expect("it takes them");
        let a = source.read_real().expect("it is made");
        let trial = attempt(&a, solver.as_mut());
        assert_eq!(trial.refusal, None);
        if let Some(bytes) = trial.resident {
            assert!(bytes > 1 << 20, "{bytes} bytes for 22,500 unknowns");
        }
    }
}
