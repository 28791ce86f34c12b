//! Compiles mutants of a source together, each behind a switch.
//!
//! An expression `a * b` with the mutants 3 and 4 becomes
//!
//! ```text
//! (if crate::luge_mutant(3) { a + b } else if crate::luge_mutant(4) { a / b } else { a * b })
//! ```
//!
//! where only the last branch holds the switches of mutants within `a` and `b`: at most one mutant is on. A
//! function that is replaced begins with `if crate::luge_mutant(5) { return …; }`, and a match arm that is left
//! out gets a guard. A mutant is a change of *text*: where `a - b * c` becomes `a - b + c`, the expression with
//! the switch is the whole difference.
//!
//! No switch can stand in a constant, a pattern or a type, nor around a condition with `let`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr};

/// The environment variable with the number of the mutant that is on.
pub(super) const VARIABLE: &str = "LUGE_MUTANT";

/// What the root of a crate gets beside its own items.
pub(super) fn switch() -> String {
    format!(
        r#"
#[doc(hidden)]
#[inline]
pub(crate) fn luge_mutant(number: u32) -> bool {{
    static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let on = || std::env::var("{VARIABLE}").ok().and_then(|number| number.parse().ok());
    *ON.get_or_init(|| on().unwrap_or(u32::MAX)) == number
}}
"#
    )
}

/// The kinds of mutants, by the names that cargo-mutants gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub(super) enum Genre {
    BinaryOperator,
    UnaryOperator,
    FnValue,
    MatchArm,
    MatchArmGuard,
    StructField,
}

/// What a mutant does to the text of its file. Ranges are in bytes.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) number: u32,
    pub(super) genre: Genre,
    /// The text that is replaced.
    pub(super) range: Range<usize>,
    pub(super) replacement: String,
    /// The function it is in.
    pub(super) function: Option<Range<usize>>,
}

/// A source with mutants in it.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    pub(super) text: String,
    /// Parts of the text, and the mutants that an error there can be due to: those of a branch, of an expression,
    /// of a function.
    regions: Vec<(Range<usize>, Vec<u32>)>,
    /// Mutants that cannot be behind a switch.
    pub(super) left_out: Vec<u32>,
}

impl Rendered {
    /// The mutants that an error at these bytes is due to: those of the smallest region around it.
    pub(super) fn suspects(&self, at: &Range<usize>) -> &[u32] {
        self.regions
            .iter()
            .filter(|(region, _)| region.start <= at.start && at.end <= region.end)
            .min_by_key(|(region, _)| region.len())
            .map_or(&[], |(_, numbers)| numbers)
    }
}

/// The text with each of these mutants behind its switch.
///
/// # Errors
///
/// If the text is no Rust.
pub(super) fn switched(text: &str, edits: &[&Edit]) -> Result<Rendered> {
    let file = syn::parse_file(text).context("the source is no Rust")?;
    let mut finder = Finder {
        text,
        open: BTreeMap::new(),
        chain: Vec::new(),
        sites: BTreeMap::new(),
    };
    for edit in edits {
        let place = (edit.range.start, edit.genre);
        finder.open.entry(place).or_default().push(edit);
        if let Some(function) = &edit.function {
            finder.add(function.clone(), Form::Function, edit.number, String::new());
        }
    }
    finder.visit_file(&file);
    let sites: Vec<Site> = finder.sites.into_values().collect();
    let mut rendered = Rendered {
        left_out: finder.open.values().flatten().map(|e| e.number).collect(),
        ..Rendered::default()
    };
    rendered.push(text, 0..text.len(), &sites);
    Ok(rendered)
}

/// The text with these mutants made, which are all in different functions.
pub(super) fn made(text: &str, edits: &[&Edit]) -> Rendered {
    let mut edits = edits.to_vec();
    edits.sort_by_key(|edit| edit.range.start);
    let mut rendered = Rendered::default();
    let mut at = 0;
    for edit in edits {
        rendered.text.push_str(&text[at..edit.range.start]);
        let begin = rendered.text.len();
        rendered.text.push_str(&edit.replacement);
        let end = rendered.text.len();
        let around = edit.function.as_ref().unwrap_or(&edit.range);
        // Functions of two mutants do not overlap, so that between the begin of one and its mutant nothing moved.
        let region = begin - (edit.range.start - around.start)..end + (around.end - edit.range.end);
        rendered.regions.push((region, vec![edit.number]));
        at = edit.range.end;
    }
    rendered.text.push_str(&text[at..]);
    rendered
}

