//! Permutations of rows and columns.

use std::ops::Deref;

use smallvec::{SmallVec, smallvec};

use crate::etree;
use crate::index::{IndexOverflow, to_u32};

/// Why a vector is not a permutation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PermutationError {
    /// An entry is not below the length.
    #[error("entry {position} of the permutation is {value}, but its length is {len}")]
    OutOfRange {
        /// Where the entry stands.
        position: usize,
        /// The entry.
        value: usize,
        /// Length of the permutation.
        len: usize,
    },
    /// A value occurs twice.
    #[error(
        "value {value} occurs twice in the permutation, the second time at position {position}"
    )]
    Repeated {
        /// Position of the second occurrence.
        position: usize,
        /// The repeated value.
        value: usize,
    },
    /// The permutation is longer than 32-bit indices reach.
    #[error(transparent)]
    IndexOverflow(#[from] IndexOverflow),
}

/// A permutation of `0..len`, stored as the map **from new positions to old ones**.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation(Vec<u32>);

impl Permutation {
    /// The permutation that moves nothing.
    ///
    /// # Panics
    ///
    /// If `len` exceeds [`MAX_DIMENSION`](crate::MAX_DIMENSION).
    #[track_caller]
    pub fn identity(len: usize) -> Self {
        let len = to_u32(len, "length of the permutation").unwrap_or_else(|e| panic!("{e}"));
        Self((0..len).collect())
    }

    /// Checks that `new_to_old` is a permutation and takes it.
    ///
    /// # Errors
    ///
    /// [`PermutationError`] with the first entry that is out of range or repeated.
    pub fn new(new_to_old: Vec<u32>) -> Result<Self, PermutationError> {
        let len = new_to_old.len();
        to_u32(len, "length of the permutation")?;
        let mut seen: SmallVec<[bool; 64]> = smallvec![false; len];
        let seen = &mut seen[..];
        for (position, &value) in new_to_old.iter().enumerate() {
            let value = value as usize;
            match seen.get_mut(value) {
                None => {
                    return Err(PermutationError::OutOfRange {
                        position,
                        value,
                        len,
                    });
                }
                Some(true) => return Err(PermutationError::Repeated { position, value }),
                Some(slot) => *slot = true,
            }
        }
        Ok(Self(new_to_old))
    }

    /// Number of positions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The old position of each new one, as a vector.
    pub fn into_vec(self) -> Vec<u32> {
        self.0
    }

    /// The old position of each new one.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// The new position of each old one.
    pub fn inverse(&self) -> Vec<u32> {
        etree::inverse(&self.0)
    }

    /// Whether it takes an odd number of exchanges, so that its determinant is −1.
    pub fn is_odd(&self) -> bool {
        let mut seen = vec![false; self.len()];
        let mut odd = false;
        for start in 0..self.len() {
            let mut at = start;
            let mut length = 0;
            while !std::mem::replace(&mut seen[at], true) {
                at = self.as_slice()[at] as usize;
                length += 1;
            }
            odd ^= length > 0 && length % 2 == 0;
        }
        odd
    }

    /// First `self`, then `after`: position `i` of the result is old position `self[after[i]]`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[track_caller]
    pub fn then(&self, after: &Self) -> Self {
        assert_eq!(self.len(), after.len(), "permutations of different length");
        Self(after.0.iter().map(|&i| self.0[i as usize]).collect())
    }

    /// `gathered[new] = source[old]`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[track_caller]
    pub fn gather<T: Copy>(&self, source: &[T]) -> Vec<T> {
        assert_eq!(
            self.len(),
            source.len(),
            "vector and permutation differ in length"
        );
        self.0.iter().map(|&old| source[old as usize]).collect()
    }

    /// `scattered[old] = source[new]`, the inverse of [`gather`](Self::gather).
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[track_caller]
    pub fn scatter<T: Copy + Default>(&self, source: &[T]) -> Vec<T> {
        assert_eq!(
            self.len(),
            source.len(),
            "vector and permutation differ in length"
        );
        let mut scattered = vec![T::default(); source.len()];
        for (&old, &value) in self.0.iter().zip(source) {
            scattered[old as usize] = value;
        }
        scattered
    }
}

macro_rules! sided_permutation {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(pub Permutation);

        impl $name {
            /// The permutation that moves nothing. See [`Permutation::identity`].
            #[track_caller]
            pub fn identity(len: usize) -> Self {
                Self(Permutation::identity(len))
            }

            /// Checks and takes a map from new to old. See [`Permutation::new`].
            ///
            /// # Errors
            ///
            /// [`PermutationError`] with the first offending entry.
            pub fn new(new_to_old: Vec<u32>) -> Result<Self, PermutationError> {
                Permutation::new(new_to_old).map(Self)
            }
        }

        impl Deref for $name {
            type Target = Permutation;

            fn deref(&self) -> &Permutation {
                &self.0
            }
        }
    };
}

sided_permutation! {
    /// A permutation of rows: row `i` of the permuted matrix is row `perm[i]` of the original.
    RowPerm
}
sided_permutation! {
    /// A permutation of columns: column `j` of the permuted matrix is column `perm[j]` of the original.
    ColPerm
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bad_vectors_are_refused_with_the_place() {
        assert_eq!(
            Permutation::new(vec![0, 3, 1]),
            Err(PermutationError::OutOfRange {
                position: 1,
                value: 3,
                len: 3
            })
        );
        assert_eq!(
            Permutation::new(vec![2, 0, 2]),
            Err(PermutationError::Repeated {
                position: 2,
                value: 2
            })
        );
        assert!(Permutation::new(vec![]).unwrap().is_empty());
    }

    fn permutations() -> impl Strategy<Value = Permutation> {
        (0usize..60)
            .prop_flat_map(|n| Just((0..n as u32).collect::<Vec<_>>()).prop_shuffle())
            .prop_map(|v| Permutation::new(v).unwrap())
    }

    proptest! {
        #[test]
        fn inverse_undoes(p in permutations()) {
            let inverse = Permutation::new(p.inverse()).unwrap();
            prop_assert_eq!(p.then(&inverse), Permutation::identity(p.len()));
            let source: Vec<u32> = (100..100 + p.len() as u32).collect();
            prop_assert_eq!(p.scatter(&p.gather(&source)), source.clone());
            prop_assert_eq!(inverse.gather(&source), p.scatter(&source));
        }
    }
}
