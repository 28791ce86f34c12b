//! Packs PTX, so that a compressor makes less of it: `luge_kernel::host` has the form, and unpacks.

use std::collections::HashMap;
use std::fmt::Write;

/// As many lines in common make a run; fewer are not worth the line that tells of them.
const SHORTEST_RUN: usize = 2;

/// The packed form of an image that stands for itself.
pub fn whole(text: &str) -> Result<String, String> {
    Ok(format!("whole\n{}", differences(text)?))
}

/// The packed form of an image as a patch of another one, `base`, which is that for the compute capability `base_sm`.
pub fn patch(text: &str, base_sm: u32, base: &str) -> Result<String, String> {
    let (text, base) = (differences(text)?, differences(base)?);
    let text: Vec<&str> = text.split_inclusive('\n').collect();
    let base: Vec<&str> = base.split_inclusive('\n').collect();
    // Where lines like these begin in the base, for the last time.
    let mut begins = HashMap::new();
    for (start, lines) in base.windows(SHORTEST_RUN).enumerate() {
        begins.insert(lines, start);
    }
    let mut packed = format!("patch {base_sm}\n");
    // The end of the run before, in the text and in the base, and the line that has been reached.
    let (mut done, mut end, mut at) = (0, 0, 0);
    while at < text.len() {
        // Most patches replace lines one by one, so that the base goes on beside the text.
        let beside = end + (at - done);
        let known = text
            .get(at..at + SHORTEST_RUN)
            .and_then(|lines| begins.get(lines));
        let candidates = [Some(beside), known.copied()].into_iter().flatten();
        let (count, start) = candidates
            .map(|start| (common(&text[at..], base.get(start..).unwrap_or(&[])), start))
            .max_by_key(|&(count, start)| (count, start == beside))
            .unwrap_or_default();
        if count < SHORTEST_RUN {
            at += 1;
            continue;
        }
        push_own(&mut packed, &text[done..at]);
        let skip = start as i64 - end as i64;
        let _ = writeln!(packed, "={skip} {count}");
        at += count;
        (done, end) = (at, start + count);
    }
    push_own(&mut packed, &text[done..]);
    Ok(packed)
}

/// The text without lines that are comments, which no driver reads.
pub fn without_comments(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect()
}

/// How many lines both begin with.
fn common(a: &[&str], b: &[&str]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Appends a run of lines that the base does not have.
fn push_own(packed: &mut String, lines: &[&str]) {
    if !lines.is_empty() {
        let _ = writeln!(packed, "+{}", lines.len());
        packed.extend(lines.iter().copied());
    }
}

/// The text with numbers of registers replaced by the differences to those before, class by class and function by function.
fn differences(text: &str) -> Result<String, String> {
    let mut packed = String::with_capacity(text.len());
    for function in text.split_inclusive("\n}") {
        push_differences(&mut packed, function)?;
    }
    Ok(packed)
}

/// Appends the differences of one function.
fn push_differences(packed: &mut String, text: &str) -> Result<(), String> {
    let mut last: HashMap<&str, i64> = HashMap::new();
    let mut pieces = text.split('%');
    packed.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        packed.push('%');
        let letters = leading(piece, |byte| byte.is_ascii_lowercase());
        let (class, rest) = piece.split_at(letters);
        packed.push_str(class);
        if letters == 0 {
            packed.push_str(rest);
            continue;
        }
        let (digits, rest) = rest.split_at(leading(rest, |byte| byte.is_ascii_digit()));
        if !digits.is_empty() {
            let number: i64 = digits.parse().unwrap_or(-1);
            if number.to_string() != digits {
                return Err(format!("%{class}{digits} is no number of a register"));
            }
            let before = last.insert(class, number).unwrap_or(0);
            let _ = write!(packed, "{}", number - before);
        } else if rest.starts_with('-') {
            return Err(format!("%{class}- would be read as a difference"));
        }
        packed.push_str(rest);
    }
    Ok(())
}

/// How many bytes at the start are such.
fn leading(text: &str, such: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|&byte| such(byte)).count()
}
