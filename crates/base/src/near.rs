//! The known name that was probably meant by an unknown one.

use std::fmt;

/// A guess for an error message: nothing, or ` Did you mean `x`?`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DidYouMean(pub Option<String>);

impl DidYouMean {
    /// The known name that is nearest to this one, if any is near.
    pub fn among<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        DidYouMean(nearest(name, known).map(str::to_string))
    }
}

impl fmt::Display for DidYouMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(f, " Did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

/// The known name with the fewest slips of the finger between it and `name`; none if there are too
/// many. Of several the first. Upper and lower case differ less than letters do.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters_of = |text: &str| text.chars().collect::<Vec<char>>();
    let (wanted, written) = (letters_of(&name.to_lowercase()), letters_of(name));
    let score = |known: &str| {
        let letters = letters_of(&known.to_lowercase());
        let longer = letters.len().max(wanted.len());
        // Names of two letters are near to everything.
        let allowed = if longer <= 2 { 0 } else { (longer / 4).clamp(1, 3) };
        if letters.len().abs_diff(wanted.len()) > allowed {
            return None;
        }
        let n_slips = slips(&wanted, &letters);
        (n_slips <= allowed).then(|| (n_slips, slips(&written, &letters_of(known))))
    };
    let scored = known.into_iter().filter_map(|known| Some((score(known)?, known)));
    scored.min_by_key(|(score, _)| *score).map(|(_, known)| known)
}

/// How many letters were changed, added, left out or swapped with their neighbour.
fn slips(left: &[char], right: &[char]) -> usize {
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let changed = above[j] + usize::from(a != b);
            let mut best = changed.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["fc", "relu", "relu6", "sigmoid", "softmax", "x", "--worker_num"];

    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(nearest(name, KNOWN.iter().copied()), expected, "{name}");
    }

    #[test]
    fn slips_of_the_finger() {
        check("rellu", Some("relu"));
        check("sigmiod", Some("sigmoid"));
        check("X", Some("x"));
        check("FC", Some("fc"));
        check("--woker_num", Some("--worker_num"));
        check("--workernum", Some("--worker_num"));
        check("softmx", Some("softmax"));
        assert_eq!(nearest("Exeuctor", ["executor", "Executor"]), Some("Executor"));
    }

    #[test]
    fn other_words_are_no_slips() {
        check("conv2d", None);
        check("y", None);
        check("fd", None);
        check("", None);
    }

    #[test]
    fn a_guess_is_a_sentence() {
        assert_eq!(DidYouMean::among("X", ["x"]).to_string(), " Did you mean `x`?");
        assert_eq!(DidYouMean::among("image", ["x"]).to_string(), "");
    }
}
