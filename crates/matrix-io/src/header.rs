//! What the first line of a file says.

use std::fmt;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// Matrix Market.
    MatrixMarket,
    /// Rutherford–Boeing, or Harwell–Boeing, which is nearly the same.
    RutherfordBoeing,
    /// A sparse matrix of SciPy, by `scipy.sparse.save_npz`.
    Npz,
    /// A dense array of NumPy, by `numpy.save`.
    Npy,
}

/// How the entries are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One line `row column value` for each stored entry.
    Coordinate,
    /// One line for each position, column by column.
    Array,
}

/// What the entries are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// One real number.
    Real,
    /// One whole number.
    Integer,
    /// Real and imaginary part.
    Complex,
    /// Nothing: only positions are stored.
    Pattern,
}

/// Which entries follow from others and are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Symmetry {
    /// None.
    #[default]
    General,
    /// `a[j][i] = a[i][j]`; the lower triangle is stored.
    Symmetric,
    /// `a[j][i] = -a[i][j]`; the lower triangle without the diagonal is stored.
    SkewSymmetric,
    /// `a[j][i]` is the conjugate of `a[i][j]`; the lower triangle is stored, its diagonal is real.
    Hermitian,
}

/// What a file says of its matrix before the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Format of the file.
    pub file: FileFormat,
    /// Layout of the entries. Formats other than Matrix Market count as coordinate unless they are dense.
    pub format: Format,
    /// Type of the values.
    pub field: Field,
    /// Which entries are stored.
    pub symmetry: Symmetry,
    /// Matrix Market: the comment lines between the first line and the size line, without `%` and surrounding
    /// blanks. Rutherford–Boeing: title and key, those that are not blank.
    pub comments: Vec<String>,
}

impl FileFormat {
    /// The name of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MatrixMarket => "Matrix Market",
            Self::RutherfordBoeing => "Rutherford-Boeing",
            Self::Npz => "SciPy npz",
            Self::Npy => "NumPy npy",
        }
    }
}

impl Format {
    /// The word of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coordinate => "coordinate",
            Self::Array => "array",
        }
    }
}

impl Field {
    /// The word of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Integer => "integer",
            Self::Complex => "complex",
            Self::Pattern => "pattern",
        }
    }
}

impl Symmetry {
    /// The word of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Symmetric => "symmetric",
            Self::SkewSymmetric => "skew-symmetric",
            Self::Hermitian => "hermitian",
        }
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Symmetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
