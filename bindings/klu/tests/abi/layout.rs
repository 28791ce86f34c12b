//! The structures lie in memory as those of the system's klu.h.

use std::mem::offset_of;

use luge_klu::layout::{Common, Numeric, Symbolic};

use luge_testkit::process::run;

use crate::api::compiler;

/// Each field by its name in C.
macro_rules! fields {
    ($structure:ty; $($c:literal => $field:ident),* $(,)?) => {
        vec![$(($c, offset_of!($structure, $field))),*]
    };
}

macro_rules! structures {
    ($int:ty, $prefix:literal) => {{
        let common = fields!(Common<$int>;
            "tol" => tol, "memgrow" => memgrow, "initmem_amd" => initmem_amd, "initmem" => initmem,
            "maxwork" => maxwork, "btf" => btf, "ordering" => ordering, "scale" => scale,
            "user_order" => user_order, "user_data" => user_data,
            "halt_if_singular" => halt_if_singular, "status" => status, "nrealloc" => nrealloc,
            "structural_rank" => structural_rank, "numerical_rank" => numerical_rank,
            "singular_col" => singular_col, "noffdiag" => noffdiag, "flops" => flops,
            "rcond" => rcond, "condest" => condest, "rgrowth" => rgrowth, "work" => work,
            "memusage" => memusage, "mempeak" => mempeak);
        let symbolic = fields!(Symbolic<$int>;
            "symmetry" => symmetry, "est_flops" => est_flops, "lnz" => lnz, "unz" => unz,
            "Lnz" => lnz_of_block, "n" => n, "nz" => nz, "P" => p, "Q" => q, "R" => r,
            "nzoff" => nzoff, "nblocks" => nblocks, "maxblock" => maxblock,
            "ordering" => ordering, "do_btf" => do_btf, "structural_rank" => structural_rank);
        let numeric = fields!(Numeric<$int>;
            "n" => n, "nblocks" => nblocks, "lnz" => lnz, "unz" => unz,
            "max_lnz_block" => max_lnz_block, "max_unz_block" => max_unz_block, "Pnum" => pnum,
            "Pinv" => pinv, "Lip" => lip, "Uip" => uip, "Llen" => llen, "Ulen" => ulen,
            "LUbx" => lubx, "LUsize" => lusize, "Udiag" => udiag, "Rs" => rs,
            "worksize" => worksize, "Work" => work, "Xwork" => xwork, "Iwork" => iwork,
            "Offp" => offp, "Offi" => offi, "Offx" => offx, "nzoff" => nzoff);
        [
            (concat!($prefix, "common"), size_of::<Common<$int>>(), common),
            (concat!($prefix, "symbolic"), size_of::<Symbolic<$int>>(), symbolic),
            (concat!($prefix, "numeric"), size_of::<Numeric<$int>>(), numeric),
        ]
    }};
}

#[test]
fn structures_are_those_of_the_header() {
    let Some(mut compiler) = compiler() else {
        return;
    };
    let structures = structures!(i32, "klu_").into_iter();
    let structures: Vec<_> = structures.chain(structures!(i64, "klu_l_")).collect();
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <klu.h>\nint main(void)\n{\n",
    );
    let mut expected = String::new();
    for (name, size, fields) in &structures {
        program += &format!("    printf(\"{name} %zu\\n\", sizeof({name}));\n");
        expected += &format!("{name} {size}\n");
        for (field, offset) in fields {
            program +=
                &format!("    printf(\"{name}.{field} %zu\\n\", offsetof({name}, {field}));\n");
            expected += &format!("{name}.{field} {offset}\n");
        }
    }
    program += "    return 0;\n}\n";
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program).unwrap();
    run(compiler.arg(&source).arg("-o").arg(&binary));
    let printed = run(&mut std::process::Command::new(&binary));
    assert_eq!(printed, expected);
}

/// Functions that libklu exports and klu.h does not declare: they work on KLU's own data.
fn is_internal(name: &str) -> bool {
    let base = name.trim_start_matches("klu_");
    let base = ["zl_", "z_", "l_"]
        .iter()
        .find_map(|field| base.strip_prefix(field))
        .unwrap_or(base);
    matches!(
        base,
        "kernel"
            | "kernel_factor"
            | "lsolve"
            | "usolve"
            | "ltsolve"
            | "utsolve"
            | "alloc_symbolic"
            | "add_size_t"
            | "mult_size_t"
    )
}

#[test]
fn all_functions_of_libklu_are_there_and_no_others() {
    let exported = |file: &str| -> Vec<String> {
        let symbols = run(std::process::Command::new("nm").args(["-D", "--defined-only", file]));
        let names = symbols.lines().filter_map(|line| line.split(' ').nth(2));
        names.map(str::to_owned).collect()
    };
    let mut ours = exported(crate::api::ours().to_str().unwrap());
    ours.sort_unstable();
    assert!(ours.iter().all(|name| name.starts_with("klu_")), "{ours:?}");
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
    ];
    let libraries = folders.map(|folder| format!("{folder}/libklu.so.1"));
    let Some(library) = libraries
        .iter()
        .find(|file| std::path::Path::new(file).exists())
    else {
        eprintln!("SKIPPED: there is no libklu.so.1 to compare with");
        return;
    };
    let mut theirs = exported(library);
    theirs.retain(|name| !is_internal(name));
    theirs.sort_unstable();
    assert_eq!(ours, theirs);
}
