//! The address guard: which IP addresses a crawl may reach.
//!
//! A page can name any host, and a name can resolve to any address. Without this guard, a link
//! would be enough to make the crawler contact the router, the cloud's metadata service or a
//! database on its own machine. So every address in IANA's special-purpose registries (RFC 6890 and
//! its updates), multicast and reserved space is refused, even those that the registry calls
//! globally reachable: no page is published there.
//!
//! An IPv6 address that contains an IPv4 one (mapped, translated, NAT64, 6to4) is judged by that
//! one; one whose interface identifier contains an IPv4 address (ISATAP) is judged by both. Among
//! the others only 2000::/3 is allocated for the public internet, and everything else is refused as
//! well.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is refused: the purpose of its block and the document that defines it;
/// `None` for a public internet address.
pub fn special_purpose(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

/// The addresses of a name that may be connected to.
///
/// All of them with `allow_private`, otherwise the public ones.
///
/// # Errors
///
/// The first address, if there are addresses and none is permitted.
pub fn permitted(addresses: Vec<IpAddr>, allow_private: bool) -> Result<Vec<IpAddr>, IpAddr> {
    if allow_private {
        return Ok(addresses);
    }
    let first = addresses.first().copied();
    let public: Vec<_> = addresses
        .into_iter()
        .filter(|a| special_purpose(*a).is_none())
        .collect();
    match first {
        Some(refused) if public.is_empty() => Err(refused),
        _ => Ok(public),
    }
}

/// Blocks of the IANA IPv4 Special-Purpose Address Registry, and multicast.
#[rustfmt::skip]
const V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::new(0, 0, 0, 0),         8, "\"this network\", RFC 791"),
    (Ipv4Addr::new(10, 0, 0, 0),        8, "private use, RFC 1918"),
    (Ipv4Addr::new(100, 64, 0, 0),     10, "carrier-grade NAT, RFC 6598"),
    (Ipv4Addr::new(127, 0, 0, 0),       8, "loopback, RFC 1122"),
    (Ipv4Addr::new(169, 254, 0, 0),    16, "link-local, RFC 3927"),
    (Ipv4Addr::new(172, 16, 0, 0),     12, "private use, RFC 1918"),
    (Ipv4Addr::new(192, 0, 0, 0),      24, "IETF protocol assignments, RFC 6890"),
    (Ipv4Addr::new(192, 0, 2, 0),      24, "TEST-NET-1, RFC 5737"),
    (Ipv4Addr::new(192, 31, 196, 0),   24, "AS112, RFC 7535"),
    (Ipv4Addr::new(192, 52, 193, 0),   24, "AMT, RFC 7450"),
    (Ipv4Addr::new(192, 88, 99, 0),    24, "6to4 relay anycast, RFC 7526"),
    (Ipv4Addr::new(192, 168, 0, 0),    16, "private use, RFC 1918"),
    (Ipv4Addr::new(192, 175, 48, 0),   24, "AS112, RFC 7534"),
    (Ipv4Addr::new(198, 18, 0, 0),     15, "benchmarking, RFC 2544"),
    (Ipv4Addr::new(198, 51, 100, 0),   24, "TEST-NET-2, RFC 5737"),
    (Ipv4Addr::new(203, 0, 113, 0),    24, "TEST-NET-3, RFC 5737"),
    (Ipv4Addr::new(224, 0, 0, 0),       4, "multicast, RFC 5771"),
    (Ipv4Addr::new(255, 255, 255, 255), 32, "limited broadcast, RFC 919"),
    (Ipv4Addr::new(240, 0, 0, 0),       4, "reserved, RFC 1112"),
];

