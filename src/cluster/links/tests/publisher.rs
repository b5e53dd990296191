//! What a publisher makes of an outbox.

use super::super::envelope::Envelope;
use super::super::publish::{Post, Publisher, Setting};
use super::{large, rated};
use crate::frontier::{Best, CellCount, CellId, OutboxChange, Rated, Slip};
use crate::page::Bucket;

fn cells() -> CellCount {
    CellCount::new(8).unwrap()
}

fn cell(number: u16) -> CellId {
    cells().cell(number).unwrap()
}

fn slip(from: u16, commit: u64) -> Slip {
    Slip {
        from: cell(from),
        commit,
    }
}

fn setting() -> Setting {
    Setting {
        links: 10,
        bytes: 4_000,
        ..Setting::usual(7, cells())
    }
}

/// The publisher of a machine that could request better pages than any that are sent here.
fn publisher(notes: &[(CellId, Vec<u8>)]) -> Publisher {
    let mut publisher = Publisher::new(setting(), notes).unwrap();
    publisher.set_best(Some(Best::from((Bucket::Seed, 0.0))));
    publisher
}

/// Links to pages with these numbers.
fn pages(numbers: std::ops::Range<u64>) -> Vec<Rated> {
    let page = |n| rated(&format!("http://a.org/{n}"), Some(Bucket::Normal), 5.0, 3);
    numbers.map(page).collect()
}

fn addresses(post: &Post) -> Vec<String> {
    let envelope = Envelope::of(&post.message).unwrap();
    assert_eq!((envelope.session, envelope.number), (7, post.number));
    let ways = envelope.offers.iter().map(|offer| offer.way().unwrap());
    ways.map(|way| way.url.as_str().to_owned()).collect()
}

/// The only change, with its notes.
fn only(changes: Vec<OutboxChange>) -> OutboxChange {
    assert_eq!(changes.len(), 1, "{changes:?}");
    changes.into_iter().next().unwrap()
}

#[test]
fn a_link_waits_for_others_and_then_goes() {
    let mut publisher = publisher(&[]);
    let to = cell(1);
    publisher.take(to, slip(0, 1), pages(0..2), 1_000);
    publisher.take(to, slip(3, 9), pages(1..4), 4_000);
    assert!(!publisher.wants(to, &slip(0, 1)));
    assert_eq!(publisher.close(5_999).unwrap(), []);
    assert_eq!(publisher.next_event(), Some(6_000));
    let noted = only(publisher.close(6_000).unwrap());
    assert_eq!((noted.to, noted.gone.len()), (to, 0));
    let posts = publisher.due(6_000);
    assert_eq!((posts.len(), posts[0].number), (1, 1));
    assert_eq!(posts[0].id, "0000000000000007.1");
    assert_eq!(addresses(&posts[0]).len(), 4);
    assert_eq!(publisher.due(9_000), []);
    // It is sent again with the same bytes until it is stored, after longer and longer pauses.
    assert_eq!(publisher.answer(to, 1, false, 9_000).unwrap(), None);
    assert_eq!(publisher.due(9_249), []);
    assert_eq!(publisher.due(9_250), posts);
    assert_eq!(publisher.answer(to, 1, false, 9_300).unwrap(), None);
    assert_eq!(publisher.next_event(), Some(9_800));
    assert_eq!(publisher.due(9_800), posts);
    // Links that are found in the meantime wait.
    publisher.take(to, slip(0, 2), pages(3..5), 9_900);
    assert_eq!(publisher.close(20_000).unwrap(), []);
    let gone = publisher.answer(to, 1, true, 20_000).unwrap().unwrap();
    assert_eq!(gone.gone, [slip(0, 1), slip(3, 9)]);
    assert_eq!(publisher.answer(to, 1, true, 20_000).unwrap(), None);
    publisher.close(20_000).unwrap();
    let posts = publisher.due(20_000);
    // The second citation of a page is sent; it doubles them.
    assert_eq!((posts[0].number, addresses(&posts[0]).len()), (2, 2));
    assert!(!publisher.is_idle());
    publisher.answer(to, 2, true, 20_000).unwrap().unwrap();
    assert!(publisher.is_idle());
    assert_eq!(publisher.next_event(), None);
    let sending = publisher.sending();
    assert_eq!((sending.read, sending.offers, sending.messages), (7, 6, 2));
}

