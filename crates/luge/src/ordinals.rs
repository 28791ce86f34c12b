//! Which GPUs make up a group.

use serde::Serialize;

/// Numbers of GPUs of one host, as the driver counts them.
///
/// ```
/// use luge::Ordinals;
///
/// let two = Ordinals::of([2, 0]).unwrap();
/// assert_eq!(two.among(8), [0, 2]);
/// assert_eq!(Ordinals::ALL.among(3), [0, 1, 2]);
/// assert_eq!(Ordinals::of([64]), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub struct Ordinals(u64);

impl Ordinals {
    /// All that the driver sees.
    pub const ALL: Self = Self(u64::MAX);

    /// These devices; `None` if a number is above 63, or there is none.
    pub fn of(ordinals: impl IntoIterator<Item = usize>) -> Option<Self> {
        let bit = |ordinal| 1u64.checked_shl(u32::try_from(ordinal).ok()?);
        let mut ordinals = ordinals.into_iter();
        let set = ordinals.try_fold(0, |set, ordinal| Some(set | bit(ordinal)?))?;
        (set != 0).then_some(Self(set))
    }

    /// The numbers, ascending, where the driver sees `count` devices. That there is one of each number is not looked at, but
    /// for [`ALL`](Self::ALL).
    pub fn among(self, count: usize) -> Vec<usize> {
        let is_one = |&ordinal: &usize| self.0 >> ordinal & 1 != 0;
        let all = self == Self::ALL;
        (0..64)
            .filter(is_one)
            .filter(|&ordinal| !all || ordinal < count)
            .collect()
    }
}

/// `all`, or the numbers with commas between them.
impl std::fmt::Display for Ordinals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        let numbers: Vec<String> = self.among(64).iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl From<Ordinals> for String {
    fn from(ordinals: Ordinals) -> Self {
        ordinals.to_string()
    }
}

/// What [`Display`](std::fmt::Display) writes.
impl std::str::FromStr for Ordinals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::ALL);
        }
        let numbers = text.split(',').map(|number| number.trim().parse());
        let numbers: Result<Vec<usize>, _> = numbers.collect();
        let set = numbers.ok().and_then(Self::of);
        set.ok_or_else(|| "expected `all`, or numbers from 0 to 63 with commas between them".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for (text, among_four) in [
            ("all", &[0, 1, 2, 3][..]),
            ("0", &[0]),
            ("0,2", &[0, 2]),
            // That there is none is found out when it is opened.
            ("63", &[63]),
        ] {
            let ordinals: Ordinals = text.parse().unwrap();
            assert_eq!(ordinals.to_string(), text);
            assert_eq!(ordinals.among(4), among_four);
        }
        assert_eq!(" 3, 1 ,3".parse(), Ok(Ordinals::of([1, 3]).unwrap()));
        for text in ["", ",", "0,", "-1", "64", "0;1", "one"] {
            assert!(text.parse::<Ordinals>().is_err(), "{text}");
        }
        assert_eq!(Ordinals::of([]), None);
        let json = serde_json::to_string(&Ordinals::of([0, 5]).unwrap());
        assert_eq!(json.unwrap(), "\"0,5\"");
    }
}
