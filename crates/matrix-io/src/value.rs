//! The four fields: how a value is read, mirrored, summed and written.
//!
//! Each field has two parsers. The *fast* one works on the bytes from a position on, stops at the
//! first byte that it does not understand, and answers `None` for whatever is not entirely plain. The
//! *careful* one gets the words of the line, and either understands them or says what is wrong with
//! which. Where the fast one answers, the careful one gives the same value.

use std::io::{self, Write};

use num_complex::Complex64;

use crate::error::{Located, Problem};
use crate::header::{Field, Symmetry};
use crate::token::{Token, Tokens, is_blank};

/// A value of an entry: `f64` or [`Complex64`]. Sealed.
pub trait Value: sealed::Value {}

impl Value for f64 {}
impl Value for Complex64 {}

pub(crate) mod sealed {
    use super::*;

    pub trait Value: Copy + Default {
        const FIELD: Field;

        /// The type in a header of NumPy.
        const NUMPY: &'static str;

        /// Sum of duplicates.
        fn plus(self, other: Self) -> Self;

        /// The value at (j, i) if `self` is the one at (i, j).
        fn mirrored(self, symmetry: Symmetry) -> Self;

        /// Whether this is a zero, which an array does not have to store.
        fn is_zero(self) -> bool;

        /// Whether this may stand on the diagonal of a hermitian matrix.
        fn is_real(self) -> bool;

        /// Equal, with NaN equal to itself.
        fn is_same(self, other: Self) -> bool;

        /// Adds the real part, then the imaginary one, as far as there are any.
        fn push_parts(self, parts: &mut Vec<f64>);

        /// Writes the value and what separates it from the position before.
        fn write(self, separator: &str, out: &mut impl Write) -> io::Result<()>;

        /// Writes the bytes of the value as NumPy has them.
        fn write_bytes(self, out: &mut impl Write) -> io::Result<()>;
    }
}

impl sealed::Value for f64 {
    const FIELD: Field = Field::Real;
    const NUMPY: &'static str = "<f8";

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn mirrored(self, symmetry: Symmetry) -> Self {
        match symmetry {
            Symmetry::SkewSymmetric => -self,
            _ => self,
        }
    }

    fn is_zero(self) -> bool {
        self == 0.0
    }

    fn is_real(self) -> bool {
        true
    }

    fn is_same(self, other: Self) -> bool {
        self == other || (self.is_nan() && other.is_nan())
    }

    fn push_parts(self, parts: &mut Vec<f64>) {
        parts.push(self);
    }

    fn write(self, separator: &str, out: &mut impl Write) -> io::Result<()> {
        out.write_all(separator.as_bytes())?;
        write_real(self, out)
    }

    fn write_bytes(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.to_le_bytes())
    }
}

impl sealed::Value for Complex64 {
    const FIELD: Field = Field::Complex;
    const NUMPY: &'static str = "<c16";

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn mirrored(self, symmetry: Symmetry) -> Self {
        match symmetry {
            Symmetry::SkewSymmetric => -self,
            Symmetry::Hermitian => self.conj(),
            Symmetry::General | Symmetry::Symmetric => self,
        }
    }

    fn is_zero(self) -> bool {
        self.re == 0.0 && self.im == 0.0
    }

    fn is_real(self) -> bool {
        self.im == 0.0
    }

    fn is_same(self, other: Self) -> bool {
        self.re.is_same(other.re) && self.im.is_same(other.im)
    }

    fn push_parts(self, parts: &mut Vec<f64>) {
        parts.extend([self.re, self.im]);
    }

    fn write(self, separator: &str, out: &mut impl Write) -> io::Result<()> {
        out.write_all(separator.as_bytes())?;
        write_real(self.re, out)?;
        out.write_all(b" ")?;
        write_real(self.im, out)
    }

    fn write_bytes(self, out: &mut impl Write) -> io::Result<()> {
        self.re.write_bytes(out)?;
        self.im.write_bytes(out)
    }
}

impl sealed::Value for () {
    const FIELD: Field = Field::Pattern;
    const NUMPY: &'static str = "|V0";

    fn plus(self, _: Self) -> Self {}

    fn mirrored(self, _: Symmetry) -> Self {}

    fn is_zero(self) -> bool {
        false
    }

    fn is_real(self) -> bool {
        true
    }

    fn is_same(self, _: Self) -> bool {
        true
    }

    fn push_parts(self, _: &mut Vec<f64>) {}

