//! Administration: what it shows, and what its decisions do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider::admin::{
    Admin, Cancelled, EventFilter, EventRef, EventState, JobFilter, JobView, Requeued, Retried,
    Skipped,
};
use postrider::{
    Backoff, Delivery, ErrorKind, EventType, HandlerError, JobState, Policy, Schema, SinkKind,
    Subscription,
};
use postrider_testkit::wait_until;

use crate::fixture::{Fixture, PATIENCE, event_type};

async fn admin(fixture: &Fixture) -> Admin {
    Admin::connect(&fixture.database(), &Schema::default()).await.unwrap()
}

fn subscription(name: &str, max_attempts: i32) -> Subscription {
    let backoff = Backoff::list([Duration::from_secs(3600)]).unwrap();
    let policy = Policy { max_attempts, backoff, ..Policy::default() };
    Subscription::new(name, ["order.*"]).unwrap().policy(policy)
}

/// Waits until the job stands as expected and gives it.
async fn job_in(admin: &Admin, id: i64, state: JobView) -> postrider::admin::JobDetail {
    wait_until(&format!("job {id} is {state}"), PATIENCE, async || {
        match admin.job(id).await.unwrap() {
            Some(job) if job.summary.state == state => Ok(job),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_ran_before_the_first_event_fans_it_out() {
    let mut fixture = Fixture::new().await;
    let engine = fixture.engine().declare(event_type("order.placed")).start().await.unwrap();
    // The floor looks at the sequence each time it may move up; a few looks are behind us once its
    // block was read that often.
    let looks = "select coalesce(sum(blks_read + blks_hit), 0)::bigint
                 from pg_statio_user_sequences where relname = 'event_seq'";
    wait_until("the floor has been moved up a few times", PATIENCE, async || {
        let found = fixture.count(looks).await;
        (found >= 4).then_some(()).ok_or(format!("{found} looks"))
    })
    .await;
    fixture.record("order.placed", "o:1").await;
    wait_until("the event is fanned out", PATIENCE, async || {
        let found = fixture.count("select count(*) from postrider.fanout").await;
        (found == 1).then_some(()).ok_or("it is owed".to_owned())
    })
    .await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discarded_job_comes_back_with_one_more_attempt_under_its_id() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    let works = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&works);
    let handler = move |_: Delivery| {
        let works = seen.load(Ordering::Acquire);
        async move { if works { Ok(()) } else { Err(HandlerError::retry("not yet")) } }
    };
    let engine = fixture
        .engine()
        .declare(event_type("order.placed"))
        .subscribe(subscription("mail", 1), handler)
        .start()
        .await
        .unwrap();
    fixture.record("order.placed", "o:1").await;
    let job = job_in(&admin, 1, JobView::Discarded).await;
    assert_eq!((job.summary.attempt, job.summary.attempts_max), (1, 1));
    assert_eq!(job.attempts.len(), 1);
    assert_eq!(job.attempts[0].error.as_deref(), Some("not yet"));

    assert_eq!(admin.retry_job(1).await.unwrap(), Retried::Revived);
    let job = wait_until("its second attempt failed, too", PATIENCE, async || {
        match admin.job(1).await.unwrap() {
            Some(job) if job.attempts.len() == 2 && job.summary.state == JobView::Discarded => {
                Ok(job)
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!((job.summary.attempt, job.summary.attempts_max), (2, 2));

    works.store(true, Ordering::Release);
    assert_eq!(admin.retry_job(1).await.unwrap(), Retried::Revived);
    let job = job_in(&admin, 1, JobView::Completed).await;
    let outcomes: Vec<&str> = job.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
    assert_eq!(outcomes, ["discarded", "discarded", "completed"]);
    assert!(job.attempts.iter().all(|attempt| attempt.worker.is_some()));
    assert_eq!(job.event.unwrap().subject, "o:1");
    assert_eq!(admin.retry_job(1).await.unwrap(), Retried::Conflict(JobState::Completed));
    assert_eq!(admin.cancel_job(1).await.unwrap(), Cancelled::AlreadyFinished(JobState::Completed));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_its_next_attempt_is_retryable_and_runs_at_once_when_told() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    let handler = |delivery: Delivery| async move {
        match delivery.attempt {
            1 => Err(HandlerError::retry("not yet")),
            _ => Ok(()),
        }
    };
    let engine = fixture
        .engine()
        .declare(event_type("order.placed"))
        .subscribe(subscription("mail", 9), handler)
        .start()
        .await
        .unwrap();
    fixture.record("order.placed", "o:1").await;
    job_in(&admin, 1, JobView::Retryable).await;
    for (view, found) in [(JobView::Retryable, 1), (JobView::Scheduled, 0), (JobView::Pending, 0)] {
        let filter = JobFilter { state: Some(view), ..JobFilter::default() };
        assert_eq!(admin.jobs(&filter).await.unwrap().items.len(), found, "{view}");
    }
    let info = admin.subscription("mail").await.unwrap().unwrap();
    assert_eq!((info.lag.waiting.at_least, info.lag.oldest_age_ms), (1, None));
    assert_eq!(admin.retry_job(1).await.unwrap(), Retried::DueNow);
    job_in(&admin, 1, JobView::Completed).await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_asked_to_stop_and_ends_as_cancelled() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    let handler = |_: Delivery| std::future::pending::<()>();
    let engine = fixture
        .engine()
        .lease(Duration::from_secs(1))
        .declare(event_type("order.placed"))
        .subscribe(subscription("mail", 9), handler)
        .start()
        .await
        .unwrap();
    fixture.record("order.placed", "o:1").await;
    let job = job_in(&admin, 1, JobView::Running).await;
    assert_eq!((job.attempts.len(), job.attempts[0].outcome.as_str()), (1, "running"));
    assert_eq!(admin.retry_job(1).await.unwrap(), Retried::Conflict(JobState::Running));
    assert_eq!(admin.cancel_job(1).await.unwrap(), Cancelled::AskedToStop);
    let job = job_in(&admin, 1, JobView::Cancelled).await;
    assert_eq!(job.attempts.last().unwrap().outcome, "cancelled");
    engine.shutdown().await;
}

/// Two finished jobs of one event, without any engine left.
async fn with_cancelled_jobs(fixture: &mut Fixture, admin: &Admin) {
    admin.declare_types(&[event_type("order.placed")]).await.unwrap();
    for name in ["a", "b"] {
        admin.create_subscription(&subscription(name, 9)).await.unwrap();
    }
    let engine = fixture.engine().start().await.unwrap();
    fixture.record("order.placed", "o:1").await;
    for id in [1, 2] {
        job_in(admin, id, JobView::Pending).await;
    }
    engine.shutdown().await;
    for id in [1, 2] {
        assert_eq!(admin.cancel_job(id).await.unwrap(), Cancelled::Cancelled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_comes_back_for_an_event_or_a_subscription_that_is_gone() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    with_cancelled_jobs(&mut fixture, &admin).await;
    let first = admin.job(1).await.unwrap().unwrap().summary.subscription;
    admin.delete_subscription(&first).await.unwrap();
    assert_eq!(admin.retry_job(1).await.unwrap(), Retried::SubscriptionDeleted);
    fixture.client.batch_execute("delete from postrider.event").await.unwrap();
    assert_eq!(admin.retry_job(2).await.unwrap(), Retried::EventGone);
    assert_eq!(admin.retry_job(99).await.unwrap(), Retried::NotFound);
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 0);
    assert_eq!(fixture.count("select count(*) from postrider.job_history").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_comes_back_and_an_event_is_skipped_only_beside_no_change_of_the_routing() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    with_cancelled_jobs(&mut fixture, &admin).await;
    poison(&mut fixture, "o:2").await;
    // What drops a day of events holds this lock alone.
    fixture
        .client
        .batch_execute("begin; select pg_advisory_xact_lock((postrider.wake_keys()).routing)")
        .await
        .unwrap();
    let (retrying, skipping) = (admin.clone(), admin.clone());
    let retrying = tokio::spawn(async move { retrying.retry_job(1).await });
    let skipping = tokio::spawn(async move { skipping.skip_event(EventRef::Seq(2)).await });
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted
        and database = (select oid from pg_database where datname = current_database())";
    wait_until("both wait for the lock", PATIENCE, async || {
        let found = fixture.count(waiting).await;
        (found == 2).then_some(()).ok_or(format!("{found} wait"))
    })
    .await;
    assert!(!retrying.is_finished() && !skipping.is_finished());
    fixture.client.batch_execute("commit").await.unwrap();
    assert_eq!(retrying.await.unwrap().unwrap(), Retried::Revived);
    assert_eq!(skipping.await.unwrap().unwrap(), Skipped::Skipped);
}

/// Records an event and poisons it by hand.
async fn poison(fixture: &mut Fixture, subject: &str) {
    fixture.record("order.placed", subject).await;
    let sql = "with taken as (delete from postrider.owed returning seq, occurred_at)
        insert into postrider.fanout_failure
          (seq, occurred_at, tenant, key, attempts, poisoned_at, last_error)
        select seq, occurred_at, '', 'k', 5, now(), 'it never works' from taken";
    fixture.client.batch_execute(sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeued_event_is_fanned_out_by_a_running_engine_and_a_skipped_one_never() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    admin.declare_types(&[event_type("order.placed")]).await.unwrap();
    admin.create_subscription(&subscription("mail", 9)).await.unwrap();
    for subject in ["o:1", "o:2"] {
        poison(&mut fixture, subject).await;
    }
    let poisoned = EventFilter { state: Some(EventState::Poisoned), ..EventFilter::default() };
    assert_eq!(admin.events(&poisoned).await.unwrap().items.len(), 2);
    let engine = fixture.engine().start().await.unwrap();
    assert_eq!(admin.skip_event(EventRef::Seq(1)).await.unwrap(), Skipped::Skipped);
    assert_eq!(admin.requeue_event(EventRef::Seq(2)).await.unwrap(), Requeued::Requeued);
    wait_until("the requeued one is fanned out", PATIENCE, async || {
        let event = admin.event(EventRef::Seq(2)).await.unwrap().unwrap();
        (event.state == EventState::FannedOut).then_some(()).ok_or(format!("{event:?}"))
    })
    .await;
    let skipped = admin.event(EventRef::Seq(1)).await.unwrap().unwrap();
    assert_eq!((skipped.state, skipped.jobs.len()), (EventState::Skipped, 0));
    assert!(skipped.fanned_out_at.is_some());
    let answer = admin.requeue_event(EventRef::Seq(1)).await.unwrap();
    assert_eq!(answer, Requeued::NotPoisoned(EventState::Skipped));
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 1);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_event_whose_own_row_is_gone_can_still_be_seen_and_given_up() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    fixture.declare(&["order.placed"]).await;
    poison(&mut fixture, "o:1").await;
    fixture.client.batch_execute("delete from postrider.event").await.unwrap();
    let poisoned = EventFilter { state: Some(EventState::Poisoned), ..EventFilter::default() };
    let listed = admin.events(&poisoned).await.unwrap().items;
    assert_eq!((listed.len(), listed[0].id, listed[0].seq), (1, None, 1));
    assert!(admin.event(EventRef::Seq(1)).await.unwrap().unwrap().event.is_none());
    assert_eq!(admin.skip_event(EventRef::Seq(1)).await.unwrap(), Skipped::Skipped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coalesced_event_names_the_event_whose_job_stands_for_it() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    admin.declare_types(&[event_type("order.placed")]).await.unwrap();
    let coalescing = Subscription::new("index", ["order.*"]).unwrap().coalesce();
    admin.create_subscription(&coalescing).await.unwrap();
    fixture.record("order.placed", "o:1").await;
    let last = fixture.record("order.placed", "o:1").await;
    let engine = fixture.engine().start().await.unwrap();
    wait_until("both are fanned out", PATIENCE, async || {
        let found = fixture.count("select count(*) from postrider.fanout").await;
        (found == 2).then_some(()).ok_or(format!("{found} are"))
    })
    .await;
    engine.shutdown().await;
    let first = admin.event(EventRef::Seq(1)).await.unwrap().unwrap();
    assert_eq!(first.jobs[0].coalesced_into, Some(2));
    assert_eq!(first.jobs[0].coalesced_into_id, Some(last));
    let second = admin.event(EventRef::Id(last)).await.unwrap().unwrap();
    assert_eq!(
        (second.jobs[0].job_id, second.jobs[0].coalesced_into),
        (first.jobs[0].job_id, None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_counted_up_to_a_limit() {
    let fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    admin.declare_types(&[event_type("order.placed")]).await.unwrap();
    admin.create_subscription(&subscription("mail", 9)).await.unwrap();
    let fill = "insert into postrider.job
          (event_seq, event_occurred_at, due_at, created_at, subscription_id, origin, priority, tenant)
        select n, now(), now() - interval '1 minute', now(), 1, 'fanout', 2, ''
        from generate_series($1::integer, $2::integer) n";
    fixture.client.execute(fill, &[&1, &10_000]).await.unwrap();
    let lag = admin.subscription("mail").await.unwrap().unwrap().lag;
    assert_eq!(lag.waiting.to_string(), "10000");
    assert!(lag.oldest_age_ms.unwrap() >= 60_000);
    fixture.client.execute(fill, &[&10_001, &10_001]).await.unwrap();
    let lag = admin.subscription("mail").await.unwrap().unwrap().lag;
    assert_eq!(lag.waiting.to_string(), "10000+");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_says_which_types_it_does_not_get_because_they_are_internal() {
    let fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    let external = EventType::new("order.paid").unwrap().external();
    admin.declare_types(&[event_type("order.placed"), external]).await.unwrap();
    let mut leaving = subscription("out", 9);
    leaving.sink = SinkKind::Webhook;
    let info = admin.create_subscription(&leaving).await.unwrap();
    assert_eq!(
        (info.types, info.left_out),
        (vec!["order.paid".into()], vec!["order.placed".into()])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_end_where_the_rows_do_and_limits_are_kept() {
    let mut fixture = Fixture::new().await;
    let admin = admin(&fixture).await;
    fixture.declare(&["order.placed"]).await;
    for n in 0..5 {
        fixture.record("order.placed", &format!("o:{n}")).await;
    }
    let mut filter = EventFilter { limit: 2, ..EventFilter::default() };
    let mut seqs = Vec::new();
    loop {
        let page = admin.events(&filter).await.unwrap();
        seqs.extend(page.items.iter().map(|event| event.seq));
        filter.before = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(seqs, [5, 4, 3, 2, 1]);
    for limit in [0, -1, 1001] {
        let refused = admin.events(&EventFilter { limit, ..EventFilter::default() }).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_events_are_forgotten_only_under_the_routing_lock() {
    let fixture = Fixture::new().await;
    let sql = "
        insert into postrider.event (seq, occurred_at, id, tenant, type, subject, key, data)
          values (99, now() - interval '99 days', gen_random_uuid(), '', 'a.b', 's', 's', '{}');
        create function is_locked() returns trigger language plpgsql as $$
        begin
          if not exists (select from pg_locks where pid = pg_backend_pid() and granted
                           and locktype = 'advisory' and mode = 'ExclusiveLock') then
            raise exception 'a job could come back meanwhile';
          end if;
          return old;
        end $$;
        create trigger is_locked before delete on postrider.event_default
          for each row execute function is_locked();";
    fixture.client.batch_execute(sql).await.unwrap();
    let engine = fixture.engine().start().await.unwrap();
    wait_until("the kept event is forgotten", PATIENCE, async || {
        let found = fixture.count("select count(*) from postrider.event").await;
        (found == 0).then_some(()).ok_or("it is there".to_owned())
    })
    .await;
    engine.shutdown().await;
}
