//! The sentence banks, the values of their slots, and the random numbers.
//!
//! A bank is a text file of sentences written for this project, one per line, with the slots
//! `{name}`, `{place}` and `{year}`. Two lines in five serve only training, the others only pages,
//! and the slots of the two are filled from disjoint lists: a model trained on the training texts
//! has seen no sentence of the pages.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// What a page or a sentence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Subject {
    Lighthouses,
    Beekeeping,
    Cooking,
    Football,
    Gardening,
    Software,
    Council,
    Tax,
    /// General statements of sites: contact, membership, thanks.
    Plain,
}

impl Subject {
    pub(super) const ALL: [Subject; 9] = [
        Subject::Lighthouses,
        Subject::Beekeeping,
        Subject::Cooking,
        Subject::Football,
        Subject::Gardening,
        Subject::Software,
        Subject::Council,
        Subject::Tax,
        Subject::Plain,
    ];

    /// The name used in labels and file names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Subject::Lighthouses => "lighthouses",
            Subject::Beekeeping => "beekeeping",
            Subject::Cooking => "cooking",
            Subject::Football => "football",
            Subject::Gardening => "gardening",
            Subject::Software => "software",
            Subject::Council => "council",
            Subject::Tax => "tax",
            Subject::Plain => "plain",
        }
    }

    /// The whole bank, one sentence per line.
    pub(super) fn bank(self) -> &'static str {
        match self {
            Subject::Lighthouses => include_str!("lighthouses.txt"),
            Subject::Beekeeping => include_str!("beekeeping.txt"),
            Subject::Cooking => include_str!("cooking.txt"),
            Subject::Football => include_str!("football.txt"),
            Subject::Gardening => include_str!("gardening.txt"),
            Subject::Software => include_str!("software.txt"),
            Subject::Council => include_str!("council.txt"),
            Subject::Tax => include_str!("tax.txt"),
            Subject::Plain => include_str!("plain.txt"),
        }
    }

    /// The sentences of one share of the bank, slots unfilled.
    pub(super) fn sentences(self, share: BankShare) -> Vec<&'static str> {
        let training = |i: usize| i % 5 < 2;
        let lines = self.bank().lines().enumerate();
        lines
            .filter(|(i, _)| training(*i) == (share == BankShare::Training))
            .map(|(_, line)| line)
            .collect()
    }

    /// Patterns of page titles, slots unfilled.
    pub(super) fn titles(self) -> &'static [&'static str] {
        match self {
            Subject::Lighthouses => &[
                "The lighthouse at {place}",
                "Keepers of the {place} light",
                "The great lens of {place}",
                "A night in the lantern room of {place}",
                "The fog signal at {place}",
                "{name}, keeper of the light",
                "Building the tower on the {place} reef",
                "The lamp and the clockwork of {place} lighthouse",
                "The wreck below the lighthouse of {place}",
                "The harbour light of {place}",
                "From oil lamp to electric light at {place}",
                "The lightship and the lighthouse of {place}",
                "A lighthouse log of {year}",
                "The leading lights of {place}",
                "Restoring the lantern of {place}",
                "The last keeper of {place} lighthouse",
            ],
            Subject::Beekeeping => &[
                "The bees of {place}",
                "Swarms in the year {year}",
                "Queen rearing with {name}",
                "Honey from {place}",
                "Wintering the hives at {place}",
                "The varroa mite at {place}",
                "An apiary above {place}",
                "Notes of a beekeeper, {year}",
                "Wax, comb and honey at {place}",
                "A first hive in {place}",
            ],
            Subject::Cooking => &[
                "Soup as in {place}",
                "A loaf for {name}",
                "Supper in {place}",
                "The cook's notes of {year}",
                "Dumplings, stews and gravies",
                "Baking with {name}",
                "Sunday dinner at {place}",
            ],
            Subject::Football => &[
                "{place} United held to a draw",
                "Late goal sinks {place}",
                "{name} signs for {place}",
                "The cup run of {year}",
                "Match report: {place} at home",
                "League table and fixtures {year}",
                "Penalties in {place}",
            ],
            Subject::Gardening => &[
                "A border in {place}",
                "{name} on roses",
                "The allotment in {year}",
                "What to sow in {place}",
                "Pruning with {name}",
                "Bulbs, beds and compost",
                "The walled garden of {place}",
            ],
            Subject::Software => &[
                "Release notes of {year}",
                "Upgrading the server at {place}",
                "{name} on parsers",
                "A bug in the cache",
                "Build report for {year}",
                "The command line tool, explained",
                "What changed in the {place} release",
            ],
            Subject::Council => &[
                "Minutes of the {place} council",
                "Planning decisions for {place}",
                "Road works in {place}",
                "Budget of the year {year}",
                "Councillor {name} reports",
                "Refuse, parking and permits in {place}",
                "Timetable and notices for {place}",
            ],
            Subject::Tax => &[
                "Filing the return for {year}",
                "{name} on allowances",
                "The revenue office in {place}",
                "Deductions explained",
                "Value added tax for small firms",
                "What changed in the tax year {year}",
            ],
            Subject::Plain => &["About us", "Notes of {year}"],
        }
    }
}

/// The part of a bank, with its slot values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BankShare {
    Training,
    Pages,
}