    fn write(self, _: &str, _: &mut impl Write) -> io::Result<()> {
        Ok(())
    }

    fn write_bytes(self, _: &mut impl Write) -> io::Result<()> {
        Ok(())
    }
}

/// How the values of a field are spelled.
pub(crate) trait Spelling {
    type Value: sealed::Value;

    /// Value that starts at or after `at`, and the position behind it.
    fn fast(bytes: &[u8], at: usize) -> Option<(Self::Value, usize)>;

    /// Value of the next words.
    fn careful(tokens: &mut Tokens<'_>) -> Result<Self::Value, Located>;
}

pub(crate) enum Real {}
pub(crate) enum Integer {}
pub(crate) enum Complex {}
pub(crate) enum Pattern {}

impl Spelling for Real {
    type Value = f64;

    #[inline]
    fn fast(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
        let at = skip_blanks(bytes, at);
        let (value, len) = fast_float2::parse_partial::<f64, _>(&bytes[at..]).ok()?;
        value.is_finite().then_some((value, at + len))
    }

    fn careful(tokens: &mut Tokens<'_>) -> Result<f64, Located> {
        real(tokens.next_or("value")?)
    }
}

impl Spelling for Integer {
    type Value = f64;

    #[inline]
    fn fast(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
        let at = skip_blanks(bytes, at);
        let negative = bytes.get(at) == Some(&b'-');
        let start = at + usize::from(negative);
        let (magnitude, end) = digits(bytes, start);
        // 15 digits are below 2^53.
        let exact = (1..=15).contains(&(end - start));
        let value = magnitude as f64;
        exact.then_some((if negative { -value } else { value }, end))
    }

    fn careful(tokens: &mut Tokens<'_>) -> Result<f64, Located> {
        integer(tokens.next_or("value")?)
    }
}

impl Spelling for Complex {
    type Value = Complex64;

    #[inline]
    fn fast(bytes: &[u8], at: usize) -> Option<(Complex64, usize)> {
        let (re, at) = Real::fast(bytes, at)?;
        if !bytes.get(at).copied().is_some_and(is_blank) {
            return None;
        }
        let (im, at) = Real::fast(bytes, at)?;
        Some((Complex64::new(re, im), at))
    }

    fn careful(tokens: &mut Tokens<'_>) -> Result<Complex64, Located> {
        let re = real(tokens.next_or("real part")?)?;
        let im = real(tokens.next_or("imaginary part")?)?;
        Ok(Complex64::new(re, im))
    }
}

impl Spelling for Pattern {
    type Value = ();

    #[inline]
    fn fast(_: &[u8], at: usize) -> Option<((), usize)> {
        Some(((), at))
    }

    fn careful(_: &mut Tokens<'_>) -> Result<(), Located> {
        Ok(())
    }
}

#[inline]
pub(crate) fn skip_blanks(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).copied().is_some_and(is_blank) {
        at += 1;
    }
    at
}

