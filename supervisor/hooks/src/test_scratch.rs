//! Where areas go, and the way back from a slot to the program.

use super::*;

const PIE: Range<u64> = 0x5555_5555_4000..0x5555_5559_0000;
const FIXED: Range<u64> = 0x40_0000..0x50_0000;
const LIBC: Range<u64> = 0x7fff_f7dc_0000..0x7fff_f7fb_0000;

fn reserved(module: Range<u64>, sites: usize, mapped: &[Range<u64>]) -> Range<u64> {
    let mut layout = ScratchLayout::new();
    let area = layout
        .reserve(module.clone(), sites, mapped)
        .expect("has space")
        .expect("is new");
    assert!(is_in_reach(&area.range, &module));
    assert!(
        mapped
            .iter()
            .all(|other| area.range.end <= other.start || other.end <= area.range.start)
    );
    assert_eq!(area.range.start % PAGE, 0);
    area.range
}

#[test]
fn areas_are_near_their_modules() {
    assert!(reserved(PIE, 100, &[PIE]).end < PIE.start, "the heap is above");
    let below = reserved(FIXED, 100, &[FIXED]);
    assert!(below.start >= LOWEST && below.end < FIXED.start);
    let above = reserved(FIXED, 300_000, &[FIXED]);
    assert!(above.start > FIXED.end + DISTANCE, "too much for the space below");
    assert_eq!(reserved(LIBC, 100, &[LIBC]).start, NEAR_LIBRARIES);
    let taken = NEAR_LIBRARIES - PAGE..NEAR_LIBRARIES + PAGE;
    assert!(reserved(LIBC, 100, &[LIBC, taken]).end < LIBC.start);
}

#[test]
fn modules_share_an_area_in_reach() {
    let mut layout = ScratchLayout::new();
    let other = 0x7fff_f7a0_0000..0x7fff_f7b0_0000;
    assert!(layout.reserve(LIBC, 100, &[LIBC]).expect("space").is_some());
    assert!(
        layout
            .reserve(other.clone(), 100, &[LIBC, other.clone()])
            .expect("space")
            .is_none()
    );
    assert!(layout.reserve(PIE, 100, &[LIBC, PIE]).expect("space").is_some());
    assert_eq!(layout.areas().len(), 2);
    let big = 0x7fff_f000_0000..0x7fff_f400_0000;
    assert!(
        layout.reserve(big, 1_000_000, &[]).expect("space").is_some(),
        "the first one is full"
    );
}

#[test]
fn a_module_that_fills_its_reach_has_no_space() {
    let huge = 0x1_0000_0000..0x1_8000_0000;
    let error = ScratchLayout::new()
        .reserve(huge.clone(), 1, &[huge])
        .expect_err("no reach");
    assert!(matches!(error, ScratchError::NoSpace { .. }));
}

#[test]
fn slots_lead_back_to_their_sites() {
    let mut layout = ScratchLayout::new();
    layout.reserve(PIE, 1000, &[PIE]).expect("space");
    layout.reserve(LIBC, 1000, &[LIBC]).expect("space");
    let mut slots = Vec::new();
    for index in 0..100 {
        let module = if index % 2 == 0 { PIE } else { LIBC };
        let site = module.start + index * 64;
        let placement = layout
            .place(site, b"\xf0\xff\x05\x34\x12\x00\x00")
            .expect("placed");
        assert_eq!((placement.len, placement.slot % SLOT_ALIGN), (7, 0));
        slots.push((site, placement));
    }
    let copy = layout.clone();
    for (site, placement) in &slots {
        assert!(copy.contains(placement.slot));
        assert_eq!(copy.slot_of(*site), Some(placement.slot));
        assert_eq!(copy.original_ip(placement.slot), Some(*site));
        assert_eq!(
            copy.original_ip(placement.slot + 7),
            Some(site + 7),
            "at the jump back"
        );
        assert_eq!(
            copy.original_ip(placement.slot + placement.bytes.len() as u64),
            None
        );
    }
    layout.forget_sites(&PIE);
    assert_eq!(layout.slot_of(slots[0].0), None);
    assert_eq!(layout.original_ip(slots[0].1.slot), None);
    assert_eq!(layout.original_ip(slots[1].1.slot), Some(slots[1].0));
    assert_eq!(
        copy.original_ip(slots[0].1.slot),
        Some(slots[0].0),
        "a checkpoint keeps its own"
    );
    assert_eq!(layout.place(0x1234, b"\x90"), Err(ScratchError::NoArea(0x1234)));
}
