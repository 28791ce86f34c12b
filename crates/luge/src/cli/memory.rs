//! How much memory the machine has left, so that what cannot fit is refused before it is begun.

use super::Failure;
use super::report::grouped;

/// Refuses `what` if it takes more bytes than the machine has left.
pub(crate) fn check(what: &str, bytes: u64) -> Result<(), Failure> {
    match available() {
        Some(left) if bytes > left => Err(Failure::bad_input(anyhow::anyhow!(
            "{what} needs {} bytes of memory, and {} are left",
            grouped(bytes),
            grouped(left)
        ))),
        _ => Ok(()),
    }
}

/// Bytes that are left on the machine and in the control group of the process, as far as Linux tells.
fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| of_meminfo(&text));
    let number = |path: &str| read(path)?.trim().parse::<u64>().ok();
    let most = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current");
    let group = most.zip(used).map(|(most, used)| most.saturating_sub(used));
    machine.into_iter().chain(group).min()
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn of_meminfo(text: &str) -> Option<u64> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read() {
        let text = "MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(of_meminfo(text), Some(20_480_000_000));
        assert_eq!(of_meminfo("MemTotal: 1 kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_fit_is_refused() {
        assert!(check("nothing", 0).is_ok());
        let refused = check("all", u64::MAX).expect_err("more than there is");
        assert_eq!(refused.code, 2);
    }
}
