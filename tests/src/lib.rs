//! What end-to-end tests share: the program under test, its folder, the ledger and its checker.
