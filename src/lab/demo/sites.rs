//! The table of sites: hosts, subjects, and their role in the web.

use super::bank::Subject;

/// The role of a site in the link structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The community of the target topic: its sites link to each other.
    Core,
    /// On topic, but only linked from a bridge; sites with the same number link to each
    /// other.
    Island(u8),
    /// On topic and forbidden as a whole by robots.txt.
    Closed,
    /// The second topic's community.
    Other,
    /// An ordinary site on another subject.
    Noise,
    /// A directory with links to everything.
    Portal,
    /// Pages of dates, each linking to the previous and the next one.
    Calendar,
    /// A link farm with meaningless anchors.
    Farm,
    /// A link farm whose anchors promise the target topic.
    Bait,
}

/// One host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    pub(super) host: &'static str,
    pub(super) title: &'static str,
    pub(super) subject: Subject,
    pub(super) role: Role,
    /// Articles on its own subject.
    pub(super) pages: usize,
    /// Articles on the target topic, on a site of another subject.
    pub(super) guests: usize,
    /// Articles under `/private/`, which robots.txt forbids.
    pub(super) private: usize,
    /// The robots.txt, `None` if the host answers 404.
    pub(super) robots: Option<&'static str>,
    /// Pages in windows-1252, declared by a meta element.
    pub(super) legacy: bool,
}

const OPEN: Option<&str> = Some("User-agent: *\nDisallow:\n");
const SHUT: Option<&str> = Some("User-agent: *\nDisallow: /\n");
const PRIVATE: Option<&str> = Some("User-agent: *\nDisallow: /private/\n");
const SLOW: Option<&str> = Some(
    "# One request at a time, please.\nUser-agent: *\nCrawl-delay: 0.05\nDisallow: /private/\nAllow: /\n",
);
const NAMED: Option<&str> =
    Some("User-agent: OtherBot\nDisallow: /\n\nUser-agent: *\nDisallow: /cgi-bin/\n");

const fn site(
    host: &'static str,
    title: &'static str,
    subject: Subject,
    role: Role,
    pages: usize,
) -> Site {
    Site {
        host,
        title,
        subject,
        role,
        pages,
        guests: 0,
        private: 0,
        robots: None,
        legacy: false,
    }
}

impl Site {
    const fn robots(self, robots: Option<&'static str>) -> Self {
        Self { robots, ..self }
    }
    const fn guests(self, guests: usize) -> Self {
        Self { guests, ..self }
    }
    const fn private(self, private: usize) -> Self {
        Self { private, ..self }
    }
    const fn legacy(self) -> Self {
        Self {
            legacy: true,
            ..self
        }
    }

    /// Whether the site is about the target topic.
    pub(super) fn on_topic(&self) -> bool {
        self.subject == Subject::Lighthouses
    }

    /// The address of `path` on this host.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }
}

use Role::{Bait, Calendar, Closed, Core, Farm, Island, Noise, Other, Portal};
use Subject::{
    Beekeeping, Cooking, Council, Football, Gardening, Lighthouses, Plain, Software, Tax,
};

