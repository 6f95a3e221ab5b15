//! Models of ringlog's atomic protocols, run by loom.