/// How the switches of a site are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// No switches: the site is a function, and known for errors in it.
    Function,
    /// Statements at the begin of a function's body, which the range is empty at.
    Body,
    /// The guard of a match arm that has none, behind its pattern, which the range is empty at.
    NewGuard,
    /// The guard of a match arm: the arm is left out.
    Guard,
    Expression,
}

/// A part of the source with switches.
#[derive(Debug)]
struct Site {
    range: Range<usize>,
    form: Form,
    /// Mutants, and their text.
    branches: Vec<(u32, String)>,
}

impl Rendered {
    /// Adds `range` of the source with the `sites` in it, which are sorted such that those within another one follow
    /// it.
    fn push(&mut self, source: &str, range: Range<usize>, mut sites: &[Site]) {
        let mut at = range.start;
        while let [site, rest @ ..] = sites {
            self.text.push_str(&source[at..site.range.start]);
            let is_within =
                |other: &Site| other.range.end <= site.range.end && !site.range.is_empty();
            let count = rest.iter().take_while(|other| is_within(other)).count();
            let (within, after) = rest.split_at(count);
            self.push_site(source, site, within);
            at = site.range.end;
            sites = after;
        }
        self.text.push_str(&source[at..range.end]);
    }

    fn push_site(&mut self, source: &str, site: &Site, within: &[Site]) {
        let numbers: Vec<u32> = site.branches.iter().map(|branch| branch.0).collect();
        let begin = self.text.len();
        match site.form {
            Form::Function => self.push(source, site.range.clone(), within),
            Form::Body => {
                for (number, text) in &site.branches {
                    self.text
                        .push_str(&format!(" if crate::luge_mutant({number}) {{ return "));
                    self.push_branch(*number, text);
                    self.text.push_str("; }");
                }
            }
            Form::NewGuard | Form::Guard => {
                let is_kept: Vec<String> = numbers
                    .iter()
                    .map(|number| format!("!crate::luge_mutant({number})"))
                    .collect();
                let is_kept = is_kept.join(" && ");
                if site.form == Form::NewGuard {
                    self.text.push_str(&format!(" if {is_kept}"));
                } else {
                    self.text.push_str(&format!("{is_kept} && ("));
                    self.push(source, site.range.clone(), within);
                    self.text.push(')');
                }
            }
            Form::Expression => {
                self.text.push('(');
                for (number, text) in &site.branches {
                    self.text
                        .push_str(&format!("if crate::luge_mutant({number}) {{ "));
                    self.push_branch(*number, text);
                    self.text.push_str(" } else ");
                }
                self.text.push_str("{ ");
                self.push(source, site.range.clone(), within);
                self.text.push_str(" })");
            }
        }
        self.regions.push((begin..self.text.len(), numbers));
    }

    fn push_branch(&mut self, number: u32, text: &str) {
        let begin = self.text.len();
        self.text.push_str(text);
        self.regions.push((begin..self.text.len(), vec![number]));
    }
}

/// Sites by where they are: those at a place before those that begin there, and outer ones first.
type Sites = BTreeMap<(usize, bool, Reverse<usize>, Form), Site>;

/// Finds the sites of mutants in the syntax of a file.
struct Finder<'a> {
    text: &'a str,
    /// Mutants without a site, by where what they replace begins.
    open: BTreeMap<(usize, Genre), Vec<&'a Edit>>,
    /// The operators around the one that is visited, from the outermost, with no other syntax between.
    chain: Vec<Link>,
    sites: Sites,
}

/// A binary operator, and which of its operands is visited.
struct Link {
    range: Range<usize>,
    precedence: u8,
    has_let: bool,
    is_on_the_right: bool,
}

