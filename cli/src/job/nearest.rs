//! Finds the name that somebody may have meant.

/// The known name nearest to `name`, if one is near enough to be meant.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// A remedy for a name that is not known: the nearest one, or all of them.
pub(super) fn remedy<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(candidate) = nearest(name, known.clone()) {
        return format!("did you mean \"{candidate}\"?");
    }
    let all: Vec<&str> = known.into_iter().collect();
    if all.is_empty() {
        "there are none".to_owned()
    } else {
        format!("known: {}", all.join(", "))
    }
}

/// Insertions, deletions, replacements and swaps of neighbours that make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let width = right.len() + 1;
    let mut rows = vec![(0..width).collect::<Vec<usize>>()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..width {
            let same = left[i - 1] == right[j - 1];
            let mut best = (rows[i - 1][j] + 1)
                .min(row[j - 1] + 1)
                .min(rows[i - 1][j - 1] + usize::from(!same));
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_are_found_and_other_words_are_not() {
        let known = ["reconcile", "recovery", "run", "timeout"];
        assert_eq!(nearest("reconcille", known), Some("reconcile"));
        assert_eq!(nearest("Timeout", known), Some("timeout"));
        assert_eq!(nearest("timoeut", known), Some("timeout"));
        assert_eq!(nearest("rnu", known), Some("run"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(remedy("x", []), "there are none");
        assert_eq!(remedy("colour", ["a", "b"]), "known: a, b");
    }
}
