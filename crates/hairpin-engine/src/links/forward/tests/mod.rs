//! Tests of the loop.