#[test]
fn a_full_batch_goes_at_once_and_a_large_page_in_parts() {
    let mut publisher = publisher(&[]);
    let to = cell(1);
    publisher.take(to, slip(0, 1), pages(0..25), 0);
    assert!(!publisher.wants(to, &slip(0, 2)), "it waits in the store");
    assert!(publisher.wants(cell(2), &slip(0, 1)));
    publisher.close(0).unwrap();
    let mut sent = Vec::new();
    for number in 1..=3 {
        let [post] = publisher.due(0).try_into().unwrap();
        assert_eq!(post.number, number);
        sent.extend(addresses(&post));
        let gone = publisher.answer(to, number, true, 0).unwrap();
        assert_eq!(gone.is_some(), number == 3);
    }
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len(), 25);
    // By bytes: five addresses of some 600 bytes.
    let long = |n| format!("http://b.org/{n}/{}", "x".repeat(580));
    let long = (0..8).map(|n| rated(&long(n), None, 1.0, 1)).collect();
    publisher.take(to, slip(0, 2), long, 0);
    publisher.close(0).unwrap();
    assert_eq!(addresses(&publisher.due(0)[0]).len(), 5);
}

#[test]
fn an_offer_that_would_not_be_read_is_left_out() {
    let usual = Setting::usual(7, cells());
    let mut publisher = Publisher::new(usual, &[]).unwrap();
    let to = cell(1);
    let traits = |count| {
        (0..count)
            .map(|n: u32| n.wrapping_mul(0x9e37_79b9))
            .collect()
    };
    let large = |n: u64, count| large(&format!("http://b.org/{n}"), traits(count));
    let all = (0..499).map(|n| large(n, 300)).chain([large(499, 400_000)]);
    publisher.take(to, slip(0, 1), all.collect(), 0);
    publisher.close(0).unwrap();
    let mut left = 0;
    for number in 1.. {
        let Some(post) = publisher.due(0).pop() else {
            break;
        };
        assert_eq!(post.number, number);
        left += addresses(&post).len();
        publisher.answer(to, number, true, 0).unwrap();
    }
    assert_eq!(left, 499);
    assert!(publisher.is_idle());
}

/// The owner of the host of a link as good as the best here would request it next.
#[test]
fn a_link_that_is_good_enough_waits_for_a_tenth_of_the_time() {
    let mut publisher = publisher(&[]);
    let to = cell(1);
    let best = |score| Some(Best::from((Bucket::Normal, score)));
    publisher.set_best(best(4.9));
    publisher.take(to, slip(0, 1), pages(0..1), 1_000);
    assert_eq!(publisher.next_event(), Some(6_000));
    publisher.set_best(best(5.1));
    publisher.take(to, slip(0, 2), pages(1..2), 2_000);
    assert_eq!(publisher.next_event(), Some(2_500));
    assert_eq!(publisher.close(2_499).unwrap(), []);
    only(publisher.close(2_500).unwrap());
    // Links that are already gathered go along.
    assert_eq!(addresses(&publisher.due(2_500)[0]).len(), 2);
    // If nothing can be requested here, every link is good enough.
    let other = cell(2);
    publisher.set_best(None);
    publisher.take(other, slip(0, 3), pages(2..3), 3_000);
    only(publisher.close(3_500).unwrap());
}

#[test]
fn what_says_nothing_new_is_deleted_without_a_message() {
    let mut publisher = publisher(&[]);
    let to = cell(1);
    publisher.hurry(true);
    // The first four citations are news.
    for commit in 1..=4 {
        publisher.take(to, slip(0, commit), pages(0..2), 0);
        publisher.close(0).unwrap();
        publisher.due(0);
        publisher.answer(to, commit, true, 0).unwrap().unwrap();
    }
    publisher.take(to, slip(0, 5), pages(0..2), 0);
    let change = only(publisher.close(0).unwrap());
    assert_eq!(change.gone, [slip(0, 5)]);
    assert!(publisher.due(0).is_empty() && publisher.is_idle());
}