/// Blocks of the IANA IPv6 Special-Purpose Address Registry, site-local and multicast.
/// Those that contain an IPv4 address are in [`embedded_v4`].
#[rustfmt::skip]
const V6: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::UNSPECIFIED,                            128, "unspecified, RFC 4291"),
    (Ipv6Addr::LOCALHOST,                              128, "loopback, RFC 4291"),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0),             96, "IPv4-compatible, RFC 4291"),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0),     48, "local-use NAT64, RFC 8215"),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0),         64, "discard-only, RFC 6666"),
    (Ipv6Addr::new(0x100, 0, 0, 1, 0, 0, 0, 0),         64, "dummy prefix, RFC 9780"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0),        32, "Teredo, RFC 4380"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0),        23, "IETF protocol assignments, RFC 2928"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),    32, "documentation, RFC 3849"),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, "AS112, RFC 7534"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0),        20, "documentation, RFC 9637"),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0),        16, "segment routing, RFC 9602"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0),         7, "unique local, RFC 4193"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),        10, "link-local, RFC 4291"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0),        10, "site-local, RFC 3879"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0),         8, "multicast, RFC 4291"),
];

/// The prefix from which IANA assigns public internet addresses.
const GLOBAL_UNICAST: u128 = 0b001;
/// The bits before the IPv4 address in an ISATAP interface identifier, for a public
/// address or a private one (RFC 5214 section 6.1).
const ISATAP: [u128; 2] = [0x0200_5efe, 0x5efe];

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    V4.iter()
        .find(|(net, length, _)| (bits ^ net.to_bits()) >> (32 - length) == 0)
        .map(|(_, _, why)| *why)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(v4) = embedded_v4(address) {
        return special_v4(v4);
    }
    let bits = address.to_bits();
    let block = V6
        .iter()
        .find(|(net, length, _)| (bits ^ net.to_bits()) >> (128 - length) == 0)
        .map(|(_, _, why)| *why);
    if block.is_some() || bits >> 125 != GLOBAL_UNICAST {
        return block.or(Some("not global unicast, RFC 4291"));
    }
    if ISATAP.contains(&(bits >> 32 & 0xffff_ffff)) {
        special_v4(Ipv4Addr::from_bits((bits & 0xffff_ffff) as u32))
    } else {
        None
    }
}

