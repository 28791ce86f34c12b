//! The copy of the workspace that slips are made in.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::list::SLIPS;
use super::{SWITCH, Slip};
use crate::copy::{copy_tree, write_changed};
use crate::workspace::Workspace;

/// Slips that are compiled together, and those that do not apply, with the reason.
pub(super) type Rounds = (Vec<Vec<usize>>, Vec<(usize, String)>);

/// Where a slip is in the text of its file.
///
/// # Errors
///
/// If its text does not occur there once.
pub(super) fn place(slip: &Slip, text: &str) -> Result<Range<usize>, String> {
    let once = |text: &str, part: &str| {
        let mut found = text.match_indices(part);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            (None, _) => Err(format!("{} does not contain `{part}`", slip.file)),
            (Some(_), Some(_)) => Err(format!("{} contains `{part}` more than once", slip.file)),
        }
    };
    let begin = once(text, slip.within)? + once(slip.within, slip.old)?;
    Ok(begin..begin + slip.old.len())
}

/// Deals slips out to rounds in which no two overlap.
///
/// # Errors
///
/// If a file that exists cannot be read.
pub(super) fn rounds(kernels: &Path, chosen: &[usize]) -> Result<Rounds> {
    let mut rounds: Vec<Vec<(usize, Range<usize>)>> = Vec::new();
    let mut stale = Vec::new();
    for &number in chosen {
        let slip = &SLIPS[number];
        let path = kernels.join(slip.file);
        if !path.exists() {
            stale.push((number, format!("there is no file {}", slip.file)));
            continue;
        }
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let range = match place(slip, &text) {
            Ok(range) => range,
            Err(reason) => {
                stale.push((number, reason));
                continue;
            }
        };
        let is_free = |round: &Vec<(usize, Range<usize>)>| {
            round.iter().all(|(other, taken)| {
                SLIPS[*other].file != slip.file
                    || taken.end <= range.start
                    || range.end <= taken.start
            })
        };
        match rounds.iter_mut().find(|round| is_free(round)) {
            Some(round) => round.push((number, range)),
            None => rounds.push(vec![(number, range)]),
        }
    }
    let numbers = |round: Vec<(usize, Range<usize>)>| round.into_iter().map(|(n, _)| n).collect();
    Ok((rounds.into_iter().map(numbers).collect(), stale))
}

/// The text of a file with these slips of it, each behind its switch.
fn switched(text: &str, slips: &[usize]) -> Result<String, String> {
    let mut places = Vec::new();
    for &number in slips {
        places.push((place(&SLIPS[number], text)?, number));
    }
    places.sort_by_key(|(range, _)| range.start);
    let mut result = String::with_capacity(2 * text.len());
    let mut at = 0;
    for (range, number) in places {
        let Slip { old, new, .. } = SLIPS[number];
        let choice = format!("if crate::slips::is_made({number}) {{ {new} }} else {{ {old} }}");
        result.push_str(&text[at..range.start]);
        if old.ends_with([';', '}']) {
            result.push_str(&choice);
        } else {
            result.push_str(&format!("({choice})"));
        }
        at = range.end;
    }
    result.push_str(&text[at..]);
    Ok(result)
}

/// What the crate of the kernels gets beside its modules.
fn switch() -> String {
    format!(
        r#"
mod slips {{
    extern crate std;
    static MADE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    #[inline]
    pub(crate) fn is_made(number: u32) -> bool {{
        let made = || std::env::var("{SWITCH}").ok().and_then(|v| v.parse().ok());
        *MADE.get_or_init(|| made().unwrap_or(u32::MAX)) == number
    }}
}}
"#
    )
}

/// Copies the workspace to the target folder, with these slips; the folder of the copy.
///
/// # Errors
///
/// If a file cannot be read or written.
pub(super) fn copy(workspace: &Workspace, round: &[usize]) -> Result<PathBuf> {
    let tree = workspace.target.join("slips/tree");
    let changed: BTreeSet<String> = round
        .iter()
        .map(|&number| SLIPS[number].file)
        .chain(["lib.rs"])
        .map(|file| format!("{KERNELS}/{file}"))
        .collect();
    copy_tree(&workspace.root, &tree, |file| !changed.contains(file))?;
    for file in &changed {
        let path = workspace.root.join(file);
        let mut text = fs::read_to_string(&path)
            .with_context(|| format!("{} cannot be read", path.display()))?;
        let kernel = &file[KERNELS.len() + 1..];
        let slips: Vec<usize> = round
            .iter()
            .copied()
            .filter(|&number| SLIPS[number].file == kernel)
            .collect();
        text = switched(&text, &slips).map_err(anyhow::Error::msg)?;
        if kernel == "lib.rs" {
            text = format!("#![allow(unused_parens)]\n{text}{}", switch());
        }
        write_changed(&tree.join(file), text.as_bytes())?;
    }
    Ok(tree)
}

/// Where the kernels are.
const KERNELS: &str = "gpu-kernels/src";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slip_applies() {
        let kernels = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu-kernels/src"));
        let all: Vec<usize> = (0..SLIPS.len()).collect();
        let (rounds, stale) = rounds(kernels, &all).unwrap();
        let reasons: Vec<_> = stale
            .iter()
            .map(|(number, reason)| format!("{}: {reason}", SLIPS[*number].name))
            .collect();
        assert!(reasons.is_empty(), "{}", reasons.join("\n"));
        assert_eq!(rounds.iter().map(Vec::len).sum::<usize>(), SLIPS.len());
        let mut names = BTreeSet::new();
        let twice: Vec<_> = SLIPS
            .iter()
            .map(|slip| slip.name)
            .filter(|name| !names.insert(*name))
            .collect();
        assert!(twice.is_empty(), "two slips have one name: {twice:?}");
    }

    #[test]
    fn what_slips_leave_is_rust() {
        let kernels = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu-kernels/src"));
        let all: Vec<usize> = (0..SLIPS.len()).collect();
        let mut wrong = Vec::new();
        for round in rounds(kernels, &all).unwrap().0 {
            let files: BTreeSet<&str> = round.iter().map(|&number| SLIPS[number].file).collect();
            for file in files {
                let of_file = |number: &usize| SLIPS[*number].file == file;
                let slips: Vec<usize> = round.iter().copied().filter(of_file).collect();
                let text = fs::read_to_string(kernels.join(file)).unwrap();
                // One by one, so that the slip is named that does not go with its text.
                for slip in slips {
                    let text = switched(&text, &[slip]).unwrap();
                    if let Err(error) = syn::parse_file(&text) {
                        wrong.push(format!("{}: {error}", SLIPS[slip].name));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    fn slip(within: &'static str, old: &'static str) -> Slip {
        Slip {
            name: "",
            file: "file.rs",
            within,
            old,
            new: "",
            tests: ("", &[]),
            why: "",
            equivalent: None,
        }
    }

    #[test]
    fn a_slip_is_found_where_its_text_is_once() {
        let text = "a + b; a + c;";
        assert_eq!(place(&slip("a + c", "a"), text), Ok(7..8));
        assert!(place(&slip("a + d", "a"), text).is_err());
        assert!(place(&slip("a + ", "a"), text).is_err());
        assert!(place(&slip("a + c", "b"), text).is_err());
    }
}
