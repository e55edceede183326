//! Tests of mapped memory: A1 to A4.

use super::*;

fn area(recorder: &Recorder) -> Area {
    durable(recorder, 4096).memory(0, 4096, false).unwrap()
}

/// Does something in another thread.
fn elsewhere(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
}

/// The first words, after the power went.
fn words<const N: usize>(recorder: &Recorder) -> [u64; N] {
    recorder.crash();
    let mut words = [9; N];
    open(&recorder.system()).memory(0, 4096, false).unwrap().read(0, &mut words);
    words
}

/// Returns the possible first words after this.
fn may_be<const N: usize>(work: impl Fn(&Area)) -> BTreeSet<[u64; N]> {
    every(calm(), |recorder| {
        work(&area(recorder));
        words(recorder)
    })
}

#[test]
fn store_after_power_failure_is_lost_and_fence_unwinds() {
    let recorder = quiet(calm());
    let area = area(&recorder);
    recorder.crash();
    area.store(0, &[1]);
    area.stream(1, &[2]);
    area.write_back(0);
    assert!(power_goes(|| fence(&area)), "a fence");
    assert!(power_goes(|| area.read(0, &mut [0])), "a read");
    assert_eq!(words(&recorder), [0, 0]);
}

#[test]
fn a1_any_prefix_of_a_lines_stores_survives() {
    let found = may_be::<3>(|area| {
        area.store(0, &[1]);
        area.store(1, &[2]);
        area.store(0, &[3]);
        area.store(2, &[4]);
    });
    assert_eq!(found, set([[0, 0, 0], [1, 0, 0], [1, 2, 0], [3, 2, 0], [3, 2, 4]]));
}

#[test]
fn a1_store_of_several_words_may_be_split() {
    let found = may_be::<3>(|area| area.store(0, &[1, 2, 3]));
    assert_eq!(found, set([[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]));
}

#[test]
fn a1_lines_are_independent_of_each_other() {
    let found = may_be::<17>(|area| {
        area.store(0, &[1]);
        area.store(8, &[2]);
        area.store(16, &[3]);
    });
    let found = set(found.iter().map(|words| [words[0], words[8], words[16]]));
    let all = (0..8).map(|bits| [bits & 1, bits & 2, 3 * (bits >> 2)]);
    assert_eq!(found, set(all));
}

#[test]
fn a1_prefix_begins_after_durable_stores() {
    let found = may_be::<2>(|area| {
        area.store(0, &[1]);
        area.write_back(0);
        area.fence();
        area.store(1, &[2]);
        area.store(0, &[3]);
    });
    assert_eq!(found, set([[1, 0], [1, 2], [3, 2]]));
}

#[test]
fn a1_write_back_covers_only_earlier_stores() {
    let found = may_be::<2>(|area| {
        area.store(0, &[1]);
        area.write_back(1); // the same line
        area.store(0, &[2]);
        area.fence();
    });
    assert_eq!(found, set([[1, 0], [2, 0]]));
    let unfenced = may_be::<1>(|area| {
        area.store(0, &[1]);
        area.write_back(0);
    });
    assert_eq!(unfenced, set([[0], [1]]));
    let not_written_back = may_be::<1>(|area| {
        area.store(0, &[1]);
        area.fence();
    });
    assert_eq!(not_written_back, set([[0], [1]]));
}

#[test]
fn a2_any_subset_of_streamed_words_survives() {
    let found = may_be::<3>(|area| area.stream(0, &[1, 2, 3]));
    let all = (0..8).map(|bits| [bits & 1, bits & 2, 3 * (bits >> 2)]);
    assert_eq!(found, set(all));
    let fenced = may_be::<3>(|area| {
        area.stream(0, &[1, 2, 3]);
        area.fence();
    });
    assert_eq!(fenced, set([[1, 2, 3]]));
}

#[test]
fn a2_word_streamed_twice_holds_either_value() {
    let found = may_be::<1>(|area| {
        area.stream(0, &[1]);
        area.stream(0, &[2]);
    });
    assert_eq!(found, set([[0], [1], [2]]));
}

#[test]
fn a2_streamed_and_cached_words_are_independent() {
    let found = may_be::<3>(|area| {
        area.store(0, &[1]);
        area.stream(1, &[2]);
        area.store(2, &[3]);
    });
    let cached = [[0, 0], [1, 0], [1, 3]];
    assert_eq!(found, set(cached.into_iter().flat_map(|[a, c]| [[a, 0, c], [a, 2, c]])));
}

#[test]
fn a2_fenced_stream_is_not_replaced_by_older_store() {
    let found = may_be::<2>(|area| {
        area.store(0, &[1]);
        area.store(1, &[1]);
        area.stream(0, &[2]);
        area.fence();
    });
    assert_eq!(found, set([[2, 0], [2, 1]]));
}

#[test]
fn a2_streamed_line_may_be_split_in_halves() {
    let model = Model { every_word: false, ..calm() };
    let found = every(model, |recorder| {
        area(recorder).stream(0, &[1; 8]);
        words::<8>(recorder)
    });
    let [none, all] = [[0; 8], [1; 8]];
    assert_eq!(found, set([none, [1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1], all]));
}

#[test]
fn a3_fence_covers_no_other_thread() {
    let past = |fence: fn(&Area)| {
        may_be::<1>(|area| {
            area.stream(0, &[1]);
            fence(area);
        })
    };
    let written_back = |fence: fn(&Area)| {
        may_be::<1>(|area| {
            area.store(0, &[1]);
            area.write_back(0);
            fence(area);
        })
    };
    for found in [past(|area| elsewhere(|| fence(area))), past(|_| {})] {
        assert_eq!(found, set([[0], [1]]));
    }
    assert_eq!(written_back(|area| elsewhere(|| fence(area))), set([[0], [1]]));
    assert_eq!(past(fence), set([[1]]));
    assert_eq!(written_back(fence), set([[1]]));
}

#[test]
fn a3_write_back_covers_other_threads_stores() {
    let found = may_be::<1>(|area| {
        area.store(0, &[1]);
        elsewhere(|| {
            area.write_back(0);
            area.fence();
        });
    });
    assert_eq!(found, set([[1]]));
    let past_the_cache = may_be::<1>(|area| {
        area.stream(0, &[1]);
        elsewhere(|| {
            area.write_back(0);
            area.fence();
        });
    });
    assert_eq!(past_the_cache, set([[0], [1]]));
}

#[test]
fn a3_each_fence_covers_its_own_thread() {
    let found = may_be::<3>(|area| {
        area.store(0, &[1]);
        elsewhere(|| {
            area.store(1, &[2]);
            area.write_back(1); // and the word before
            area.stream(2, &[3]);
        });
        area.stream(2, &[4]);
        area.fence();
    });
    // The other's word past the cache may still get there, and then it is the last.
    let past = [3, 4];
    let cached = [[0, 0], [1, 0], [1, 2]];
    assert_eq!(found, set(cached.iter().flat_map(|[a, b]| past.map(|c| [*a, *b, c]))));
    let all = may_be::<3>(|area| {
        area.stream(2, &[4]);
        area.store(0, &[1]);
        let (to, from) = std::sync::mpsc::channel();
        let (back, done) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                area.store(1, &[2]);
                area.write_back(1);
                back.send(()).unwrap();
                from.recv().unwrap();
                area.fence(); // covers two stores, though one was taken away before them
            });
            done.recv().unwrap();
            area.fence();
            to.send(()).unwrap();
        });
    });
    assert_eq!(all, set([[1, 2, 4]]));
}

