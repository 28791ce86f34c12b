//! Samples, means and ratios, as all benchmarks take them.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// One number out of many samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The median.
    Median,
    /// The minimum.
    Minimum,
}

/// The samples of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Seconds a call, in the order they were taken.
    pub seconds: Vec<f64>,
    /// Their median.
    pub median: f64,
    /// Their minimum.
    pub minimum: f64,
}

impl Samples {
    /// Of at least one sample.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub fn new(seconds: Vec<f64>) -> Self {
        assert!(!seconds.is_empty(), "a phase without a sample");
        let mut sorted = seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[half]
        } else {
            0.5 * (sorted[half - 1] + sorted[half])
        };
        Self {
            median,
            minimum: sorted[0],
            seconds,
        }
    }

    /// The range from the first to the third quarter of the samples, over the median.
    pub fn spread(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        (at(0.75) - at(0.25)) / self.median.max(f64::MIN_POSITIVE)
    }

    /// The number that ratios are made of.
    pub fn get(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Median => self.median,
            Statistic::Minimum => self.minimum,
        }
    }
}

/// `error`, or the largest number if it is none.
pub fn recordable(error: f64) -> f64 {
    if error.is_finite() { error } else { f64::MAX }
}

/// exp of the mean logarithm; `None` of nothing.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for ratio in ratios {
        sum += ratio.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// Ratios by matrix.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ratios {
    /// Name and ratio.
    pub of: Vec<(String, f64)>,
    /// Matrices that the peer solves and Luge refuses.
    pub refused: Vec<String>,
}

impl Ratios {
    /// Their geometric mean.
    pub fn mean(&self) -> Option<f64> {
        geometric_mean(self.of.iter().map(|(_, ratio)| *ratio))
    }

    /// The largest, with its matrix.
    pub fn largest(&self) -> Option<(&str, f64)> {
        let largest = self.of.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        largest.map(|(name, ratio)| (name.as_str(), *ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_minima() {
        let odd = Samples::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((odd.median, odd.minimum), (2.0, 1.0));
        let even = Samples::new(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((even.median, even.minimum), (2.5, 1.0));
        assert_eq!(even.seconds, [4.0, 1.0, 3.0, 2.0], "in their order");
        assert_eq!(even.get(Statistic::Median), 2.5);
        assert_eq!(even.get(Statistic::Minimum), 1.0);
        let five = Samples::new(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(five.spread(), 2.0 / 3.0);
        assert_eq!(Samples::new(vec![7.0]).spread(), 0.0);
    }

    #[test]
    fn what_json_cannot_say_is_recorded_all_the_same() {
        assert_eq!(recordable(f64::NAN), f64::MAX);
        assert_eq!(recordable(f64::INFINITY), f64::MAX);
        assert_eq!(recordable(1e-16), 1e-16);
    }
}
