//! Ready tools with their reconcilers.
