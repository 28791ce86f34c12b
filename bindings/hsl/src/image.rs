//! What is written to KEEP, IFACT and FACT: all that it takes to find a system again, or to make it anew.
//!
//! ```text
//! KEEP, IFACT   | head, 16 integers | IRN | JCN | permutation, if ICNTL(6) = 1 |
//! FACT          | head, 8 reals     | A   |
//! ```
//!
//! A head has a number that no other array starts with, the number of the system, and a checksum of what follows. So arrays may
//! be moved or copied by their owner, and one that was not written here, or was written over, is noticed.

use luge::ColPerm;

use crate::controls::{Numeric, Order};
use crate::failure::Failure;
use crate::triplets::{Survey, Triangle};

/// Integers before IRN.
const INTEGER_HEAD: usize = 16;

/// Reals before A.
const REAL_HEAD: usize = 8;

const INTEGER_MAGIC: u64 = 0x6c75_6765_6d61_3537;
const REAL_MAGIC: u64 = 0x6c75_6765_4641_4354;

/// A pattern by triplets whose indices count from 1, and how it is ordered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern<'a> {
    pub n: usize,
    pub irn: &'a [i32],
    pub jcn: &'a [i32],
    pub order: Order,
    /// The position of each row in the order, from 1; empty but for [`Order::Given`].
    pub position: &'a [i32],
}

/// Integers that the pattern of a matrix takes, a permutation included where one is given.
pub(crate) fn integers(n: usize, ne: usize, order: Order) -> usize {
    let permutation = if order == Order::Given { n } else { 0 };
    INTEGER_HEAD + 2 * ne + permutation
}

/// Reals that the values of a matrix take.
pub(crate) fn reals(ne: usize) -> usize {
    REAL_HEAD + ne
}

fn halves(number: u64) -> [i32; 2] {
    [number as u32 as i32, (number >> 32) as u32 as i32]
}

fn whole(halves: &[i32]) -> u64 {
    u64::from(halves[0] as u32) | u64::from(halves[1] as u32) << 32
}

/// FNV-1a, word by word.
fn checksum(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ word).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Of all but itself.
fn checksum_of_integers(head: &[i32], body: &[i32]) -> u64 {
    let integers = head[..4].iter().chain(&head[6..]).chain(body);
    checksum(integers.map(|&v| u64::from(v as u32)))
}

/// Of all but itself.
fn checksum_of_reals(head: &[f64], body: &[f64]) -> u64 {
    let reals = head[..4].iter().chain(&head[5..]).chain(body);
    checksum(reals.map(|v| v.to_bits()))
}

impl<'a> Pattern<'a> {
    /// Writes the pattern of the system `id` to the front of `to`, which is long enough.
    pub(crate) fn write(&self, id: u64, to: &mut [i32]) {
        let ne = self.irn.len();
        let length = INTEGER_HEAD + 2 * ne + self.position.len();
        let (head, body) = to[..length].split_at_mut(INTEGER_HEAD);
        body[..ne].copy_from_slice(self.irn);
        body[ne..2 * ne].copy_from_slice(self.jcn);
        body[2 * ne..].copy_from_slice(self.position);
        head.fill(0);
        head[..2].copy_from_slice(&halves(INTEGER_MAGIC));
        head[2..4].copy_from_slice(&halves(id));
        head[6] = self.n as i32;
        head[7] = ne as i32;
        head[8] = self.order.code();
        let sum = checksum_of_integers(head, body);
        head[4..6].copy_from_slice(&halves(sum));
    }

    /// The number of the system of any pattern.
    pub(crate) fn any_id(from: &[i32]) -> Option<u64> {
        let is_written = from.len() >= INTEGER_HEAD && whole(&from[..2]) == INTEGER_MAGIC;
        is_written.then(|| whole(&from[2..4]))
    }

    /// The number of the system whose pattern of `n` rows and `ne` triplets is in `from`; only its head is looked at.
    pub(crate) fn id(from: &[i32], n: usize, ne: usize) -> Option<u64> {
        let id = Self::any_id(from)?;
        let fits = usize::try_from(from[6]) == Ok(n)
            && usize::try_from(from[7]) == Ok(ne)
            && from[8] == Order::of_code(from[8]).code()
            && from.len() >= integers(n, ne, Order::of_code(from[8]));
        fits.then_some(id)
    }

