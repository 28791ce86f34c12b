//! The bar of a long run, on standard error: how many matrices are done, and a line for each.
//!
//! Where standard error is no terminal there is no bar, and the lines are written all the same.

use indicatif::{ProgressBar, ProgressStyle};

/// A run over many matrices.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of a run over `count` matrices.
    ///
    /// # Panics
    ///
    /// Never: the template is valid.
    pub fn over(count: usize) -> Self {
        let bar = ProgressBar::new(count as u64);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
        bar.set_style(style.expect("the template is valid"));
        Self { bar }
    }

    /// The next one begins.
    pub fn begin(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    /// It is done, and this is said of it.
    pub fn end(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