impl<'a> Finder<'a> {
    /// The mutants of a kind that begin at `at`, which have a site now.
    fn take(&mut self, at: usize, genre: Genre) -> Vec<&'a Edit> {
        self.open.remove(&(at, genre)).unwrap_or_default()
    }

    fn add(&mut self, range: Range<usize>, form: Form, number: u32, text: String) {
        let key = (range.start, !range.is_empty(), Reverse(range.end), form);
        let site = self.sites.entry(key).or_insert_with(|| Site {
            range,
            form,
            branches: Vec::new(),
        });
        site.branches.push((number, text));
    }

    /// A site at an expression, whose text the mutant changes.
    fn add_expression(&mut self, range: Range<usize>, edit: &Edit) {
        let text = format!(
            "{}{}{}",
            &self.text[range.start..edit.range.start],
            edit.replacement,
            &self.text[edit.range.end..range.end]
        );
        self.add(range, Form::Expression, edit.number, text);
    }

    /// The expression whose text is parsed in another way with the operator `new` in the innermost of the chain.
    fn around(&self, new: u8) -> &Link {
        let mut at = self.chain.len() - 1;
        while let Some(parent) = at.checked_sub(1).map(|above| &self.chain[above]) {
            let is_apart = if parent.is_on_the_right {
                new > parent.precedence
            } else {
                new >= parent.precedence
            };
            if is_apart {
                break;
            }
            at -= 1;
        }
        &self.chain[at]
    }

    fn visit_body(&mut self, block: &syn::Block) {
        let Some(first) = block.stmts.first() else {
            return;
        };
        let begin = block.brace_token.span.open().byte_range().end;
        for edit in self.take(first.span().byte_range().start, Genre::FnValue) {
            let text = edit.replacement.clone();
            self.add(begin..begin, Form::Body, edit.number, text);
        }
    }
}

/// How tightly a binary operator binds.
fn precedence(operator: &BinOp) -> u8 {
    match operator {
        BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_) => 9,
        BinOp::Add(_) | BinOp::Sub(_) => 8,
        BinOp::Shl(_) | BinOp::Shr(_) => 7,
        BinOp::BitAnd(_) => 6,
        BinOp::BitXor(_) => 5,
        BinOp::BitOr(_) => 4,
        BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
            3
        }
        BinOp::And(_) => 2,
        BinOp::Or(_) => 1,
        // Assignments.
        _ => 0,
    }
}

