//! An epoch-protected cell: read under a guard that never leaves the call, replaced, retired.
