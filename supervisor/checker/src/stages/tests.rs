//! Which searches are made, and how their results are joined.

use super::*;

#[test]
fn who_says_nothing_gets_several_tries_the_last_without_a_bound() {
    let stages = plan(&Config::default(), Asking::Nobody);
    let bounds = |s: &Config| (s.hash, s.limits.steps, s.limits.repetition);
    let bounds: Vec<_> = stages.iter().map(bounds).collect();
    assert_eq!(
        bounds,
        [
            (true, Some(SHORT), None),
            (true, Some(LOOK), None),
            (false, Some(SAMPLE.1), None),
            (false, None, Some(TRY)),
            (false, None, Some(LONG)),
            (true, Some(MORE), None),
            (false, Some(LARGER_SAMPLE.1), None),
            (true, Some(LONGER_STILL), None),
            (false, Some(WITHIN_REACH), None),
            (true, None, None)
        ]
    );
    let in_order = Config {
        strategy: Strategy::ByPreemptions,
        ..Config::default()
    };
    assert_eq!(stages.last(), Some(&in_order));
    let hurried = Config {
        limits: Limits {
            time: Some(Duration::from_secs(9)),
            ..Limits::default()
        },
        ..Config::default()
    };
    let stages = plan(&hurried, Asking::Nobody);
    let is_sample = |stage: &&Config| matches!(stage.strategy, Strategy::Walk { .. });
    assert_eq!(stages.iter().filter(is_sample).count(), 3);
    let before_the_last = &stages[stages.len() - 2];
    assert!(is_sample(&before_the_last) && before_the_last.limits.steps.is_none());
    let asked_each_time = plan(&Config::default(), Asking::EachTime);
    assert_eq!(asked_each_time, [Config::default()]);
}

#[test]
fn who_asks_for_something_gets_that() {
    let asked = [
        Config {
            reduction: Reduction::Sleep,
            ..Config::default()
        },
        Config {
            hash: false,
            ..Config::default()
        },
        Config {
            strategy: Strategy::Bfs,
            ..Config::default()
        },
        Config {
            hash: false,
            bound_preemptions: Some(1),
            ..Config::default()
        },
        Config {
            limits: Limits {
                states: Some(10),
                ..Limits::default()
            },
            ..Config::default()
        },
    ];
    for config in asked {
        assert_eq!(plan(&config, Asking::Nobody), [config]);
    }
}

#[test]
fn of_limited_time_a_search_leaves_some_for_a_look() {
    let config = Config {
        reduction: Reduction::Sleep,
        limits: Limits {
            time: Some(Duration::from_secs(10)),
            ..Limits::default()
        },
        ..Config::default()
    };
    let time = |config: &Config, asking| plan(config, asking)[0].limits.time;
    assert_eq!(time(&config, Asking::Nobody), Some(Duration::from_secs(9)));
    assert_eq!(time(&config, Asking::EachTime), config.limits.time);
    let by_walks = Config {
        strategy: Strategy::Random { walks: None },
        ..config.clone()
    };
    assert_eq!(time(&by_walks, Asking::Nobody), config.limits.time);
}

#[test]
fn a_bound_on_preemptions_is_one_search_in_their_order() {
    let config = Config {
        bound_preemptions: Some(1),
        ..Config::default()
    };
    let [search] = &plan(&config, Asking::Once)[..] else {
        panic!("one search")
    };
    assert_eq!(search.strategy, Strategy::ByPreemptions);
    assert_eq!(search.bound_preemptions, Some(1));
}
