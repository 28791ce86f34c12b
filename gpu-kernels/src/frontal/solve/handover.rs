//! Numbers that say themselves that they are there.
//!
//! Who waits for a number reads it until it is not NaN: every vector that is handed over is NaN from the beginning of a
//! launch on, and nobody hands over a NaN. So a number and the news of it come in one trip through the memory, and
//! nothing has to order two of them: reads and writes are atomic and relaxed. Of a complex number each component says so of
//! itself. (W. Liu, A. Li, J. Hogg, I. S. Duff and
//! B. Vinter, "A synchronization-free algorithm for parallel sparse triangular solves", Euro-Par 2016, has counters for
//! that, behind fences.)

use luge_kernel::prelude::*;

use super::kinds::Kind;
use super::layout::OF_THREAD;
use super::{Chunk, Front, Sweep};

/// Contributions of children to one row from which on a warp adds them up together.
pub(super) const LONG: u32 = 32;

/// Contributions that are asked for at once.
const AT_ONCE: usize = 4;

/// What is in place of a number until it comes.
#[inlined]
pub(super) fn awaited<T: Field>() -> T::Real {
    T::Real::from_f64(f64::NAN)
}

#[inlined]
fn is_there<R: Real>(component: R) -> bool {
    component.abs() >= R::ZERO
}

/// Value `at` of a vector that is handed over, once it is there for sure.
#[inlined]
pub(super) fn given<T: Field>(from: GlobalMut<T::Real>, at: usize) -> T {
    T::from_components(|c| from.get(at * T::COMPONENTS + c))
}

/// Hands over values from place `at` on, each component by itself. Infinity stands for NaN: both spoil the solution, and
/// neither keeps anybody waiting.
#[inlined]
pub(super) fn give<T: Field, const N: usize>(to: GlobalMut<T::Real>, at: usize, values: [T; N]) {
    let component = |number: usize| {
        let mut component = T::Real::ZERO;
        values[number / T::COMPONENTS].for_components(|c, own| {
            if c == number % T::COMPONENTS {
                component = own;
            }
        });
        if is_there(component) {
            component
        } else {
            T::Real::from_f64(f64::INFINITY)
        }
    };
    let first = at * T::COMPONENTS;
    let mut number = 0;
    while number < N * T::COMPONENTS {
        if in_pairs::<T, N>() {
            to.store_two(first + number, [component(number), component(number + 1)]);
            number += 2;
        } else {
            to.atomic(first + number)
                .store(component(number), Ordering::Relaxed, Scope::Device);
            number += 1;
        }
    }
}

/// Whether `N` values are read and written two components at a time: such values begin at an even place, as those of the
/// right-hand sides that are solved for together do.
#[inlined]
const fn in_pairs<T: Field, const N: usize>() -> bool {
    (N * T::COMPONENTS).is_multiple_of(2)
}

/// Reads `N` values from place `at` on, and whether all of them are there.
#[inlined]
fn look<T: Field, const N: usize>(
    from: GlobalMut<T::Real>,
    at: usize,
    values: &mut [T; N],
) -> bool {
    let mut all = true;
    let mut r = 0;
    while r < N {
        let place = (at + r) * T::COMPONENTS;
        if in_pairs::<T, N>() {
            let pair = from.load_two(place);
            all &= is_there(pair[0]) && is_there(pair[1]);
            // A complex number, or two real ones.
            values[r] = T::from_components(|c| pair[c]);
            if T::COMPONENTS == 1 {
                values[r + 1] = T::from_components(|_| pair[1]);
                r += 1;
            }
        } else {
            values[r] = T::from_components(|c| {
                let place = from.atomic(place + c);
                let component = place.load(Ordering::Relaxed, Scope::Device);
                all &= is_there(component);
                component
            });
        }
        r += 1;
    }
    all
}

/// As [`look`], when it is likely that they are not there: many warps wait, so the last one is looked at first.
#[inlined]
fn look_again<T: Field, const N: usize>(
    from: GlobalMut<T::Real>,
    at: usize,
    values: &mut [T; N],
) -> bool {
    let mut last = [T::ZERO];
    (N == 1 || look(from, at + N - 1, &mut last)) && look(from, at, values)
}

