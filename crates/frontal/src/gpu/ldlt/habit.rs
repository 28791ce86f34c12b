//! When a refactorization of a symmetric matrix begins with a search.

/// Whether known pivots have served lately. A launch with pivots that do not serve is in vain, and so is a search for those that
/// do: after the first failure one refactorization begins with a search, after the next in a row 3, then 7 and 15.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Habit {
    /// Launches with known pivots that failed since one served.
    failures: u32,
    /// Refactorizations that begin with a search before known pivots are tried again.
    pub searches: u32,
}

impl Habit {
    /// That of factors of other values, which begin with a search, because known pivots failed or since that was the habit.
    pub fn after_search(self, has_changed: bool) -> Self {
        if !has_changed {
            return Self::default();
        }
        match self.searches {
            0 => {
                let failures = self.failures + 1;
                Self {
                    failures,
                    searches: (1 << failures.min(4)) - 1,
                }
            }
            searches => Self {
                searches: searches - 1,
                ..self
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many refactorizations begin with a search between trials of known pivots that fail.
    #[test]
    fn known_pivots_that_fail_are_tried_ever_less_often() {
        let mut habit = Habit::default();
        let mut searches = Vec::new();
        for _ in 0..6 {
            habit = habit.after_search(true);
            let mut count = 0;
            while habit.searches > 0 {
                habit = habit.after_search(true);
                count += 1;
            }
            searches.push(count);
        }
        assert_eq!(searches, [1, 3, 7, 15, 15, 15]);
        habit = habit.after_search(true);
        assert!(habit.searches > 0);
        // A search that changes nothing.
        let habit = habit.after_search(false);
        assert_eq!((habit.failures, habit.searches), (0, 0));
    }
}