/// Every site of the demo web.
pub(super) const SITES: &[Site] = &[
    // The target topic.
    site(
        "lanternroom.test",
        "The Lantern Room",
        Lighthouses,
        Core,
        12,
    )
    .robots(OPEN),
    site(
        "keepers-log.test",
        "The Keepers' Log",
        Lighthouses,
        Core,
        11,
    )
    .robots(PRIVATE)
    .private(3),
    site("prism-society.test", "Prism Society", Lighthouses, Core, 11),
    site(
        "coast-towers.test",
        "Towers of the Coast",
        Lighthouses,
        Core,
        11,
    )
    .robots(NAMED),
    site("seamarks.test", "Sea Marks", Lighthouses, Core, 10)
        .robots(PRIVATE)
        .private(2),
    site(
        "nightlight-trust.test",
        "Night Light Trust",
        Lighthouses,
        Core,
        10,
    )
    .legacy(),
    site(
        "skerry-light.test",
        "Skerry Light",
        Lighthouses,
        Island(1),
        9,
    )
    .robots(OPEN),
    site(
        "rockstation.test",
        "Rock Station",
        Lighthouses,
        Island(1),
        9,
    ),
    site(
        "capelantern.test",
        "Cape Lantern",
        Lighthouses,
        Island(2),
        9,
    ),
    site(
        "lamphouse.test",
        "The Lamp House",
        Lighthouses,
        Island(2),
        9,
    )
    .robots(OPEN),
    site("farpoint.test", "Far Point", Lighthouses, Island(3), 12),
    site(
        "closed-archive.test",
        "The Closed Archive",
        Lighthouses,
        Closed,
        6,
    )
    .robots(SHUT),
    // The second topic.
    site("hivenotes.test", "Hive Notes", Beekeeping, Other, 9).robots(OPEN),
    site(
        "smoker-and-veil.test",
        "Smoker and Veil",
        Beekeeping,
        Other,
        8,
    ),
    site("queenrearing.test", "Queen Rearing", Beekeeping, Other, 8),
    site("waxandhoney.test", "Wax and Honey", Beekeeping, Other, 8).robots(NAMED),
    site(
        "apiary-journal.test",
        "Apiary Journal",
        Beekeeping,
        Other,
        9,
    ),
    site("meadow-bees.test", "Meadow Bees", Beekeeping, Other, 8),
    site("skep.test", "The Skep", Beekeeping, Other, 7).legacy(),
    site("honeyfair.test", "Honey Fair", Beekeeping, Other, 7),
    // Everything else.
    site("slowkitchen.test", "Slow Kitchen", Cooking, Noise, 10),
    site("breadbench.test", "Bread Bench", Cooking, Noise, 9).robots(OPEN),
    site("soupkettle.test", "Soup Kettle", Cooking, Noise, 9),
    site("spicebox.test", "Spice Box", Cooking, Noise, 9),
    site("sundaytable.test", "Sunday Table", Cooking, Noise, 9).legacy(),
    site("terraces.test", "The Terraces", Football, Noise, 10),
    site("offside.test", "Offside", Football, Noise, 10),
    site("leaguenotes.test", "League Notes", Football, Noise, 9).robots(OPEN),
    site("cupties.test", "Cup Ties", Football, Noise, 9),
    site("kickabout.test", "Kickabout", Football, Noise, 9),
    site("borderplants.test", "Border Plants", Gardening, Noise, 9),
    site("allotment.test", "The Allotment", Gardening, Noise, 10),
    site("pruning.test", "Pruning", Gardening, Noise, 9),
    site("pottingshed.test", "Potting Shed", Gardening, Noise, 9).robots(NAMED),
    site(
        "seafront-garden.test",
        "Seafront Garden",
        Gardening,
        Noise,
        9,
    )
    .guests(2),
    site("releasenotes.test", "Release Notes", Software, Noise, 10),
    site("buildlog.test", "Build Log", Software, Noise, 9),
    site("packagewatch.test", "Package Watch", Software, Noise, 9).robots(OPEN),
    site("bytewise.test", "Bytewise", Software, Noise, 9),
    site(
        "ottermouth-council.test",
        "Ottermouth Council",
        Council,
        Noise,
        11,
    )
    .guests(2),
    site("harbour-board.test", "Harbour Board", Council, Noise, 10)
        .robots(SLOW)
        .guests(3)
        .private(2),
    site("townhall.test", "Town Hall", Council, Noise, 9),
    site("bus-times.test", "Bus Times", Council, Noise, 9),
    site(
        "saltwick-council.test",
        "Saltwick Council",
        Council,
        Noise,
        9,
    )
    .guests(1),
    site("ledgerdesk.test", "Ledger Desk", Tax, Noise, 9),
    site("taxquestions.test", "Tax Questions", Tax, Noise, 9).robots(OPEN),
    site("gateway.test", "Gateway", Plain, Portal, 8).robots(OPEN),
    site("linkpile.test", "Link Pile", Plain, Portal, 6),
    site("coast-visitor.test", "The Coast Visitor", Plain, Portal, 6).guests(2),
    site("daybook.test", "Day Book", Council, Calendar, 36),
    // Two farms.
    site("promo-alpha.test", "Alpha Offers", Software, Farm, 8),
    site("promo-beta.test", "Beta Offers", Tax, Farm, 8),
    site("promo-gamma.test", "Gamma Offers", Cooking, Farm, 8),
    site("promo-delta.test", "Delta Offers", Football, Farm, 8),
    site("bestpix.test", "Best Pictures", Football, Bait, 8),
    site("topdeals.test", "Top Deals", Tax, Bait, 8),
    site("clickgold.test", "Click Gold", Software, Bait, 8),
];
