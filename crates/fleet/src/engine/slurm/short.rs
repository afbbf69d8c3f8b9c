//! Slurm's short lists: `gnode[10,20-22]` and `2(x3),1`.

/// The machines of a list, at most `n_max`; none if it makes no sense.
pub(super) fn nodes(text: &str, n_max: usize) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for part in split(text)? {
        all.extend(expand(part, n_max)?);
        if all.len() > n_max {
            return None;
        }
    }
    (!all.is_empty() && all.iter().all(|name| !name.is_empty())).then_some(all)
}

/// How many tasks each machine has.
pub(super) fn counts(text: &str, n_max: usize) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.trim().split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (part.trim(), 1_usize),
        };
        if times == 0 || all.len().checked_add(times)? > n_max {
            return None;
        }
        let count: usize = count.parse().ok().filter(|count| (1..=n_max).contains(count))?;
        all.resize(all.len() + times, count);
    }
    Some(all)
}

/// The parts between commas that are not inside of brackets.
fn split(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_inside = false;
    for (at, c) in text.char_indices() {
        match c {
            '[' if is_inside => return None,
            '[' => is_inside = true,
            ']' if !is_inside => return None,
            ']' => is_inside = false,
            ',' if !is_inside => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    (!is_inside).then_some(parts)
}

/// `a[1-2]b` is `a1b` and `a2b`; there may be several brackets.
fn expand(part: &str, n_max: usize) -> Option<Vec<String>> {
    let Some((before, rest)) = part.split_once('[') else { return Some(vec![part.to_string()]) };
    let (inside, after) = rest.split_once(']')?;
    let endings = expand(after, n_max)?;
    let mut all = Vec::new();
    for range in inside.split(',') {
        for number in numbers(range.trim(), n_max)? {
            all.extend(endings.iter().map(|ending| format!("{before}{number}{ending}")));
            if all.len() > n_max {
                return None;
            }
        }
    }
    Some(all)
}

/// `08-10` is 08, 09 and 10: numbers keep their zeros.
fn numbers(range: &str, n_max: usize) -> Option<Vec<String>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let width = first.len();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(first) || !is_number(last) {
        return None;
    }
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let n = last.checked_sub(first)?;
    let fits = n < n_max as u64;
    fits.then(|| (first..=last).map(|number| format!("{number:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(nodes(text, 100).map(|all| all.join(" ")).as_deref(), Some(expected), "{text}");
    }

    #[test]
    fn machines() {
        check("vm", "vm");
        check("a,b", "a b");
        check("gnode[10,20,25,37]", "gnode10 gnode20 gnode25 gnode37");
        check("n[08-11]", "n08 n09 n10 n11");
        check("n[1-2,5],login,g[3]", "n1 n2 n5 login g3");
        check("rack[1-2]node[1-2]-ib", "rack1node1-ib rack1node2-ib rack2node1-ib rack2node2-ib");
    }

    #[test]
    fn lists_that_are_none() {
        for text in [
            "",
            "a,",
            "a[1",
            "a]1",
            "a[]",
            "a[x]",
            "a[3-1]",
            "a[[1]]",
            "a[1-]",
            "a[1-101]",
            "a[0-99999999999999999999]",
            "a[1-60]b[1-60]",
        ] {
            assert_eq!(nodes(text, 100), None, "{text}");
        }
    }

    #[test]
    fn tasks() {
        assert_eq!(counts("4", 100), Some(vec![4]));
        assert_eq!(counts("2(x3),1", 100), Some(vec![2, 2, 2, 1]));
        for text in ["", "x", "2(x", "2(x0)", "0", "1(x101)", "1,", "18446744073709551616"] {
            assert_eq!(counts(text, 100), None, "{text}");
        }
    }
}
