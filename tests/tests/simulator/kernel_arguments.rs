//! Kernels take few arguments: what belongs together is a struct.

use std::fs;
use std::path::Path;

/// Arguments of a kernel at most.
const MOST: usize = 8;

/// Names of the kernels in `text` with the number of their arguments. Kernels that a macro defines have the name `$name`.
fn kernels(text: &str) -> Vec<(&str, usize)> {
    let head = "pub unsafe fn ";
    let kernel = |(attribute, _): (usize, &str)| {
        let rest = &text[attribute..];
        let signature = &rest[rest.find(head)? + head.len()..];
        let name = signature.split(['<', '(']).next()?;
        // The bounds of a type parameter have no parentheses.
        let arguments = &signature[signature.find('(')? + 1..];
        let (mut depth, mut count, mut is_argument) = (0, 0, false);
        for c in arguments.chars() {
            match c {
                '(' | '[' | '<' => depth += 1,
                ')' if depth == 0 => break,
                ')' | ']' | '>' => depth -= 1,
                ',' if depth == 0 => is_argument = false,
                c if !c.is_whitespace() && !is_argument => {
                    is_argument = true;
                    count += 1;
                }
                _ => {}
            }
        }
        Some((name, count))
    };
    // `#[kernel(…)]` and `#[kernel]`, at the beginning of a line.
    let attributes = text.match_indices("#[kernel");
    let begins_line = |&(at, _): &(usize, &str)| {
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        line.trim().is_empty()
    };
    attributes.filter(begins_line).filter_map(kernel).collect()
}

/// Kernels with more than [`MOST`] arguments in the files of a folder, and how many kernels there are.
fn too_wide(folder: &Path) -> (Vec<String>, usize) {
    let (mut found, mut count) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() {
            let (of_folder, number) = too_wide(&path);
            found.extend(of_folder);
            count += number;
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        for (name, arguments) in kernels(&text) {
            count += 1;
            if arguments > MOST {
                let path = path.display();
                found.push(format!("{path}: {name} takes {arguments}"));
            }
        }
    }
    (found, count)
}

#[test]
fn no_kernel_takes_more_than_eight_arguments() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (folder, fewest) in [("../gpu-kernels/src", 40), ("kernels/src", 25)] {
        let (found, count) = too_wide(&root.join(folder));
        assert!(found.is_empty(), "{}", found.join("\n"));
        assert!(count >= fewest, "{count} kernels below {folder}");
    }
}

#[test]
fn arguments_are_counted() {
    let text = "
        /// As `#[kernel]`.
        #[kernel]
        pub unsafe fn none() {}
        #[kernel(T = [f32, f64], require(x.len() == 3))]
        pub unsafe fn two<T: Real>(x: Global<T>, y: GlobalMut<u32>) {
            f(1, 2, 3);
        }
        #[kernel(max_threads(1))]
        #[allow(unused)]
        pub unsafe fn $name(
            a: u32,
            b: Records<(u32, [u32; 3])>,
            c: u32,
        ) {}";
    assert_eq!(kernels(text), [("none", 0), ("two", 2), ("$name", 3)]);
}
