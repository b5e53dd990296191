//! A frontier that is divided goes on as if it had been divided from the beginning.

use super::*;
use crate::address::HostKey;
use crate::frontier::amount::Amount;
use crate::frontier::cell::{LEARNED_PLACE, SHARED};
use crate::frontier::record::{Counts, HostRecord};
use crate::frontier::tests::learning::Taught;
use crate::frontier::{Divided, DivisionError, Mark, divide};
use crate::topic::strategy::Learning as _;

/// Crawls alone for so many steps.
fn begun(store: &MemoryStore, web: &Web, steps: usize, now: &mut u64) -> Counts {
    let mut alone = opened(Box::new(store.reopened()), 1, *now);
    alone.add_seeds(&web.seeds(), *now).unwrap();
    for _ in 0..steps {
        if !step(&mut alone, web, now) {
            break;
        }
    }
    alone.set_stamp(vec![7, 7]).unwrap();
    let counts = alone.counts().clone();
    alone.close().unwrap();
    counts
}

fn divided(store: &MemoryStore, into: &MemoryStore, cells: u16) -> Divided {
    let from = store.reopened();
    let divided = divide(&from, Box::new(into.reopened()), count(cells), 0).unwrap();
    divided.check().unwrap();
    divided
}

fn pairs(store: &dyn Readable) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    store
        .scan(&[], &[], &mut |key, value| {
            all.insert(key.to_vec(), value.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    all
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    /// Whenever it is divided, the cells bring what one frontier brings, and the counters are
    /// those of both phases together.
    #[test]
    fn a_divided_frontier_brings_what_one_would(seed: u64, cells in 2_u16..40, steps in 0_usize..90) {
        let web = Web::new(seed);
        let whole = {
            let mut now = 1_000;
            let folder = tempfile::tempdir().unwrap();
            let mut alone = opened(Box::new(MemoryStore::new(folder.path())), 1, now);
            alone.add_seeds(&web.seeds(), now).unwrap();
            crawl(&mut alone, &web, &mut now);
            (known(&alone), web::lasting(alone.counts()))
        };
        let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [old, new] = [&old, &new].map(|folder| MemoryStore::new(folder.path()));
        let mut now = 1_000;
        let before = begun(&old, &web, steps, &mut now);
        let untouched = pairs(&old);
        let divided = divided(&old, &new, cells);
        prop_assert_eq!(&divided.counts, &web::lasting(&before));
        let mark = Mark::of(&*divided.view()).unwrap().unwrap();
        prop_assert_eq!(mark.used, Amount::between(&Counts::default(), &before));
        prop_assert_eq!(mark.held().len(), usize::from(cells));
        prop_assert_eq!(&mark.stamp, &vec![7, 7]);
        drop(divided);
        prop_assert_eq!(pairs(&old), untouched);

        let mut cells = opened(Box::new(new.reopened()), cells, now);
        prop_assert_eq!(web::lasting(cells.counts()), web::lasting(&before));
        known(&cells);
        crawl(&mut cells, &web, &mut now);
        let found = (known(&cells), web::lasting(cells.counts()));
        prop_assert_eq!(found, whole);
    }
}

/// Every class of keys goes where the module says.
#[test]
fn every_fact_goes_to_its_cell() {
    let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [old, new] = [&old, &new].map(|folder| MemoryStore::new(folder.path()));
    let web = Web::new(3);
    begun(&old, &web, 20, &mut 1_000);
    let hosts: Vec<String> = (0..6).map(|n| format!("h.d{n}.org")).collect();
    let homes: Vec<CellId> = hosts
        .iter()
        .map(|host| count(16).cell_of(&HostKey::from_stored(host)))
        .collect();
    let mut batch = Batch::default();
    let mut wanted = Vec::new();
    for (host, home) in hosts.iter().zip(&homes) {
        let image = format!("U{host}\0ih/x.png");
        for key in [
            format!("B{host}\0h"),
            format!("T{host}\0h"),
            format!("P{host}\0/a"),
            format!("F{host}\0bandbits"),
            format!("R{host}\0alt"),
            format!("C{image}\0http://other.test/"),
            format!("O{image}"),
            format!("K{image}"),
            format!("E{image}"),
            format!("A domain {host}").replacen("A domain h.", "Adomain ", 1),
            format!("G{}", &host[2..]),
        ] {
            batch.put(key.clone().into_bytes(), b"value".to_vec());
            wanted.push((home.space(), key.into_bytes()));
        }
        batch.put(
            format!("W12345678{host}").into_bytes(),
            image.clone().into(),
        );
        wanted.push((home.space(), format!("W12345678{host}").into_bytes()));
    }
    let first = count(16).cell(0).unwrap().space();
    for (key, space) in [
        (b"I00".to_vec(), SHARED),
        (b"w00".to_vec(), SHARED),
        (b"X".to_vec(), SHARED),
        (b"Y00000000".to_vec(), SHARED),
        (b"j00".to_vec(), SHARED),
        (keys::document(77), first),
    ] {
        batch.put(key.clone(), b"value".to_vec());
        wanted.push((space, key));
    }
    old.reopened().apply(batch).unwrap();
    let from = old.reopened();
    let view = divide(&from, Box::new(new.reopened()), count(16), 9).unwrap();
    let view = pairs(&*view.view());
    for (space, key) in &wanted {
        let there = view.contains_key(&[space.as_slice(), key].concat());
        assert!(there, "{}", key.escape_ascii());
    }
    // Nothing is twice, and nothing is gone.
    let classes = b"BTPFRCOKEAGWIwXYjDUHQ";
    let of = |store: &BTreeMap<Vec<u8>, Vec<u8>>, from: usize| {
        let keys = store.keys().filter_map(|key| key.get(from..));
        let mut keys: Vec<Vec<u8>> = keys
            .filter(|key| key.first().is_some_and(|class| classes.contains(class)))
            .map(<[u8]>::to_vec)
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(of(&view, 2), of(&pairs(&from), 0));
    let learned = view.get(LEARNED_PLACE);
    assert_eq!(learned, Some(&9_u64.to_be_bytes().to_vec()));
}

/// What addresses that back off owe lies wherever a host is at them.
#[test]
fn an_address_that_backs_off_is_known_to_all_its_hosts() {
    let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [old, new] = [&old, &new].map(|folder| MemoryStore::new(folder.path()));
    begun(&old, &Web::new(3), 0, &mut 1_000);
    let at = crate::frontier::Located {
        address: Some("192.0.2.7".parse().unwrap()),
        at: 5,
    };
    let record = HostRecord {
        located: Some(at),
        ..HostRecord::default()
    };
    let mut batch = Batch::default();
    let mut homes = BTreeSet::new();
    for n in 0..5 {
        let host = HostKey::from_stored(&format!("h.d{n}.org"));
        homes.insert(count(16).cell_of(&host));
        batch.put(keys::host(&host), postcard::to_stdvec(&record).unwrap());
    }
    batch.put(b"Aaddress 192.0.2.7".to_vec(), vec![1]);
    batch.put(b"Aaddress 192.0.2.8".to_vec(), vec![1]);
    old.reopened().apply(batch).unwrap();
    let view = divide(&old.reopened(), Box::new(new.reopened()), count(16), 0).unwrap();
    let view = pairs(&*view.view());
    let found: BTreeSet<CellId> = view
        .keys()
        .filter(|key| key.ends_with(b"192.0.2.7"))
        .filter_map(|key| CellId::of_key(key))
        .collect();
    assert_eq!(found, homes);
    assert!(!view.keys().any(|key| key.ends_with(b"192.0.2.8")));
}

/// A page's number is found by whoever asks, in the cell that an undivided store is.
#[test]
fn pages_are_found_by_their_old_numbers() {
    let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [old, new] = [&old, &new].map(|folder| MemoryStore::new(folder.path()));
    let (web, mut now) = (Web::new(11), 1_000);
    begun(&old, &web, 40, &mut now);
    let mut named = BTreeMap::new();
    for (key, value) in pairs(&old) {
        if let Some(id) = key.strip_prefix(b"D") {
            named.insert(u64::from_be_bytes(id.try_into().unwrap()), value);
        }
    }
    assert!(named.len() > 5);
    divided(&old, &new, 8);
    let mut cells = opened(Box::new(new.reopened()), 8, now);
    crawl(&mut cells, &web, &mut now);
    for cell in cells.open.values() {
        let store = cell.frontier.ledger.store();
        for (id, url) in &named {
            assert_eq!(store.get(&keys::document(*id)).unwrap().as_ref(), Some(url));
        }
    }
    // No number is given twice.
    let all = pairs(&new);
    let numbers = all.keys().filter(|key| key.get(2) == Some(&b'D'));
    let numbers: Vec<&[u8]> = numbers.map(|key| &key[3..]).collect();
    assert!(numbers.len() > named.len());
    assert_eq!(BTreeSet::from_iter(&numbers).len(), numbers.len());
}

/// What was learned alone is what the cells go on with.
#[test]
fn what_was_learned_is_kept() {
    let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [old, new] = [&old, &new].map(|folder| MemoryStore::new(folder.path()));
    let mut now = 1_000;
    let taught = Arc::new(Taught::default());
    let mut alone = opened(Box::new(old.reopened()), 1, now);
    alone.set_rating(Arc::clone(&taught) as _).unwrap();
    alone.add_seeds(&[url("http://s.org/")], now).unwrap();
    let links = [1, 2, 3].map(|n| learning::link(&format!("http://l{n}.org/"), n));
    while learning::fetch(&mut alone, &links, &mut now).is_some() {}
    let weights = (taught.examples(), taught.snapshot());
    alone.close().unwrap();
    assert!(crate::frontier::has_learned(&old.reopened()).unwrap());
    divided(&old, &new, 8);
    let again = Arc::new(Taught::default());
    let mut cells = opened(Box::new(new.reopened()), 8, now);
    cells.set_rating(Arc::clone(&again) as _).unwrap();
    assert_eq!((again.examples(), again.snapshot()), weights);
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [old, new] = [&old, &new].map(|folder| MemoryStore::new(folder.path()));
    let refused = |into: &MemoryStore| {
        let divided = divide(&old.reopened(), Box::new(into.reopened()), count(8), 0);
        divided.and_then(|divided| divided.check()).unwrap_err()
    };
    assert!(matches!(refused(&new), DivisionError::Empty(_)));
    begun(&old, &Web::new(3), 30, &mut 1_000);
    let put = |key: &[u8], value: Option<&[u8]>| {
        let mut batch = Batch::default();
        match value {
            Some(value) => batch.put(key.to_vec(), value.to_vec()),
            None => batch.delete(key.to_vec()),
        }
        old.reopened().apply(batch).unwrap();
    };
    put(b"?what", Some(b"x"));
    let error = refused(&new).to_string();
    assert!(error.contains("the key ?what"), "{error}");
    put(b"?what", None);
    // A queue has an entry that no address has.
    let mut all = pairs(&old).into_iter();
    let (queue, _) = all.find(|(key, _)| key.starts_with(b"Q")).unwrap();
    put(&queue, Some(b"Uh.d1.org\0ph/none"));
    let error = refused(&new).to_string();
    assert!(error.contains("does not agree with itself"), "{error}");
    // A store of cells is none that can be divided.
    let cells = tempfile::tempdir().unwrap();
    let cells = MemoryStore::new(cells.path());
    opened(Box::new(cells.reopened()), 4, 1).close().unwrap();
    let error = divide(&cells.reopened(), Box::new(new.reopened()), count(8), 0);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("divided into cells"), "{error}");
}

/// How long it takes, from fjall to fjall.
#[test]
#[ignore = "a measurement"]
fn a_hundred_thousand_addresses_are_divided() {
    use crate::frontier::record::{Meta, State, UrlRecord};
    use crate::frontier::store;
    use crate::frontier::transaction::rank_of;
    use crate::settings::StoreKind;

    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    let mut from = store::open(StoreKind::Fjall, &old).unwrap();
    let mut batch = Batch::default();
    for seq in 0..100_000 {
        let url = url(&format!(
            "http://h{}.d{}.org/page/{seq}",
            seq % 10,
            seq / 50
        ));
        let record = UrlRecord {
            state: State::Queued,
            bucket: Bucket::Normal,
            score: 1.0,
            parts: None,
            seq,
            hops: 1,
            redirects: 0,
            attempts: 0,
            via: None,
            text: None,
            visit: None,
            simhash: None,
            judged: None,
        };
        let key = keys::url(&url, TaskKind::Page);
        let queue = keys::queue(&url.host_key(), keys::class::PAGE, &rank_of(&record));
        batch.put(queue, key.clone());
        batch.put(key, postcard::to_stdvec(&record).unwrap());
        let host = keys::host(&url.host_key());
        batch.put(host, postcard::to_stdvec(&HostRecord::default()).unwrap());
    }
    let mut meta = Meta::default();
    meta.counts.queued[Bucket::Normal as usize] = 100_000;
    batch.put(keys::META.to_vec(), postcard::to_stdvec(&meta).unwrap());
    from.apply(batch).unwrap();
    let begun = std::time::Instant::now();
    let into = store::open(StoreKind::Fjall, &new).unwrap();
    let divided = divide(&*from, into, count(64), 0).unwrap();
    println!("divided in {:?}", begun.elapsed());
    divided.check().unwrap();
    println!("checked after {:?}", begun.elapsed());
    assert_eq!((divided.urls, divided.hosts), (100_000, 20_000));
    assert_eq!(divided.filled, 64);
}
