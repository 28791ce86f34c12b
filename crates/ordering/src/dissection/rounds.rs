//! The order in which variables are eliminated.

use crate::minimum_degree::{PivotChoice, Quotient};

/// The stage of variables that are not eliminated.
pub(super) const KEPT: u8 = u8::MAX;

/// The share of the variables that a round may choose pivots from, at least.
const SHARE: f64 = 0.25;

/// Variables whose degree is this close to the least one are candidates, too.
const NEAR_LEAST: usize = 1;

/// Chooses pivots in rounds, in stages.
pub(super) struct Rounds {
    /// The variables to be eliminated in this stage, some of them no longer live.
    active: Vec<u32>,
    /// Those of the later stages, the last one first.
    stages: Vec<Vec<u32>>,
    /// The stage of each variable, from the last one on.
    stage_of: Vec<u8>,
    /// Number of the round.
    round: u32,
    /// The round in which a variable was last next to a pivot.
    waits_in: Vec<u32>,
    /// The variables that this round may still eliminate, the first one last.
    candidates: Vec<u32>,
    /// Workspace: active variables by degree.
    counts: Vec<u32>,
}

impl Rounds {
    /// From the stage of each variable, or [`KEPT`].
    pub fn new(stage_of: Vec<u8>) -> Self {
        let mut stages = Vec::new();
        for (i, &stage) in (0..).zip(&stage_of) {
            if stage != KEPT {
                if stages.len() <= stage as usize {
                    stages.resize(stage as usize + 1, Vec::new());
                }
                stages[stage as usize].push(i);
            }
        }
        Self {
            active: Vec::new(),
            stages,
            round: 0,
            waits_in: vec![0; stage_of.len()],
            candidates: Vec::new(),
            stage_of,
            counts: Vec::new(),
        }
    }

    /// Finds the candidates of the next round, by degree; false if the stage is over.
    fn start_round(&mut self, graph: Quotient) -> bool {
        self.round += 1;
        self.active.retain(|&i| graph.weight(i) != 0);
        let counts = &mut self.counts;
        counts.clear();
        for &i in &self.active {
            let degree = graph.degree(i) as usize;
            if degree >= counts.len() {
                counts.resize(degree + 1, 0);
            }
            counts[degree] += 1;
        }
        let Some(least) = counts.iter().position(|&count| count != 0) else {
            return false;
        };
        let wanted = (self.active.len() as f64 * SHARE) as u32;
        // `counts` becomes the number of candidates up to each degree below `end`.
        let mut num_candidates = 0;
        let mut end = 0;
        while end < counts.len() && (num_candidates < wanted || end <= least + NEAR_LEAST) {
            num_candidates += counts[end];
            counts[end] = num_candidates;
            end += 1;
        }
        self.candidates.resize(num_candidates as usize, 0);
        for &i in &self.active {
            let degree = graph.degree(i) as usize;
            if degree < end {
                let place = num_candidates - counts[degree];
                self.candidates[place as usize] = i;
                counts[degree] -= 1;
            }
        }
        true
    }
}

impl PivotChoice for Rounds {
    fn insert(&mut self, i: u32, _degree: usize) {
        self.waits_in[i as usize] = self.round;
    }

    fn pop(&mut self, graph: Quotient) -> u32 {
        loop {
            while let Some(i) = self.candidates.pop() {
                if graph.weight(i) != 0 && self.waits_in[i as usize] != self.round {
                    return i;
                }
            }
            while !self.start_round(graph) {
                self.active = self.stages.pop().expect("a live variable is in some stage");
            }
        }
    }

    /// Not across stages: a separator that is eliminated with a part below it makes that part wait for what
    /// is on the other side.
    #[inline]
    fn may_join(&self, i: u32, j: u32) -> bool {
        self.stage_of[i as usize] == self.stage_of[j as usize]
    }
}