    /// The triplets that IFACT has, from which no other argument tells their number.
    pub(crate) fn num_triplets(from: &[i32]) -> usize {
        from.get(7).map_or(0, |&ne| ne.max(0) as usize)
    }

    /// Reads all of a pattern whose head has this number of triplets; `None` if it is not what was written.
    pub(crate) fn read(from: &'a [i32], n: usize, ne: usize) -> Option<Self> {
        Self::id(from, n, ne)?;
        let order = Order::of_code(from[8]);
        let (head, body) = from[..integers(n, ne, order)].split_at(INTEGER_HEAD);
        let (irn, others) = body.split_at(ne);
        let (jcn, position) = others.split_at(ne);
        let found = Self {
            n,
            irn,
            jcn,
            order,
            position,
        };
        (whole(&head[4..6]) == checksum_of_integers(head, body)).then_some(found)
    }

    /// The lower triangle, and the order of the caller if there is one.
    ///
    /// # Errors
    ///
    /// -9 with the first position that is not from 1 to n, or comes twice.
    pub(crate) fn sort(&self) -> Result<(Triangle, Option<ColPerm>, Survey), Failure> {
        let given = match self.order {
            Order::Given => Some(permutation(self.position)?),
            _ => None,
        };
        let (triangle, survey) = Triangle::new(self.n, self.irn, self.jcn);
        Ok((triangle, given, survey))
    }
}

/// The order in which rows stand, given the position of each.
fn permutation(position: &[i32]) -> Result<ColPerm, Failure> {
    let n = position.len();
    let mut order = vec![u32::MAX; n];
    for (row, &at) in position.iter().enumerate() {
        let place = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
        match place.and_then(|place| order.get_mut(place)) {
            Some(free) if *free == u32::MAX => *free = row as u32,
            _ => {
                let first = row as i32 + 1;
                return Err(Failure::new(Failure::PERMUTATION, first));
            }
        }
    }
    ColPerm::new(order).map_err(|_| Failure::state())
}

/// What FACT says of the values in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Matrix {
    /// Of the system.
    pub id: u64,
    /// Of the factorization.
    pub generation: u64,
    pub controls: Numeric,
}

impl Matrix {
    /// Writes the values to the front of `to`, which is long enough.
    pub(crate) fn write(&self, a: &[f64], to: &mut [f64]) {
        let (head, body) = to[..reals(a.len())].split_at_mut(REAL_HEAD);
        body.copy_from_slice(a);
        let words = [
            REAL_MAGIC,
            self.id,
            self.generation,
            a.len() as u64,
            0,
            self.controls.flags(),
        ];
        for (to, word) in head.iter_mut().zip(words) {
            *to = f64::from_bits(word);
        }
        head[6] = self.controls.threshold;
        head[7] = self.controls.zero;
        head[4] = f64::from_bits(checksum_of_reals(head, body));
    }

    /// The number of the system of any matrix.
    pub(crate) fn id(from: &[f64]) -> Option<u64> {
        let head = from.get(..REAL_HEAD)?;
        (head[0].to_bits() == REAL_MAGIC).then(|| head[1].to_bits())
    }

    /// What the head of `from` says, if it was written for `ne` values.
    pub(crate) fn read(from: &[f64], ne: usize) -> Option<Self> {
        let id = Self::id(from)?;
        let head = &from[..REAL_HEAD];
        let fits = head[3].to_bits() == ne as u64 && from.len() >= reals(ne);
        let controls = Numeric::of_flags(head[5].to_bits(), head[6], head[7])?;
        fits.then(|| Self {
            id,
            generation: head[2].to_bits(),
            controls,
        })
    }

    /// The values; `None` if they are not those that were written.
    pub(crate) fn values(from: &[f64], ne: usize) -> Option<&[f64]> {
        let (head, body) = from.get(..reals(ne))?.split_at(REAL_HEAD);
        (head[4].to_bits() == checksum_of_reals(head, body)).then_some(body)
    }
}