/// The number of the digits from `at` on, and the position behind them. Meaningless if there are more
/// than 19 digits, zero if there is none.
#[inline]
pub(crate) fn digits(bytes: &[u8], mut at: usize) -> (u64, usize) {
    let mut value = 0u64;
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')) {
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

/// An index from 1 to `bound`, as `0..bound`.
pub(crate) fn index(token: Token<'_>, axis: &'static str, bound: usize) -> Result<u32, Located> {
    let all_digits = token.bytes.iter().all(u8::is_ascii_digit);
    if !all_digits {
        return Err(token.problem(Problem::BadIndex));
    }
    let index = token.bytes.iter().fold(0u64, |index, digit| {
        index
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    if index == 0 {
        return Err(token.problem(|_| Problem::IndexZero(axis)));
    }
    if index > bound as u64 {
        return Err(token.problem(|_| Problem::IndexOutOfRange { axis, index, bound }));
    }
    // `bound` is a dimension, which fits 32 bits.
    Ok((index - 1) as u32)
}

/// A real number: decimal, with an exponent after e, E, d or D if any; or nan, inf, infinity.
fn real(token: Token<'_>) -> Result<f64, Located> {
    let bytes = token.bytes;
    let number = bytes.strip_prefix(b"+").unwrap_or(bytes);
    let signed_twice = number.len() < bytes.len() && matches!(number.first(), Some(b'+' | b'-'));
    let parsed = match fast_float2::parse::<f64, _>(number) {
        _ if signed_twice => None,
        Ok(value) => Some(value),
        Err(_) => {
            // Fortran's double precision exponent. No other number has a letter d.
            let fortran: Vec<u8> = number
                .iter()
                .map(|b| if matches!(b, b'd' | b'D') { b'e' } else { *b })
                .collect();
            fast_float2::parse::<f64, _>(&fortran).ok()
        }
    };
    match parsed {
        None => Err(token.problem(Problem::BadNumber)),
        Some(value) if value.is_infinite() && bytes.iter().any(u8::is_ascii_digit) => {
            Err(token.problem(Problem::NumberOverflow))
        }
        Some(value) => Ok(value),
    }
}

/// A whole number that an `f64` holds exactly.
pub(crate) fn integer(token: Token<'_>) -> Result<f64, Located> {
    let bytes = token.bytes;
    let magnitude = bytes
        .strip_prefix(b"-")
        .or_else(|| bytes.strip_prefix(b"+"))
        .unwrap_or(bytes);
    if magnitude.is_empty() || !magnitude.iter().all(u8::is_ascii_digit) {
        return Err(token.problem(Problem::NotAnInteger));
    }
    let exact = std::str::from_utf8(magnitude)
        .ok()
        .and_then(|text| text.parse::<u128>().ok())
        // Casts between u128 and f64 round or saturate, so only an exact one comes back the same;
        // u128::MAX does too, by saturation, though it has no exact f64.
        .filter(|&whole| whole < u128::MAX && (whole as f64) as u128 == whole);
    match exact {
        None => Err(token.problem(Problem::InexactInteger)),
        Some(whole) if bytes[0] == b'-' => Ok(-(whole as f64)),
        Some(whole) => Ok(whole as f64),
    }
}

/// Writes 17 significant digits without trailing zeros, which every correct reader turns back into
/// the same `f64`; as `%.17g` of C does.
fn write_real(value: f64, out: &mut impl Write) -> io::Result<()> {
    if value.is_nan() {
        return out.write_all(b"nan");
    }
    if value.is_infinite() {
        return out.write_all(if value > 0.0 { b"inf" } else { b"-inf" });
    }
    // "-d.dddddddddddddddde-308" has 24 bytes.
    let mut scientific = [0u8; 32];
    let free = {
        let mut cursor = &mut scientific[..];
        write!(cursor, "{value:.16e}")?;
        cursor.len()
    };
    let text = &scientific[..scientific.len() - free];
    let (sign, text) = match text {
        [b'-', rest @ ..] => (&b"-"[..], rest),
        _ => (&b""[..], text),
    };
    let e = text
        .iter()
        .position(|&b| b == b'e')
        .expect("the format has an exponent");
    let exponent: i32 = std::str::from_utf8(&text[e + 1..])
        .ok()
        .and_then(|digits| digits.parse().ok())
        .expect("the exponent is a small whole number");

    let mut significant = [0u8; 17];
    significant[0] = text[0];
    significant[1..].copy_from_slice(&text[2..e]);
    let kept = 17 - significant.iter().rev().take_while(|&&b| b == b'0').count();
    let significant = &significant[..kept.max(1)];

    out.write_all(sign)?;
    match exponent {
        0..17 => {
            let whole = exponent as usize + 1;
            if let Some((whole, fraction)) = significant.split_at_checked(whole) {
                out.write_all(whole)?;
                if !fraction.is_empty() {
                    out.write_all(b".")?;
                    out.write_all(fraction)?;
                }
                Ok(())
            } else {
                out.write_all(significant)?;
                out.write_all(&b"0000000000000000"[..whole - significant.len()])
            }
        }
        -4..0 => {
            // One zero before the point, and one behind it for each step below -1.
            out.write_all(&b"0.000"[..(1 - exponent) as usize])?;
            out.write_all(significant)
        }
        _ => {
            let (whole, fraction) = significant.split_at(1);
            out.write_all(whole)?;
            if !fraction.is_empty() {
                out.write_all(b".")?;
                out.write_all(fraction)?;
            }
            write!(out, "e{exponent}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_end_with_the_first_other_character() {
        for (text, expected) in [
            ("0123456789", (123_456_789, 10)),
            ("90:1", (90, 2)),
            ("90/1", (90, 2)),
            ("9 1", (9, 1)),
            ("-9", (0, 0)),
            ("", (0, 0)),
        ] {
            assert_eq!(digits(text.as_bytes(), 0), expected, "{text}");
        }
        assert_eq!(digits(b"19 28", 3), (28, 5));
    }
}