/// Whether a condition binds names.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, node: &'ast Expr) {
        if matches!(node, Expr::Binary(_)) {
            visit::visit_expr(self, node);
        } else {
            let chain = std::mem::take(&mut self.chain);
            visit::visit_expr(self, node);
            self.chain = chain;
        }
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        self.chain.push(Link {
            range: node.span().byte_range(),
            precedence: precedence(&node.op),
            has_let: has_let(&node.left) || has_let(&node.right),
            is_on_the_right: false,
        });
        let place = (node.op.span().byte_range().start, Genre::BinaryOperator);
        for edit in self.take(place.0, place.1) {
            let around = syn::parse_str(&edit.replacement)
                .ok()
                .map(|operator| self.around(precedence(&operator)))
                .filter(|link| !link.has_let)
                .map(|link| link.range.clone());
            match around {
                Some(range) => self.add_expression(range, edit),
                None => self.open.entry(place).or_default().push(edit),
            }
        }
        self.visit_expr(&node.left);
        if let Some(link) = self.chain.last_mut() {
            link.is_on_the_right = true;
        }
        self.visit_expr(&node.right);
        self.chain.pop();
    }

    fn visit_expr_unary(&mut self, node: &'ast syn::ExprUnary) {
        let at = node.op.span().byte_range().start;
        for edit in self.take(at, Genre::UnaryOperator) {
            self.add_expression(node.span().byte_range(), edit);
        }
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast syn::ExprStruct) {
        for field in &node.fields {
            let at = field.span().byte_range().start;
            for edit in self.take(at, Genre::StructField) {
                self.add_expression(node.span().byte_range(), edit);
            }
        }
        visit::visit_expr_struct(self, node);
    }

    fn visit_arm(&mut self, node: &'ast syn::Arm) {
        let guard = node.guard.as_ref().map(|(_, guard)| guard);
        let (place, form) = match guard {
            Some(guard) => (guard.span().byte_range(), Form::Guard),
            None => {
                let end = node.pat.span().byte_range().end;
                (end..end, Form::NewGuard)
            }
        };
        for edit in self.take(node.span().byte_range().start, Genre::MatchArm) {
            self.add(place.clone(), form, edit.number, String::new());
        }
        if guard.is_some() {
            for edit in self.take(place.start, Genre::MatchArmGuard) {
                self.add_expression(place.clone(), edit);
            }
        }
        visit::visit_arm(self, node);
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        if node.sig.constness.is_none() {
            self.visit_body(&node.block);
            visit::visit_item_fn(self, node);
        }
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        if node.sig.constness.is_none() {
            self.visit_body(&node.block);
            visit::visit_impl_item_fn(self, node);
        }
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        if let Some(block) = &node.default {
            self.visit_body(block);
        }
        visit::visit_trait_item_fn(self, node);
    }

    fn visit_expr_repeat(&mut self, node: &'ast syn::ExprRepeat) {
        self.visit_expr(&node.expr);
    }

    // What is evaluated by the compiler, and patterns.
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutant of the text by the `nth` place where `old` is.
    fn edit(number: u32, genre: Genre, text: &str, old: &str, nth: usize, new: &str) -> Edit {
        let (start, _) = text.match_indices(old).nth(nth).unwrap();
        Edit {
            number,
            genre,
            range: start..start + old.len(),
            replacement: new.to_owned(),
            function: Some(0..text.len()),
        }
    }

    /// The text with switches, which is Rust; white space and `crate::luge_mutant` are made short.
    fn short(text: &str, edits: &[Edit]) -> String {
        let rendered = switched(text, &edits.iter().collect::<Vec<_>>()).unwrap();
        assert!(rendered.left_out.is_empty());
        syn::parse_file(&rendered.text).unwrap();
        rendered.text.replace("crate::luge_mutant", "M")
    }

    #[test]
    fn several_mutants_of_one_operator_and_within_each_other() {
        use Genre::BinaryOperator as B;
        let text = "fn f(a: u32) { g(a * 2, [a + h(a < 3)]); }";
        let edits = [
            edit(1, B, text, "*", 0, "+"),
            edit(2, B, text, "*", 0, "/"),
            edit(3, B, text, "+", 0, "-"),
            edit(4, B, text, "<", 0, "<="),
        ];
        assert_eq!(
            short(text, &edits),
            "fn f(a: u32) { g((if M(1) { a + 2 } else if M(2) { a / 2 } else { a * 2 }), \
             [(if M(3) { a - h(a < 3) } \
             else { a + h((if M(4) { a <= 3 } else { a < 3 })) })]); }"
        );
    }

    #[test]
    fn a_mutant_is_the_change_of_the_text() {
        use Genre::BinaryOperator as B;
        let switched = |expression: &str, old: &str, nth: usize, new: &str| {
            let text = format!("fn f() {{ {expression} }}");
            let edits = [edit(1, B, &text, old, nth, new)];
            let short = short(&text, &edits);
            short[9..short.len() - 2].to_owned()
        };
        // The product is apart from the difference, the sum is not.
        assert_eq!(
            switched("a - b * c", "*", 0, "/"),
            "a - (if M(1) { b / c } else { b * c })"
        );
        assert_eq!(
            switched("a - b * c", "*", 0, "+"),
            "(if M(1) { a - b + c } else { a - b * c })"
        );
        assert_eq!(
            switched("a * b - c", "*", 0, "+"),
            "(if M(1) { a + b } else { a * b }) - c"
        );
        assert_eq!(
            switched("x || a && b && c", "&&", 0, "||"),
            "(if M(1) { x || a || b && c } else { x || a && b && c })"
        );
        assert_eq!(
            switched("x && (a < b + 1)", "+", 0, "-"),
            "x && (a < (if M(1) { b - 1 } else { b + 1 }))"
        );
        assert_eq!(
            switched("a[i] += b << 1;", "+=", 0, "*="),
            "(if M(1) { a[i] *= b << 1 } else { a[i] += b << 1 });"
        );
    }

    #[test]
    fn bodies_arms_guards_and_fields() {
        let text = "fn f(a: T) -> u8 {\n    // What it is.\n    match a { T(0) => 1, T(b) if b > 9 => -b, _ => 2 }\n}\n\
                    fn g() -> T { T { a: 1, ..x } }";
        let edits = [
            edit(1, Genre::FnValue, text, "match", 0, "Some(1)"),
            edit(2, Genre::FnValue, text, "match", 0, "None"),
            edit(3, Genre::MatchArm, text, "T(0) => 1,", 0, ""),
            edit(4, Genre::MatchArm, text, "T(b) if b > 9 => -b,", 0, ""),
            edit(5, Genre::MatchArmGuard, text, "b > 9", 0, "true"),
            edit(6, Genre::BinaryOperator, text, "> 9", 0, "< 9"),
            edit(7, Genre::UnaryOperator, text, "-b", 0, "b"),
            edit(8, Genre::StructField, text, "a: 1,", 0, ""),
        ];
        // The operator alone is replaced.
        let mut edits = edits.to_vec();
        edits[5].range.end = edits[5].range.start + 1;
        edits[5].replacement = "<".to_owned();
        assert_eq!(
            short(text, &edits),
            "fn f(a: T) -> u8 { if M(1) { return Some(1); } if M(2) { return None; }\n    // What it is.\n    \
             match a { T(0) if !M(3) => 1, \
             T(b) if !M(4) && ((if M(5) { true } else if M(6) { b < 9 } else { b > 9 })) => \
             (if M(7) { b } else { -b }), _ => 2 }\n}\n\
             fn g() -> T { (if M(8) { T {  ..x } } else { T { a: 1, ..x } }) }"
        );
    }

    #[test]
    fn what_no_switch_can_be_in_is_left_out() {
        use Genre::BinaryOperator as B;
        let text = "const N: usize = 1 << 3; \
                    fn f() { let a = [0 * 1; 2 - 1]; if let Some(b) = c && b > 1 + d {} }\n\
                    const fn g() -> u8 { 1 | 2 }";
        let edits = [
            edit(1, B, text, "<<", 0, ">>"),
            edit(2, B, text, "*", 0, "+"),
            edit(3, B, text, "-", 0, "+"),
            edit(4, B, text, "&&", 0, "||"),
            edit(5, B, text, "> 1", 0, ""),
            edit(6, B, text, "+", 0, "-"),
            edit(7, B, text, "|", 0, "^"),
        ];
        let mut edits = edits.to_vec();
        edits[4].range.end -= 2;
        edits[4].replacement = ">=".to_owned();
        let rendered = switched(text, &edits.iter().collect::<Vec<_>>()).unwrap();
        syn::parse_file(&rendered.text).unwrap();
        let mut left_out = rendered.left_out;
        left_out.sort_unstable();
        assert_eq!(left_out, [1, 3, 4, 7]);
    }

    #[test]
    fn errors_are_due_to_the_mutants_around_them() {
        let text = "fn f() -> u8 { 1 + 2 } fn g() {}";
        let mut edits = [
            edit(1, Genre::FnValue, text, "1 + 2", 0, "None"),
            edit(2, Genre::BinaryOperator, text, "+", 0, "-"),
        ];
        for edit in &mut edits {
            edit.function = Some(0..22);
        }
        let rendered = switched(text, &edits.iter().collect::<Vec<_>>()).unwrap();
        let suspects = |part: &str| {
            let start = rendered.text.find(part).unwrap();
            rendered.suspects(&(start..start + part.len())).to_vec()
        };
        assert_eq!(suspects("None"), [1]);
        assert_eq!(suspects("- 2"), [2]);
        assert_eq!(suspects("+ 2"), [2]);
        assert_eq!(suspects("u8"), [1, 2]);
        assert!(suspects("fn g").is_empty());

        let rendered = made(text, &[&edits[0]]);
        assert_eq!(rendered.text, "fn f() -> u8 { None } fn g() {}");
        assert_eq!(rendered.suspects(&(10..12)), [1]);
        assert_eq!(rendered.suspects(&(0..21)), [1]);
        assert!(rendered.suspects(&(22..24)).is_empty());
    }
}