/// Waits for `N` values from `place(u)` on for each u whose bit is set in `missing`; the others keep what they are. `is_first` if nobody
/// has looked at them yet. All lanes of a warp call it.
#[inlined]
fn wait_for<T: Field, const N: usize, const A: usize>(
    from: GlobalMut<T::Real>,
    place: impl Fn(usize) -> usize,
    mut missing: u32,
    mut is_first: bool,
    values: &mut [[T; N]; A],
) {
    spin_wait(|| {
        let mut u = 0;
        while u < A {
            if missing & 1 << u != 0 {
                let is_there = if is_first {
                    look(from, place(u), &mut values[u])
                } else {
                    look_again(from, place(u), &mut values[u])
                };
                missing &= !(u32::from(is_there) << u);
            }
            u += 1;
        }
        is_first = false;
        warp::vote_all(warp::FULL_MASK, missing == 0)
    });
}

/// Waits for `N` values from `place(u)` on for each u below `A`, those that are not `wanted(u)` keep what they are. All
/// lanes of a warp call it.
#[inlined]
pub(super) fn take_several<T: Field, const N: usize, const A: usize>(
    from: GlobalMut<T::Real>,
    place: impl Fn(usize) -> usize,
    wanted: impl Fn(usize) -> bool,
    values: &mut [[T; N]; A],
) {
    let mut missing = 0u32;
    let mut u = 0;
    while u < A {
        missing |= u32::from(wanted(u)) << u;
        u += 1;
    }
    wait_for(from, place, missing, true, values);
}

/// Waits for the values from place `at` on; zeros if they are not `wanted`. All lanes of a warp call it and go on
/// together: lanes that went on alone would make every shuffle behind it slow.
#[inlined]
pub(super) fn take<T: Field, const N: usize>(
    from: GlobalMut<T::Real>,
    at: usize,
    wanted: bool,
) -> [T; N] {
    let mut values = [[T::ZERO; N]];
    take_several(from, |_| at, |_| wanted, &mut values);
    values[0]
}

/// Values that were asked for before it is their turn: see [`ask`].
#[derive(Clone, Copy)]
pub(super) struct Asked<T: Field, const N: usize> {
    at: usize,
    wanted: bool,
    values: [T; N],
    are_there: bool,
}

/// Asks for the values from place `at` on, if they are `wanted`; there must be such a place in any case, for a read on a condition
/// would be waited for at once. [`answer`](Asked::answer) waits for them, if they have not come with this.
#[inlined]
pub(super) fn ask<T: Field, const N: usize>(
    from: GlobalMut<T::Real>,
    at: usize,
    wanted: bool,
) -> Asked<T, N> {
    let mut values = [T::ZERO; N];
    let are_there = look(from, at, &mut values);
    Asked {
        at,
        wanted,
        values,
        are_there,
    }
}

