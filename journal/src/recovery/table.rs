//! The decision table: what it means that reading the log came to this place.
//!
//! A torn end is what a crash leaves of the last group: nobody was told that it is recorded, and
//! it is cut. Damage is anything missing that had been durable. The two are told apart by
//! witnesses, never by looks.

/// What was read where the next batch should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// A batch with the next sequence, all of whose frames check out.
    Valid,
    /// Zeros to the end of the segment, or its end.
    Zeros,
    /// Bytes that are no frame, or not the one that belongs here.
    BadFrame,
    /// A head that checks out, and something else than all its frames.
    IncompleteBatch,
    /// The file ends where it should not.
    ShortFile,
}

/// A case to be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// What was read.
    pub read: Read,
    /// A head further on checks out and proves that what should be here had been durable.
    pub later: bool,
    /// Somebody else (the mark, the projection) says that what should be here had been durable.
    pub witness: bool,
    /// No later segment is in use.
    pub last: bool,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Take the batch and read on.
    Take,
    /// The log ends here, cleanly.
    End,
    /// The segment is full; read on in the next.
    NextSegment,
    /// A torn end: cut it.
    Cut,
    /// Stop: something that was durable is damaged here.
    Damaged,
    /// Stop: the log ends here, cleanly, but more had been durable.
    Shortened,
}

/// A row of the table. `None` stands for either.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Any of these was read.
    pub read: &'static [Read],
    /// As [`Case::later`].
    pub later: Option<bool>,
    /// As [`Case::witness`].
    pub witness: Option<bool>,
    /// As [`Case::last`].
    pub last: Option<bool>,
    /// What to do then.
    pub verdict: Verdict,
}

const BROKEN: &[Read] = &[Read::BadFrame, Read::IncompleteBatch, Read::ShortFile];
const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);
const ANY: Option<bool> = None;

const fn row(
    read: &'static [Read],
    later: Option<bool>,
    witness: Option<bool>,
    last: Option<bool>,
    verdict: Verdict,
) -> Row {
    Row {
        read,
        later,
        witness,
        last,
        verdict,
    }
}

/// The table. Exactly one row fits each case.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    //  what was read     later  witness  last
    row(&[Read::Valid],   ANY,   ANY,     ANY,  Verdict::Take),
    row(&[Read::Zeros],   NO,    NO,      YES,  Verdict::End),
    row(&[Read::Zeros],   NO,    YES,     YES,  Verdict::Shortened),
    row(&[Read::Zeros],   NO,    ANY,     NO,   Verdict::NextSegment),
    row(&[Read::Zeros],   YES,   ANY,     ANY,  Verdict::Damaged),
    row(BROKEN,           NO,    NO,      YES,  Verdict::Cut),
    row(BROKEN,           NO,    YES,     YES,  Verdict::Damaged),
    row(BROKEN,           NO,    ANY,     NO,   Verdict::Damaged),
    row(BROKEN,           YES,   ANY,     ANY,  Verdict::Damaged),
];

impl Row {
    fn fits(&self, case: Case) -> bool {
        let fits = |wanted: Option<bool>, is: bool| wanted.is_none_or(|wanted| wanted == is);
        self.read.contains(&case.read)
            && fits(self.later, case.later)
            && fits(self.witness, case.witness)
            && fits(self.last, case.last)
    }
}

/// Judges a case.
#[must_use]
pub fn judge(case: Case) -> Verdict {
    TABLE
        .iter()
        .find(|row| row.fits(case))
        .map_or(Verdict::Damaged, |row| row.verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_exactly_one_row() {
        let reads = [
            Read::Valid,
            Read::Zeros,
            Read::BadFrame,
            Read::IncompleteBatch,
            Read::ShortFile,
        ];
        let mut cases = 0;
        let mut used = vec![0; TABLE.len()];
        for read in reads {
            for bits in 0..8 {
                let case = Case {
                    read,
                    later: bits & 1 != 0,
                    witness: bits & 2 != 0,
                    last: bits & 4 != 0,
                };
                let rows: Vec<usize> = (0..TABLE.len())
                    .filter(|at| TABLE[*at].fits(case))
                    .collect();
                assert_eq!(rows.len(), 1, "{case:?} fits rows {rows:?}");
                used[rows[0]] += 1;
                cases += 1;
                // What a witness or a later batch vouches for is never cut or passed over.
                let vouched = case.later || (case.witness && case.last);
                if vouched && read != Read::Valid {
                    assert!(
                        matches!(judge(case), Verdict::Damaged | Verdict::Shortened),
                        "{case:?}"
                    );
                }
            }
        }
        assert_eq!(cases, 40);
        assert!(used.iter().all(|count| *count > 0), "a row fits no case");
    }
}
