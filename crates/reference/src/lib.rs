//! Textbook definitions of every phase of the Luge sparse solver: the oracle of its tests.
