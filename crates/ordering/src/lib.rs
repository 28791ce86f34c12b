//! Matching, scaling, block triangular form and fill-reducing orderings.
