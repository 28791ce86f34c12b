//! Reading PTX: its entry points, and what must not be in it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// The entry points of a PTX text, each with the types of its parameters in order (`u32`, `f64`;
/// a pointer is a `u64`, a complex number `align 8 b8[16]`).
pub type Entries = BTreeMap<String, Vec<String>>;

/// The start of the comment by which `#[kernel]` hands launch bounds to `apply_launch_bounds`.
const BOUNDS_MARK: &str = "// luge-kernel ";

/// Turns the launch bounds that `#[kernel]` left as comments
/// (`// luge-kernel <entry> max_threads=<n> min_blocks=<m>`) into the directives `.maxntid` and
/// `.minnctapersm` of their entry points, which rustc has no attribute for.
///
/// With them ptxas gives no kernel more registers than its largest block can have.
pub fn apply_launch_bounds(ptx: &str) -> Result<String> {
    let mut bounds = BTreeMap::new();
    let mut text = String::with_capacity(ptx.len());
    for line in ptx.lines() {
        if let Some(mark) = line.trim_start().strip_prefix(BOUNDS_MARK) {
            let (entry, directives) = parse_bounds(mark)
                .with_context(|| format!("launch bounds that nobody wrote: {line}"))?;
            bounds.insert(entry, directives);
        } else {
            text += line.trim_end();
            text.push('\n');
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut entry = None;
    for line in text.lines() {
        if let Some(name) = entry_name(line) {
            entry = Some(name.to_owned());
        }
        // The directives stand between the parameters and the body.
        if line == "{"
            && let Some(directives) = entry.take().and_then(|name| bounds.remove(&name))
        {
            out += &directives;
        }
        out += line;
        out.push('\n');
    }
    if let Some(name) = bounds.keys().next() {
        bail!("launch bounds for {name}, which is no entry point");
    }
    Ok(out)
}

fn parse_bounds(mark: &str) -> Option<(String, String)> {
    let mut words = mark.split_whitespace();
    let entry = words.next()?.to_owned();
    let max_threads: u32 = words.next()?.strip_prefix("max_threads=")?.parse().ok()?;
    let min_blocks: u32 = words.next()?.strip_prefix("min_blocks=")?.parse().ok()?;
    let mut directives = format!(".maxntid {max_threads}, 1, 1\n");
    if min_blocks > 0 {
        directives += &format!(".minnctapersm {min_blocks}\n");
    }
    Some((entry, directives))
}

fn entry_name(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix(".visible .entry ")?;
    Some(rest.split(['(', ' ']).next().unwrap_or(rest))
}

/// The text without the entry points whose names are not `wanted`.
pub fn only(ptx: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut left = String::new();
    let (mut within, mut is_wanted) = (false, true);
    for line in ptx.split_inclusive('\n') {
        if let Some(name) = entry_name(line) {
            (within, is_wanted) = (true, wanted(name));
        }
        if is_wanted {
            left += line;
        }
        if within && line.starts_with('}') {
            (within, is_wanted) = (false, true);
        }
    }
    left
}

/// The entry points of `ptx`.
pub fn entries(ptx: &str) -> Entries {
    let mut entries = Entries::new();
    let mut current: Option<(String, Vec<String>)> = None;
    for line in ptx.lines() {
        if let Some(name) = entry_name(line) {
            current = Some((name.to_owned(), Vec::new()));
        } else if let Some((_, params)) = &mut current
            && let Some(param) = line.trim_start().strip_prefix(".param .")
        {
            params.push(parameter_type(param));
        }
        if line.trim_start().starts_with('{') || line.trim_end().ends_with("()") {
            entries.extend(current.take());
        }
    }
    entries
}

/// The type in `u32 name,`, `u64 .ptr .align 1 name,` or `align 8 .b8 name[16],`.
fn parameter_type(param: &str) -> String {
    let mut words = param.split_whitespace();
    let first = words.next().unwrap_or_default();
    let bytes = param
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    match (bytes, words.next()) {
        (Some((bytes, _)), Some(alignment)) => format!("{first} {alignment} b8[{bytes}]"),
        _ => first.to_owned(),
    }
}

/// What a shipped image must not contain, each as a message.
///
/// A kernel has nobody to call: everything is inlined, and a panic is a `trap`. A function left
/// over is formatting code of a panic, or a device function without `#[inline(always)]`, whose
/// handles would lose their address space.
pub fn leftovers(ptx: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in ptx.lines() {
        let line = line.trim();
        let declares = line.starts_with(".func")
            || line.starts_with(".visible .func")
            || line.starts_with(".extern .func")
            || line.starts_with(".weak .func");
        if declares {
            found.push(format!("a function that is not a kernel: {line}"));
        }
    }
    found
}

/// How `other` differs from `expected`, each difference a message.
pub fn differences(expected: &Entries, other: &Entries) -> Vec<String> {
    let mut found = Vec::new();
    for (name, params) in expected {
        match other.get(name) {
            None => found.push(format!("{name} is missing")),
            Some(found_params) if found_params != params => found.push(format!(
                "{name} takes ({}) instead of ({})",
                found_params.join(", "),
                params.join(", ")
            )),
            Some(_) => {}
        }
    }
    for name in other.keys().filter(|name| !expected.contains_key(*name)) {
        found.push(format!("{name} is new"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 7.8
// luge-kernel a max_threads=256 min_blocks=0
// luge-kernel b max_threads=1024 min_blocks=2
.visible .entry a(
\t.param .u32 a_param_0,
\t.param .align 8 .b8 a_param_1[16],
\t.param .u64 .ptr .align 1 a_param_2
)
{
\tret;
}
.visible .entry b()
{
\t{ .reg .pred %p; }
\tret;
}
";

    #[test]
    fn entries_have_their_parameters() {
        let expected = Entries::from([
            (
                "a".to_owned(),
                vec!["u32".into(), "align 8 b8[16]".into(), "u64".into()],
            ),
            ("b".to_owned(), vec![]),
        ]);
        assert_eq!(entries(PTX), expected);
        assert_eq!(entries(&apply_launch_bounds(PTX).unwrap()), expected);
    }

    #[test]
    fn wanted_entries_are_left() {
        let text = apply_launch_bounds(PTX).unwrap();
        let [a, b] = ["a", "b"].map(|wanted| only(&text, |name| name == wanted));
        assert_eq!(entries(&a).into_keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(entries(&b).into_keys().collect::<Vec<_>>(), ["b"]);
        for left in [&a, &b] {
            assert!(left.starts_with(".version 7.8\n"), "{left}");
        }
        assert!(a.contains("a_param_2") && !a.contains("%p"), "{a}");
        assert!(!b.contains("a_param_2") && b.contains("%p"), "{b}");
        assert_eq!(a.len() + b.len(), text.len() + ".version 7.8\n".len());
        assert_eq!(only(&text, |_| true), text);
        assert_eq!(only(&text, |_| false), ".version 7.8\n");
    }

    #[test]
    fn launch_bounds_become_directives() {
        let out = apply_launch_bounds(PTX).unwrap();
        assert!(out.contains("a_param_2\n)\n.maxntid 256, 1, 1\n{"), "{out}");
        assert!(
            out.contains(".entry b()\n.maxntid 1024, 1, 1\n.minnctapersm 2\n{"),
            "{out}"
        );
        assert!(!out.contains("luge-kernel"), "{out}");
    }

    #[test]
    fn launch_bounds_without_their_kernel_are_refused() {
        assert!(apply_launch_bounds("// luge-kernel c max_threads=1 min_blocks=0\n").is_err());
        assert!(apply_launch_bounds("// luge-kernel a max_threads=many\n").is_err());
    }

    #[test]
    fn functions_are_leftovers() {
        assert!(leftovers(PTX).is_empty());
        let with = format!("{PTX}.extern .func vprintf(\n.func (.param .b32 r) f(\n");
        assert_eq!(leftovers(&with).len(), 2);
    }

    #[test]
    fn differences_name_each_entry() {
        let a = entries(PTX);
        assert!(differences(&a, &a).is_empty());
        let mut b = a.clone();
        b.insert("b".into(), vec!["f64".into()]);
        b.insert("c".into(), vec![]);
        b.remove("a");
        assert_eq!(
            differences(&a, &b),
            ["a is missing", "b takes (f64) instead of ()", "c is new"]
        );
    }
}