#[test]
fn a_batch_is_made_again_after_the_process_was_killed() {
    let to = cell(1);
    let mut first = publisher(&[]);
    first.take(to, slip(0, 1), pages(0..4), 0);
    first.close(5_000).unwrap();
    first.due(5_000);
    let acknowledged = first.answer(to, 1, true, 5_000).unwrap().unwrap();
    first.take(to, slip(0, 2), pages(2..14), 5_000);
    first.take(to, slip(4, 1), pages(30..32), 5_000);
    let noted = only(first.close(10_000).unwrap());
    let posts = first.due(10_000);

    // Nothing was stored, or the acknowledgement was lost. New links wait.
    let mut second = publisher(&[(to, noted.note.clone())]);
    assert!(!second.wants(to, &slip(0, 3)));
    for (slip, offers) in [(slip(4, 1), pages(30..32)), (slip(0, 2), pages(2..14))] {
        assert!(second.wants(to, &slip));
        second.take(to, slip, offers, 10_500);
    }
    let again = only(second.close(10_500).unwrap());
    assert_eq!(again.note, noted.note);
    // How long they waited before the process died is unknown.
    let without_time = |posts: Vec<Post>| -> Vec<Post> {
        let posts = posts.into_iter();
        posts.map(|post| Post { since: 0, ..post }).collect()
    };
    assert_eq!(without_time(second.due(10_500)), without_time(posts));

    // Other slips make other messages, which need other numbers.
    for held in [vec![], vec![(slip(0, 2), pages(2..14))]] {
        let mut third = publisher(&[(to, noted.note.clone())]);
        for (slip, offers) in held {
            third.take(to, slip, offers, 0);
        }
        third.close(0).unwrap();
        third.take(to, slip(0, 3), pages(0..20), 0);
        third.hurry(true);
        third.close(0).unwrap();
        assert_eq!(third.due(0)[0].number, 4, "two messages were given up");
    }

    // Another session starts afresh. An unreadable note must not lead to numbers being used again.
    let session = Setting {
        session: 8,
        ..setting()
    };
    let mut other = Publisher::new(session, &[(to, noted.note)]).unwrap();
    assert!(other.wants(to, &slip(0, 3)) && other.is_idle());
    other.take(to, slip(0, 2), pages(0..20), 0);
    other.close(0).unwrap();
    assert_eq!(other.due(0)[0].number, 1);
    let error = Publisher::new(setting(), &[(to, vec![0xff])]).unwrap_err();
    assert!(error.to_string().contains("cell 1"), "{error}");
    let mut idle = Publisher::new(setting(), &[(to, acknowledged.note)]).unwrap();
    idle.take(to, slip(0, 2), pages(0..20), 0);
    idle.close(0).unwrap();
    assert_eq!(idle.due(0)[0].number, 2);
}

#[test]
fn cells_come_and_go() {
    let to = cell(1);
    let mut publisher = publisher(&[]);
    publisher.take(to, slip(0, 1), pages(0..4), 0);
    publisher.take(to, slip(2, 1), pages(4..8), 0);
    publisher.close(5_000).unwrap();
    // Nothing may be deleted from a cell that has left.
    publisher.forget_sender(cell(0));
    publisher.due(5_000);
    let gone = publisher.answer(to, 1, true, 5_000).unwrap().unwrap();
    assert_eq!(gone.gone, [slip(2, 1)]);
    // A cell that was opened here takes its links directly, and the numbers are not used again.
    publisher.take(to, slip(2, 2), pages(10..14), 5_000);
    publisher.close(10_000).unwrap();
    publisher.due(10_000);
    assert!(publisher.forget_target(to).unwrap().is_some());
    assert_eq!(publisher.answer(to, 2, true, 10_000).unwrap(), None);
    assert!(publisher.is_idle() && publisher.forget_target(to).unwrap().is_none());
    publisher.take(to, slip(2, 3), pages(20..40), 11_000);
    publisher.close(11_000).unwrap();
    assert_eq!(publisher.due(11_000)[0].number, 3);
}
