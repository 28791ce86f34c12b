//! Errors of levelization.

use luge_sparse::Cancelled;

/// Why no levels were produced.
#[derive(Debug, thiserror::Error)]
pub enum LevelizeError {
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