/// The IPv4 address inside an IPv6 one: `::ffff:0:0/96` (mapped, RFC 4291 section
/// 2.5.5.2), `::ffff:0:0:0/96` (translated, RFC 2765 section 2.1), `64:ff9b::/96` (NAT64,
/// RFC 6052) and `2002::/16` (6to4, RFC 3056). Teredo contains one too, obfuscated, and is
/// refused as a whole.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let last = || Ipv4Addr::from_bits((bits & 0xffff_ffff) as u32);
    match (bits >> 32, bits >> 112) {
        (0xffff | 0xffff_0000, _) => Some(last()),
        (prefix, _) if prefix == 0x64_ff9b_u128 << 64 => Some(last()),
        (_, 0x2002) => Some(Ipv4Addr::from_bits(((bits >> 80) & 0xffff_ffff) as u32)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> Option<&'static str> {
        special_purpose(text.parse().unwrap())
    }

    /// Every row of the registries: the first address of the block, the last one and some between;
    /// and each adjacent address in no other row is public.
    #[test]
    fn blocks_of_the_registries() {
        let text = include_str!("../../tests/fixtures/addresses/special.tsv");
        let rows: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(rows.len(), 58);
        for row in rows {
            let fields: Vec<_> = row.split('\t').collect();
            let (net, length) = fields[0].split_once('/').unwrap();
            let (net, length): (IpAddr, u32) = (net.parse().unwrap(), length.parse().unwrap());
            let rfc = *fields.get(3).unwrap_or(&fields[2]);
            let (first, width) = match net {
                IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
                IpAddr::V6(v6) => (v6.to_bits(), 128),
            };
            let ones = u128::MAX.checked_shr(128 - width + length).unwrap_or(0);
            assert_eq!(first & ones, 0, "{row}");
            let at = |bits: u128| match width {
                32 => IpAddr::from(Ipv4Addr::from_bits(bits as u32)),
                _ => IpAddr::from(Ipv6Addr::from_bits(bits)),
            };
            if rfc == "carried" {
                // The first one contains 0.0.0.0, and one with 8.8.8.8 is public.
                let shift = if length == 16 { 80 } else { 0 };
                assert!(special_purpose(at(first)).unwrap().ends_with("RFC 791"));
                assert_eq!(special_purpose(at(first | 0x0808_0808 << shift)), None);
                continue;
            }
            let why = special_purpose(at(first)).unwrap_or_default();
            assert!(why.ends_with(rfc), "{row}: {why:?}");
            for part in [1, 3, 5, 7, 8] {
                let inside = first | (ones / 8 * part) | if part == 8 { ones } else { 0 };
                assert!(
                    special_purpose(at(inside)).is_some(),
                    "{row}: {}",
                    at(inside)
                );
            }
        }
    }

    #[test]
    fn refused_addresses() {
        #[rustfmt::skip]
        let rows = [
            ("239.255.255.255", "RFC 5771"), ("255.255.255.254", "RFC 1112"),
            ("::7f00:1", "RFC 4291"), ("::ffff:127.0.0.1", "RFC 1122"),
            ("::ffff:192.168.1.1", "RFC 1918"), ("::ffff:0:10.0.0.1", "RFC 1918"),
            ("64:ff9b::10.0.0.1", "RFC 1918"), ("64:ff9b::169.254.169.254", "RFC 3927"),
            ("2001:0:ffff::1", "RFC 4380"), ("2001:1ff:ffff::", "RFC 2928"),
            ("2002:7f00:1::1", "RFC 1122"), ("2002:c0a8:101::", "RFC 1918"),
            ("2a00::5efe:a00:1", "RFC 1918"), ("2a00::200:5efe:7f00:1", "RFC 1122"),
            ("fe80::5efe:808:808", "RFC 4291"), ("::2:0:0", "RFC 4291"),
            ("64:ff9c::1", "RFC 4291"), ("1fff::1", "RFC 4291"), ("4000::1", "RFC 4291"),
        ];
        for (address, rfc) in rows {
            let why = refused(address);
            assert!(
                why.is_some_and(|w| w.ends_with(rfc)),
                "{address}: {why:?}, not {rfc}"
            );
        }
    }

    #[test]
    fn public_addresses_pass() {
        #[rustfmt::skip]
        let rows = [
            "1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34",
            "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
            "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0",
            "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
            "2606:2800:220:1:248:1893:25c8:1946", "2001:4860:4860::8888", "2001:200::1",
            "2a00::1", "2003::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
            "3ffe::1", "2001:db7::1", "2001:db9::1", "::ffff:0:8.8.8.8",
            "2a00::5efe:808:808", "2a00::200:5efe:808:808", "2a00::5eff:a00:1",
        ];
        for address in rows {
            assert_eq!(refused(address), None, "{address}");
        }
    }

    #[test]
    fn only_the_public_addresses_of_a_name_are_used() {
        let parse = |all: &[&str]| -> Vec<IpAddr> {
            all.iter().map(|a| a.parse().unwrap()).collect::<Vec<_>>()
        };
        let mixed = parse(&["10.0.0.1", "8.8.8.8", "::1", "2a00::1"]);
        assert_eq!(
            permitted(mixed.clone(), false),
            Ok(parse(&["8.8.8.8", "2a00::1"]))
        );
        assert_eq!(permitted(mixed.clone(), true), Ok(mixed));
        let private = parse(&["10.0.0.1", "::1"]);
        assert_eq!(permitted(private.clone(), false), Err(private[0]));
        assert_eq!(permitted(Vec::new(), false), Ok(Vec::new()));
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        /// An IPv4 address gets the same verdict in any wrapping.
        #[test]
        fn wrapping_changes_nothing(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let verdict = special_purpose(v4.into());
            let low = u128::from(bits);
            for wrapped in [
                0xffff_0000_0000 | low,
                0xffff_0000_0000_0000 | low,
                (0x64_ff9b_u128 << 96) | low,
                (0x2002_u128 << 112) | (low << 80) | 1,
            ] {
                prop_assert_eq!(special_purpose(Ipv6Addr::from_bits(wrapped).into()), verdict);
            }
        }
    }
}
