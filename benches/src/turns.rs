//! Who is measured when, where several take turns.
//!
//! A machine that is shared changes its speed while a benchmark runs, and a solver leaves caches and clocks behind that
//! the next one finds. So every round goes once through all that take part, and who comes after whom changes from round
//! to round: the rounds are the rows of a Williams square (Williams, Experimental designs balanced for the estimation of
//! residual effects of treatments, 1949). Of `count` that take part, each is at each place once in `count` rounds, and
//! within twice as many rounds each comes right after every other equally often.

/// A round: `turn` is called once, one after the other, on each of `all` that takes part when it begins.
pub fn round<L>(
    all: &mut [L],
    number: usize,
    takes_part: impl Fn(&L) -> bool,
    mut turn: impl FnMut(&mut L),
) {
    let taking_part: Vec<usize> = (0..all.len()).filter(|&i| takes_part(&all[i])).collect();
    for place in order(number, taking_part.len()) {
        turn(&mut all[taking_part[place]]);
    }
}

/// The numbers below `count` in the order of a round.
fn order(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| {
        // Neighbours in 0, 1, -1, 2, -2, … differ by each number once if `count` is even; if it is odd, by half of the
        // numbers twice, and in the mirrored rows by the other half.
        let first_row = if turn % 2 == 1 {
            turn.div_ceil(2)
        } else {
            count - turn / 2
        };
        let number = (first_row + round) % count;
        let is_mirrored = (round / count) % 2 == 1;
        if is_mirrored {
            (count - number) % count
        } else {
            number
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(count: usize) -> Vec<Vec<usize>> {
        (0..2 * count)
            .map(|round| order(round, count).collect())
            .collect()
    }

    #[test]
    fn rounds_of_two_three_and_four() {
        assert_eq!(order(7, 0).count(), 0);
        assert_eq!(rounds(1), [[0], [0]]);
        assert_eq!(rounds(2), [[0, 1], [1, 0], [0, 1], [1, 0]]);
        let three = [
            [0, 1, 2],
            [1, 2, 0],
            [2, 0, 1],
            [0, 2, 1],
            [2, 1, 0],
            [1, 0, 2],
        ];
        assert_eq!(rounds(3), three);
        assert_eq!(rounds(4)[1], [1, 2, 0, 3]);
    }

    #[test]
    fn each_is_at_each_place_and_after_each_other_equally_often() {
        for count in 2..=7 {
            let mut at_place = vec![vec![0; count]; count];
            let mut after = vec![vec![0; count]; count];
            for round in rounds(count) {
                for (place, &who) in round.iter().enumerate() {
                    at_place[who][place] += 1;
                }
                for pair in round.windows(2) {
                    after[pair[1]][pair[0]] += 1;
                }
            }
            for who in 0..count {
                assert_eq!(at_place[who], vec![2; count], "{who} of {count}");
                let mut expected = vec![2; count];
                expected[who] = 0;
                assert_eq!(after[who], expected, "{who} of {count}");
            }
        }
    }

    #[test]
    fn who_takes_no_part_leaves_no_gap() {
        let mut all = ["a", "out", "b", "c"];
        let mut seen = Vec::new();
        for number in 0..3 {
            round(
                &mut all,
                number,
                |&name| name != "out",
                |name| seen.push(*name),
            );
        }
        assert_eq!(seen, ["a", "b", "c", "b", "c", "a", "c", "a", "b"]);
    }
}