#[test]
fn a4_store_into_durable_cache_is_durable_at_fence() {
    let kept = |fence: fn(&Area)| {
        every(calm(), |recorder| {
            let area = durable(recorder, 4096).memory(0, 4096, true).unwrap();
            area.store(0, &[1]);
            area.store(1, &[2]);
            area.store(0, &[3]);
            fence(&area);
            words::<2>(recorder)
        })
    };
    let prefixes = set([[0, 0], [1, 0], [1, 2], [3, 2]]);
    assert_eq!(kept(|_| {}), prefixes);
    assert_eq!(kept(|area| elsewhere(|| fence(area))), prefixes);
    assert_eq!(kept(fence), set([[3, 2]]));
}

/// A heap image whose `write_back` has lost its fence, as the tests of `medium` would find it:
/// `write_back` without the fence at its end.
#[test]
fn a3_mutant_without_write_back_fence_is_not_durable() {
    let found = may_be::<1>(|area| {
        elsewhere(|| area.stream(0, &[42]));
        area.fence();
    });
    assert_eq!(found, set([[0], [42]]));
    let combined = may_be::<1>(|area| {
        elsewhere(|| {
            area.store(0, &[42]);
            area.write_back(0); // its place was wanted
        });
        area.fence();
    });
    assert_eq!(combined, set([[0], [42]]));
}

#[test]
fn what_a_crash_has_left_is_the_next_boots_base() {
    let found = every(calm(), |recorder| {
        area(recorder).store(0, &[1]);
        recorder.crash();
        // Not read: a store to the line decides the words beside it.
        let area = open(&recorder.system()).memory(0, 4096, false).unwrap();
        area.store(1, &[2]);
        words::<2>(recorder)
    });
    assert_eq!(found, set([[0, 0], [0, 2], [1, 0], [1, 2]]));
}

#[test]
fn stores_and_writes_to_one_sector_survive_each_by_its_own_rule() {
    // The write is not synced, and beside it a store is durable.
    let found = every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        let area = file.memory(0, 4096, false).unwrap();
        file.write(&[std::io::IoSlice::new(&[1; 16])], 0, ReadWriteFlags::empty()).unwrap();
        area.store(1, &[2]);
        area.write_back(1);
        area.fence();
        words::<2>(recorder)
    });
    assert_eq!(found, set([[0, 2], [0x0101_0101_0101_0101, 2]]));
    // A sector that is lost is decided before it is stored to, and the store is not lost with it.
    let found = every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        file.write(&[std::io::IoSlice::new(&[1; 16])], 0, ReadWriteFlags::empty()).unwrap();
        recorder.crash();
        let area = open(&recorder.system()).memory(0, 4096, false).unwrap();
        area.store(1, &[2]);
        area.write_back(1);
        area.fence();
        words::<2>(recorder)
    });
    assert_eq!(found, set([[0, 2], [0x0101_0101_0101_0101, 2]]));
    // A write of a part of a line that is lost keeps the rest of it.
    let found = every(calm(), |recorder| {
        area(recorder).store(0, &[1]);
        recorder.crash();
        let file = open(&recorder.system());
        file.write(&[std::io::IoSlice::new(&[2; 8])], 8, DSYNC).unwrap();
        words::<2>(recorder)
    });
    assert_eq!(found, set([0, 1].map(|first| [first, 0x0202_0202_0202_0202])));
}

#[test]
fn file_sync_covers_mapped_stores() {
    let found = every(calm(), |recorder| {
        let file = durable(recorder, 4096);
        file.memory(0, 4096, false).unwrap().store(0, &[1]);
        file.sync_data().unwrap();
        words::<1>(recorder)
    });
    assert_eq!(found, set([[1]]));
}
