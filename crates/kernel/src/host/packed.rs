//! PTX as it is packed before it is compressed, and back.
//!
//! Two things in PTX keep deflate from finding what repeats. Registers are numbered through each kernel, so that code which stands in
//! many places has other numbers in each; and images for two compute capabilities have most kernels in common, but farther apart
//! than deflate looks back. Hence:
//!
//! - The number of a register is replaced by the difference to the one before of its class: after `%rd7`, `%rd9` becomes `%rd2`, and
//!   another `%rd7` after that `%rd-2`. A class is the lower-case letters between `%` and digits. All start at 0, and again behind a `}`
//!   at the start of a line, so that a kernel is read without the others.
//! - An image may be a patch of another one, of which it takes runs of lines.
//!
//! The first line says which: `whole`, with the text behind it, or `patch SM`, where SM is the capability of the other image, which is
//! whole. Behind that come runs. `=SKIP COUNT` takes COUNT lines of the other image that begin SKIP lines (which may be negative)
//! after the end of the run taken before; `+COUNT` takes the COUNT lines that follow it. Both texts have differences for numbers here.
//!
//! `gpu-kernels/pack.rs` packs. Packed text comes out of a stream that has a checksum, but nothing is taken for granted here: what
//! is not of this form gives `None`.

use std::string::String;
use std::vec::Vec;

/// A packed image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packed<'a> {
    /// The text, with differences for numbers.
    Whole(&'a str),
    /// The runs of lines that turn the whole image for compute capability `base` into this one.
    Patch { base: u32, runs: &'a str },
}

impl<'a> Packed<'a> {
    /// Reads the first line.
    pub(super) fn parse(packed: &'a str) -> Option<Self> {
        let (head, rest) = packed.split_once('\n')?;
        if head == "whole" {
            return Some(Self::Whole(rest));
        }
        let base = head.strip_prefix("patch ")?.parse().ok()?;
        Some(Self::Patch { base, runs: rest })
    }
}

/// The text that `runs` makes of the text `base`, with differences as both have them.
pub(super) fn patched(base: &str, runs: &str) -> Option<String> {
    let base: Vec<&str> = base.split_inclusive('\n').collect();
    let mut text = String::new();
    let mut lines = runs.split_inclusive('\n');
    let mut end = 0_usize;
    while let Some(run) = lines.next() {
        let run = run.strip_suffix('\n')?;
        if let Some(count) = run.strip_prefix('+') {
            for _ in 0..count.parse::<usize>().ok()? {
                text.push_str(lines.next()?);
            }
        } else {
            let (skip, count) = run.strip_prefix('=')?.split_once(' ')?;
            let start = end.checked_add_signed(skip.parse().ok()?)?;
            end = start.checked_add(count.parse().ok()?)?;
            text.extend(base.get(start..end)?.iter().copied());
        }
    }
    Some(text)
}

/// The text with the numbers of registers in place of their differences, for a piece that begins where all numbers start at 0.
pub(super) fn numbered(text: &str) -> Option<String> {
    // Numbers are longer than differences, by a tenth of the whole.
    let mut numbered = Vec::with_capacity(text.len() + text.len() / 4);
    for function in text.split_inclusive("\n}") {
        push_numbered(&mut numbered, function.as_bytes())?;
    }
    // Only digits were exchanged.
    String::from_utf8(numbered).ok()
}

/// Appends what [`numbered`] makes of a text in which numbers start at 0 once.
fn push_numbered(numbered: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    // The number before, by class. There are few classes.
    let mut last: Vec<(&[u8], u64)> = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(percent) = text[at..].iter().position(|&byte| byte == b'%') {
        let class_start = at + percent + 1;
        let class_end = end_of(text, class_start, u8::is_ascii_lowercase);
        let negative = text.get(class_end) == Some(&b'-');
        let digits = class_end + usize::from(negative);
        at = end_of(text, digits, u8::is_ascii_digit);
        if class_start == class_end || digits == at {
            at = class_end;
            continue;
        }
        let mut difference = 0_u64;
        for digit in &text[digits..at] {
            difference = difference
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
        }
        let class = &text[class_start..class_end];
        let known = last.iter().position(|&(name, _)| name == class);
        let known = known.unwrap_or_else(|| {
            last.push((class, 0));
            last.len() - 1
        });
        let before = last[known].1;
        let number = if negative {
            before.checked_sub(difference)?
        } else {
            before.checked_add(difference)?
        };
        last[known].1 = number;
        numbered.extend_from_slice(&text[copied..class_end]);
        push_number(numbered, number);
        copied = at;
    }
    numbered.extend_from_slice(&text[copied..]);
    Some(())
}

/// The first place from `start` on that has no such byte.
fn end_of(text: &[u8], start: usize, such: impl Fn(&u8) -> bool) -> usize {
    let more = text[start..].iter().take_while(|&byte| such(byte));
    start + more.count()
}

/// Appends the decimal digits of a number.
fn push_number(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[first..]);
}
