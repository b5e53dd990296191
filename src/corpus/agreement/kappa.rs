//! The statistics: Cohen's and Fleiss' kappa, and Wilson's interval. Pure numbers,
//! independent of what is judged.

/// An agreement beyond chance.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Kappa {
    /// The number of items.
    pub items: usize,
    /// The share of agreement that was observed, 0 to 1.
    pub observed: f64,
    /// The share expected by chance, 0 to 1.
    pub expected: f64,
}

impl Kappa {
    /// From -1 to 1, with 0 for chance agreement; `None` if all answers are of one class,
    /// because then chance would agree fully and the kappa is undefined.
    pub fn value(&self) -> Option<f64> {
        // It is computed from whole counts, so anything this near to 1 is 1.
        let room = 1.0 - self.expected;
        (room > 1e-12).then(|| (self.observed - self.expected) / room)
    }
}

/// Cohen's kappa of two annotators (Cohen 1960, *A coefficient of agreement for
/// nominal scales*): the classes that each gave to the same items, by number.
/// `None` without items.
pub fn cohen(pairs: &[(usize, usize)]) -> Option<Kappa> {
    let classes = pairs.iter().map(|(a, b)| a.max(b) + 1).max()?;
    let items = pairs.len() as f64;
    let mut given = vec![(0_u64, 0_u64); classes];
    for (a, b) in pairs {
        if let Some(count) = given.get_mut(*a) {
            count.0 += 1;
        }
        if let Some(count) = given.get_mut(*b) {
            count.1 += 1;
        }
    }
    let same = pairs.iter().filter(|(a, b)| a == b).count();
    let by_chance = given.iter().map(|(a, b)| (a * b) as f64).sum::<f64>();
    Some(Kappa {
        items: pairs.len(),
        observed: same as f64 / items,
        expected: by_chance / (items * items),
    })
}

/// Fleiss' kappa (Fleiss 1971, *Measuring nominal scale agreement among many
/// raters*): for every item the number of votes for each class. All items must
/// have the same number of votes, at least two. `None` without such items.
pub fn fleiss(table: &[Vec<u64>]) -> Option<Kappa> {
    let votes: u64 = table.first()?.iter().sum();
    if votes < 2 || table.iter().any(|item| item.iter().sum::<u64>() != votes) {
        return None;
    }
    let (items, n) = (table.len() as f64, votes as f64);
    let agreeing = |item: &Vec<u64>| item.iter().map(|c| c * c.saturating_sub(1)).sum::<u64>();
    let agreeing: u64 = table.iter().map(agreeing).sum();
    let classes = table.iter().map(Vec::len).max()?;
    let of_class = |class| {
        table
            .iter()
            .filter_map(move |item| item.get(class))
            .sum::<u64>()
    };
    let shares = (0..classes).map(|class| of_class(class) as f64 / (items * n));
    Some(Kappa {
        items: table.len(),
        observed: agreeing as f64 / (items * n * (n - 1.0)),
        expected: shares.map(|share| share * share).sum(),
    })
}

/// The interval in which a share of `part` in `all` lies with 95 % confidence
/// (Wilson 1927). `None` without items.
pub fn wilson(part: usize, all: usize) -> Option<(f64, f64)> {
    if all == 0 {
        return None;
    }
    // The 97.5 % point of the normal distribution.
    const Z: f64 = 1.959_963_984_540_054;
    let (n, share) = (all as f64, part as f64 / all as f64);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Some((
        ((middle - half) / scale).max(0.0),
        ((middle + half) / scale).min(1.0),
    ))
}