const PAGE_PLACES: &[&str] = &[
    "Skerravoe",
    "Ottermouth",
    "Saltwick",
    "Brannoch",
    "Cape Farrow",
    "Hallin Ness",
    "Mewstone",
    "Port Ansel",
    "Grimsay Point",
    "Tarn Head",
    "Wrackness",
    "Coldbeach",
    "Morven Sound",
    "Pellan Rock",
    "Eastrey",
    "Gannet Isle",
    "Dunmarra",
    "Little Haven",
    "Corvig",
    "Sandray Bar",
    "Thornsea",
    "Kestle Bay",
    "Lowmoor",
    "Appleford",
    "Inverlay",
    "Ravensby",
    "Stoke Ferris",
    "Marlow Cross",
    "Hexley",
    "Quarrington",
    "Île Dorée",
    "Bjørnvåg",
    "Sankt Jürgen",
    "Peña Alta",
];
const PAGE_NAMES: &[&str] = &[
    "Isbel Marrow",
    "Tom Quillan",
    "Agnes Roe",
    "Hamish Tait",
    "Petra Lund",
    "Elias Thorne",
    "Judith Pascoe",
    "Owen Carrick",
    "Marta Silva",
    "Ned Farrow",
    "Grace Whitlock",
    "Jonas Bley",
    "Ruth Ambler",
    "Colm Devane",
    "Zoë Larkin",
    "André Masson",
    "Hilda Stroem",
    "Bert Okafor",
];
const TRAINING_PLACES: &[&str] = &[
    "Aldersea",
    "Burnhead",
    "Carrow Point",
    "Duncraig",
    "Elmsport",
    "Fennoway",
    "Garth Isle",
    "Holmsey",
    "Iverness Bay",
    "Kirkholm",
    "Langrock",
    "Millsand",
    "Northaven",
    "Orrin Head",
    "Pentire",
    "Quoyness",
    "Rossall",
    "Southwold Ness",
    "Torran",
    "Ulvay",
    "Varne Rock",
    "Whitby Sands",
    "Yarrow Cape",
    "Ashburn",
    "Brackley",
    "Castle Dunn",
    "Dornoch Bay",
    "Easton",
    "Fairlie",
    "Greyabbey",
    "Harwick",
    "Inchmore",
    "Jura Sound",
    "Kelso",
    "Lynmouth",
    "Marsden",
    "Newhaven",
    "Oxwich",
    "Portree",
    "Ramsay",
];
const TRAINING_NAMES: &[&str] = &[
    "Walter Gill",
    "Ann Sedge",
    "Robert Tarrant",
    "Ellen Moss",
    "Peter Holt",
    "Clara Winch",
    "Simon Drury",
    "Mary Keel",
    "James Corrie",
    "Sarah Bright",
    "Henry Lyle",
    "Margaret Ford",
    "William Pask",
    "Alice Burrow",
    "George Hendry",
    "Emma Thwaite",
    "Charles Nairn",
    "Jane Ormond",
    "David Selby",
    "Hannah Crewe",
    "Edward Lisle",
    "Martha Penn",
    "Arthur Boyd",
    "Lucy Garrow",
    "Samuel Venn",
    "Rose Tully",
    "Daniel Frayne",
    "Edith Marsh",
    "Hugh Lorimer",
    "Dora Keane",
    "Philip Strang",
    "Nora Bell",
    "Francis Hay",
    "Kate Orchard",
    "Andrew Muir",
    "Flora Baines",
    "Alfred Coyle",
    "Mabel Rudd",
    "Thomas Wain",
    "Helen Crabbe",
];

impl BankShare {
    /// The places that fill `{place}`.
    pub(super) fn places(self) -> &'static [&'static str] {
        match self {
            BankShare::Training => TRAINING_PLACES,
            BankShare::Pages => PAGE_PLACES,
        }
    }

    /// The people who fill `{name}`.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            BankShare::Training => TRAINING_NAMES,
            BankShare::Pages => PAGE_NAMES,
        }
    }
}

/// The values of the slots of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots {
    pub(super) name: &'static str,
    pub(super) place: &'static str,
    pub(super) year: usize,
}

impl Slots {
    pub(super) fn draw(dice: &mut Dice, share: BankShare) -> Self {
        Self {
            name: dice.pick(share.names()),
            place: dice.pick(share.places()),
            year: 1790 + dice.below(220),
        }
    }

    pub(super) fn fill(&self, pattern: &str) -> String {
        pattern
            .replace("{name}", self.name)
            .replace("{place}", self.place)
            .replace("{year}", &self.year.to_string())
    }
}

/// A stream of random numbers that depends only on a label, so that a change to one page
/// leaves all others unchanged. ChaCha8 is specified to the bit, and `rand`'s sampling is
/// not used, because it may change between versions.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    pub(super) fn new(label: &str) -> Self {
        let seed = Sha256::digest(format!("the demo web: {label}").as_bytes());
        Self(ChaCha8Rng::from_seed(seed.into()))
    }

    /// 0 to `n - 1`, and 0 where `n` is 0; the bias of the remainder is below
    /// one in a billion for any `n` used here.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.0.next_u64() % n).unwrap_or(0)
    }

    /// True in `percent` of all cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`; the default if there are none.
    pub(super) fn pick<T: Copy + Default>(&mut self, items: &[T]) -> T {
        let i = self.below(items.len());
        items.get(i).copied().unwrap_or_default()
    }

    /// Up to `n` distinct elements of `items`, in random order.
    pub(super) fn some<T: Copy>(&mut self, items: &[T], n: usize) -> Vec<T> {
        let mut items = items.to_vec();
        let n = n.min(items.len());
        for i in 0..n {
            let j = i + self.below(items.len() - i);
            items.swap(i, j);
        }
        items.truncate(n);
        items
    }
}