impl<T: Field, const N: usize> Asked<T, N> {
    /// The values, which are waited for; zeros if they are not wanted. All lanes of a warp call it and go on together.
    #[inlined]
    pub fn answer(self, from: GlobalMut<T::Real>) -> [T; N] {
        let mut values = [self.values];
        let missing = u32::from(self.wanted && !self.are_there);
        wait_for(from, |_| self.at, missing, false, &mut values);
        let [mut values] = values;
        let mut r = 0;
        while r < N {
            values[r] = if self.wanted { values[r] } else { T::ZERO };
            r += 1;
        }
        values
    }
}

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Where the contributions of children to row `row` of a front lie; anything if it has no such row.
    #[inlined]
    pub(super) fn contributions(self, front: Front, row: u32) -> (u32, u32) {
        // Fronts and their rows are numbered alike, so a front's first row is number start + rows.
        let row = if row < front.m() { row } else { 0 };
        let at = (front.start + front.rows) as usize + row as usize;
        (
            self.tree.gather_ptr.get(at),
            self.tree.gather_ptr.get(at + 1),
        )
    }

    /// What the way down begins with for `pivot` of a front and `N` right-hand sides from `rhs` on, if it is `wanted`, else
    /// zeros; it is waited for. All lanes of a warp call it.
    #[inlined]
    pub(super) fn take_eliminated<const N: usize>(
        self,
        (chunk, rhs): (Chunk, u32),
        front: Front,
        pivot: u32,
        wanted: bool,
    ) -> [T; N] {
        let place = |e: u32| chunk.unknowns + e as usize * R + rhs as usize;
        let (from, e) = (self.vectors.eliminated, front.start + pivot);
        self.kind.take_eliminated(from, place, e, wanted)
    }

    /// Adds the contributions `begin .. end` to `value` as they come if they are `wanted`, for `N` right-hand sides from
    /// `rhs` on. All lanes of a warp call it, each with its own range.
    #[inlined]
    pub(super) fn gather<const N: usize>(
        self,
        chunk: Chunk,
        rhs: u32,
        (begin, end): (u32, u32),
        wanted: bool,
        value: &mut [T; N],
    ) {
        let end = if wanted { end } else { begin };
        let first = chunk.carried + rhs as usize;
        let place = |p: u32| first + p as usize * R;
        let is_long = end - begin > LONG;
        let (mut p, end_alone) = (begin, if is_long { begin } else { end });
        while warp::vote_any(warp::FULL_MASK, p < end_alone) {
            // Fewer of more right-hand sides, for which there are registers.
            p += if N < OF_THREAD {
                self.add_several::<N, AT_ONCE>(p, end_alone, place, value)
            } else {
                self.add_several::<N, 2>(p, end_alone, place, value)
            };
        }
        let mut long = warp::ballot(warp::FULL_MASK, is_long);
        while long != 0 {
            let owner = long.trailing_zeros();
            long &= long - 1;
            let begin = warp::shuffle(warp::FULL_MASK, begin, owner);
            let end = warp::shuffle(warp::FULL_MASK, end, owner);
            let first = warp::shuffle(warp::FULL_MASK, first as u64, owner) as usize;
            self.sum_together::<N>((begin, end), owner, value, |p, r, term| {
                let mut several = [T::ZERO];
                let at = first + p as usize * R + r;
                let is_there = look(self.vectors.carried, at, &mut several);
                *term = several[0];
                is_there
            });
        }
    }

    /// Adds the contributions `p .. p + A`, up to `end`, as they come; A.
    #[inlined]
    fn add_several<const N: usize, const A: usize>(
        self,
        p: u32,
        end: u32,
        place: impl Fn(u32) -> usize,
        value: &mut [T; N],
    ) -> u32 {
        let mut several = [[T::ZERO; N]; A];
        take_several(
            self.vectors.carried,
            |u| place(p + u as u32),
            |u| p + (u as u32) < end,
            &mut several,
        );
        let mut u = 0;
        while u < A {
            let mut r = 0;
            while r < N {
                value[r] += several[u][r];
                r += 1;
            }
            u += 1;
        }
        A as u32
    }

    /// Adds to value r of lane `owner` what `look(p, r, term)` puts into `term` for `begin <= p < end`, once it answers
    /// true: the work of a warp, all lanes of which call it alike. A lane has every 32nd term, or of several right-hand
    /// sides every fourth one of one.
    #[inlined]
    pub(super) fn sum_together<const N: usize>(
        self,
        (begin, end): (u32, u32),
        owner: u32,
        value: &mut [T; N],
        look: impl Fn(u32, usize, &mut T) -> bool,
    ) {
        let lane = thread::lane_id();
        let together = N as u32;
        let (r, stride) = (lane % together, warp::WARP_SIZE / together);
        let first = lane / together;
        let mut sum = T::ZERO;
        let mut p = begin;
        while p < end {
            let mut several = [T::ZERO; AT_ONCE];
            spin_wait(|| {
                let mut all = true;
                let mut u = 0;
                while u < AT_ONCE {
                    let own = p + first + u as u32 * stride;
                    if own < end {
                        all &= look(own, r as usize, &mut several[u]);
                    }
                    u += 1;
                }
                warp::vote_all(warp::FULL_MASK, all)
            });
            let mut u = 0;
            while u < AT_ONCE {
                sum += several[u];
                u += 1;
            }
            p += AT_ONCE as u32 * stride;
        }
        let mut distance = warp::WARP_SIZE / 2;
        while distance >= together {
            sum += warp::shuffle_xor(warp::FULL_MASK, sum, distance);
            distance /= 2;
        }
        let mut r = 0;
        while r < N {
            let of_rhs = warp::shuffle(warp::FULL_MASK, sum, r as u32);
            if lane == owner {
                value[r] += of_rhs;
            }
            r += 1;
        }
    }
}
