//! Where and when a benchmark ran.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Operating system and architecture.
    pub system: String,
    /// GiB of memory.
    pub memory_gib: u64,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let field = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
        };
        let memory = field("/proc/meminfo", "MemTotal");
        let kib = memory.and_then(|m| m.split_whitespace().next()?.parse::<u64>().ok());
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            memory_gib: kib.unwrap_or(0).div_ceil(1 << 20),
        }
    }
}

/// Now, in universal time, as `2026-11-21T12:34:56Z`.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date_of(since.map_or(0, |since| since.as_secs()))
}

fn date_of(seconds: u64) -> String {
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!(
        "{year}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z",
        month + 1,
        days + 1
    )
}

/// The commit that is checked out here, with a mark if files differ from it.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let words = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| words.trim().to_owned())
    };
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        None => "unknown".to_owned(),
        Some(commit) => match git(&["status", "--porcelain", "--untracked-files=no"]) {
            Some(changes) if changes.is_empty() => commit,
            _ => format!("{commit}, with changes"),
        },
    }
}

/// The arguments of this program without the folders that files lie in.
pub fn command_without_folders(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let without = |argument: String| {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (format!("{option}="), value.to_owned()),
            None => (String::new(), argument),
        };
        let name = Path::new(&value).file_name();
        match name {
            Some(name) if value.contains('/') => format!("{option}{}", name.to_string_lossy()),
            _ => format!("{option}{value}"),
        }
    };
    arguments.map(without).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date_of(0), "1970-01-01T00:00:00Z");
        assert_eq!(date_of(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date_of(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date_of(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(date_of(1_795_248_000), "2026-11-21T08:00:00Z");
    }

    #[test]
    fn commands_lose_their_folders() {
        let words = [
            "/a/b/cpu",
            "--json",
            "out/r.json",
            "--library=klu=/x/libklu.so.1",
            "--kinds",
            "cfd",
        ];
        let without = command_without_folders(words.iter().map(|w| (*w).to_owned()));
        assert!(
            without.iter().all(|word| !word.contains('/')),
            "{without:?}"
        );
        assert_eq!(without[2], "r.json");
        assert_eq!(without[5], "cfd");
    }
}
