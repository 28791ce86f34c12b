//! Speed of reading, in bytes of text: synthetic files, and G3_circuit where the corpus is at hand.
//!
//! Text and matrix are in memory, so that neither disk nor page cache is measured; building the CSR
//! matrix, sums of duplicates included, is part of each run. One thread.

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// A deterministic stream of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number with 16 or 17 digits and a spread of exponents.
    fn value(&mut self) -> f64 {
        let mantissa = self.next() as f64 / u64::MAX as f64 - 0.5;
        mantissa * 10f64.powi((self.next() % 24) as i32 - 12)
    }
}

const ROWS: u64 = 200_000;
const PER_COLUMN: u64 = 8;

/// Entries sorted by columns, as most files are.
fn sorted() -> Vec<(u64, u64, f64)> {
    let mut random = Random(1);
    let mut entries = Vec::new();
    for col in 0..ROWS {
        let first = random.next() % (ROWS / PER_COLUMN);
        for k in 0..PER_COLUMN {
            entries.push((first + k * (ROWS / PER_COLUMN), col, random.value()));
        }
    }
    entries
}

fn text(entries: &[(u64, u64, f64)]) -> Vec<u8> {
    let mut text = format!(
        "%%MatrixMarket matrix coordinate real general\n{ROWS} {ROWS} {}\n",
        entries.len()
    );
    for (row, col, value) in entries {
        writeln!(text, "{} {} {value:e}", row + 1, col + 1).expect("a string takes everything");
    }
    text.into_bytes()
}

/// The text of a corpus file, if there is a corpus.
fn corpus(name: &str) -> Option<Vec<u8>> {
    let root = std::env::var_os("LUGE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
        PathBuf::from,
    );
    let path = root.join("collection").join(name);
    let Ok(file) = std::fs::File::open(&path) else {
        eprintln!("SKIPPED {name}: no {}", path.display());
        return None;
    };
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_end(&mut text)
        .expect("the corpus is intact");
    Some(text)
}

fn read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5));
    let mut measure = |name: &str, text: &[u8]| {
        group.throughput(Throughput::BytesDecimal(text.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| luge_matrix_io::read_bytes(black_box(text)).expect("well formed"));
        });
    };

    let entries = sorted();
    measure("coordinate_real_17_digits_sorted", &text(&entries));

    let mut shuffled = entries.clone();
    let mut random = Random(2);
    for i in (1..shuffled.len()).rev() {
        shuffled.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    measure("coordinate_real_17_digits_shuffled", &text(&shuffled));

    let mut duplicates = entries;
    for i in (1..duplicates.len()).step_by(2) {
        (duplicates[i].0, duplicates[i].1) = (duplicates[i - 1].0, duplicates[i - 1].1);
    }
    measure(
        "coordinate_real_17_digits_half_duplicates",
        &text(&duplicates),
    );

    if let Some(text) = corpus("G3_circuit.mtx.gz") {
        measure("G3_circuit", &text);
    }
}

criterion_group!(benches, read);
criterion_main!(benches);
