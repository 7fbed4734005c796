//! Jobs that applications enqueue: from the caller's transaction to a typed handler.

use std::time::Duration;

use postrider::{
    Awaited, Enqueued, Error, ErrorKind, HandlerError, Job, JobArguments, JobState, Kind, NewJob,
    Outcome, Policy, Priority, Transaction, Unique,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::adapters::drivers::{Driver, End, Work};
use crate::fixture::{Fixture, PATIENCE};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Receipt {
    order_id: i64,
}

impl JobArguments for Receipt {
    const KIND: &'static str = "mail.receipt";
}

impl Fixture {
    /// Declares kinds that nobody handles.
    pub(crate) async fn kinds(&self, names: &[&str]) {
        let sql =
            "insert into postrider.subscription (name, globs, declared_globs, source, backoff,
              created_routing_version)
            values ($1, '{}', '{}', 'enqueue', '{\"list\": {\"delays_ms\": [1]}}', 1)";
        for name in names {
            self.client.execute(sql, &[name]).await.unwrap();
        }
    }

    /// Enqueues one job in a transaction of its own.
    pub(crate) async fn enqueue(&mut self, job: &NewJob) -> Enqueued {
        self.recorder.enqueue(&mut self.client, job).await.unwrap()
    }
}

/// A kind that retries almost at once.
pub(crate) fn kind<A>(name: &str) -> Kind<A> {
    let backoff = postrider::Backoff::list([Duration::from_millis(1)]).unwrap();
    Kind::named(name).unwrap().policy(Policy { backoff, max_attempts: 3, ..Policy::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_committed_is_handled_and_leaves_its_output() {
    let mut fixture = Fixture::new().await;
    let handler = async |job: Job<Receipt>| {
        assert_eq!((&*job.kind, job.tenant.as_str(), job.attempt), ("mail.receipt", "acme", 1));
        assert_eq!((job.key.as_deref(), job.tick_at), (Some("order:42"), None));
        Outcome::done_with(&json!({"sent": job.arguments.order_id}))
            .map_err(HandlerError::permanent)
    };
    let engine = fixture.engine().handle(kind(Receipt::KIND), handler).start().await.unwrap();
    let job = Receipt { order_id: 42 }.job().unwrap().tenant("acme").key("order:42");
    let Enqueued::Inserted(id) = fixture.enqueue(&job).await else { panic!("it is new") };
    let Awaited::Done(end) = engine.await_job(id, PATIENCE).await.unwrap() else {
        panic!("it is handled")
    };
    assert_eq!(end.state, JobState::Completed, "{end:?}");
    assert_eq!(end.output::<Value>().unwrap(), json!({"sent": 42}));
    let kept = "select concat_ws(' ', arguments, key, tenant, origin) from postrider.job_history";
    assert_eq!(fixture.texts(kept).await, ["{\"order_id\": 42} order:42 acme enqueue"]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_rolled_back_is_not_there() {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["mail.receipt"]).await;
    let job = Receipt { order_id: 1 }.job().unwrap().unique(Unique::by_arguments());
    let mut transaction = fixture.client.transaction().await.unwrap();
    let first = fixture.recorder.enqueue(&mut transaction, &job).await.unwrap();
    assert!(matches!(first, Enqueued::Inserted(_)));
    transaction.rollback().await.unwrap();
    let left = "select (select count(*) from postrider.job) + count(*) from postrider.unique_key";
    assert_eq!(fixture.count(left).await, 0);
    assert!(matches!(fixture.enqueue(&job).await, Enqueued::Inserted(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_tried_as_often_as_it_says_and_arguments_of_another_form_are_an_error() {
    let mut fixture = Fixture::new().await;
    let failing = async |_: Job<Receipt>| Err::<(), HandlerError>("not today".into());
    let engine = fixture.engine().handle(kind(Receipt::KIND), failing).start().await.unwrap();
    let ended = async |id| match engine.await_job(id, PATIENCE).await.unwrap() {
        Awaited::Done(end) => (end.state, end.last_error.unwrap_or_default()),
        Awaited::TimedOut => panic!("job {id} does not end"),
    };
    let receipt = || Receipt { order_id: 1 }.job().unwrap();
    for (job, attempts) in
        [(receipt(), 3), (receipt().max_attempts(1), 1), (receipt().max_attempts(5), 5)]
    {
        let id = fixture.enqueue(&job).await.job_id();
        assert_eq!(ended(id).await, (JobState::Discarded, "not today".to_owned()));
        let tried = format!("select attempt::bigint from postrider.job_history where id = {id}");
        assert_eq!(fixture.count(&tried).await, attempts);
    }
    let odd = NewJob::new(Receipt::KIND).unwrap().arguments(&json!({"order": "x"})).unwrap();
    let id = fixture.enqueue(&odd).await.job_id();
    let (state, error) = ended(id).await;
    assert_eq!(state, JobState::Discarded);
    assert!(error.starts_with("the arguments are not those of `mail.receipt`: "), "{error}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_later_waits_for_its_time() {
    let mut fixture = Fixture::new().await;
    let handled = async |_: Job<Receipt>| ();
    let engine = fixture.engine().handle(kind(Receipt::KIND), handled).start().await.unwrap();
    let hour = Duration::from_secs(3600);
    let later = Receipt { order_id: 1 }.job().unwrap().delay(hour);
    let id = fixture.enqueue(&later).await.job_id();
    let soon = fixture.enqueue(&Receipt { order_id: 2 }.job().unwrap()).await.job_id();
    assert!(matches!(engine.await_job(soon, PATIENCE).await.unwrap(), Awaited::Done(_)));
    let waits = "select count(*) from postrider.job where due_at > now() + interval '59 minutes'";
    assert_eq!(fixture.count(waits).await, 1);
    engine.advance_clock(hour + Duration::from_secs(1));
    assert!(matches!(engine.await_job(id, PATIENCE).await.unwrap(), Awaited::Done(_)));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_in_a_transaction_settles_its_job_in_it() {
    let mut fixture = Fixture::new().await;
    fixture.sql("create table ledger (order_id bigint)").await;
    let engine = fixture
        .engine()
        .queue("default", 2)
        .handle_in_transaction(kind(Receipt::KIND), |job: Job<Receipt>, transaction| {
            Box::pin(async move {
                let insert = "insert into ledger values ($1)";
                transaction.execute(insert, &[&job.arguments.order_id]).await?;
                if job.attempt == 1 {
                    return Err("after its insert".into());
                }
                Ok(None)
            })
        })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Receipt { order_id: 7 }.job().unwrap()).await.job_id();
    let Awaited::Done(end) = engine.await_job(id, PATIENCE).await.unwrap() else { panic!("ends") };
    assert_eq!(end.state, JobState::Completed);
    assert_eq!(fixture.texts("select order_id::text from ledger").await, ["7"]);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_enqueued_is_refused_with_what_to_do() {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["mail.receipt", "mail.invoice"]).await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("search", &["a.b"]).await;
    let unknown = NewJob::new("mail.reciept").unwrap();
    let error = fixture.recorder.enqueue(&mut fixture.client, &unknown).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (ErrorKind::UndeclaredKind, Some("kind")));
    assert_eq!(error.to_string(), "kind: mail.reciept is not declared");
    assert!(error.hint().unwrap().starts_with("Declared and alike: mail.receipt"), "{error:?}");
    let refusals = [
        ("'search'", "kind: search is a subscription to events"),
        ("'mail.receipt', priority => 'urgent'", "priority: \"urgent\" is none of"),
        ("'mail.receipt', max_attempts => 0", "max_attempts: is out of range"),
        ("'mail.receipt', delay => '-1 s'", "delay: -00:00:01 is out of range"),
        ("'mail.receipt', run_at => 'infinity'", "run_at: is more than a hundred years away"),
        ("'mail.receipt', run_at => now(), delay => '1 s'", "run_at: only one of"),
        ("'mail.receipt', tenant => null", "tenant: is empty"),
        ("'mail.receipt', key => ''", "key: is empty"),
        ("'mail.receipt', arguments => null", "arguments: are missing"),
        ("'mail.receipt', unique_by => '{a}'", "unique_by: the arguments have no \"a\""),
        ("'mail.receipt', unique_by => '{}', unique_states => '{x}'", "unique_states: are some of"),
        ("'mail.receipt', unique_for => '1 h'", "unique_by: is missing"),
        (
            "'mail.receipt', to_jsonb(repeat('x', 262144))",
            "arguments: are 262146 bytes long, at most 262144 fit",
        ),
    ];
    for (arguments, words) in refusals {
        let sql = format!("select postrider.enqueue({arguments})");
        let error = fixture.client.batch_execute(&sql).await.unwrap_err();
        let error = Error::from(postrider::TransactionError::from(error)).to_string();
        assert!(error.starts_with(words), "{arguments}: {error}");
    }
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 0);
}

/// Enqueues one job of each form by itself, then all as a batch.
struct EnqueueAll(postrider::Recorder);

impl Work for EnqueueAll {
    type Output = Result<Vec<Enqueued>, Error>;

    async fn run<T: Transaction>(self, transaction: &mut T) -> Self::Output {
        let new = || NewJob::new("mail.receipt").unwrap();
        let quoted = json!({"we\"ird, \\name": 1, "n": [1, 2]});
        let jobs = [
            new(),
            new().arguments(&quoted)?.unique(Unique::by(["we\"ird, \\name"])),
            new().priority(Priority::Bulk).max_attempts(7).tenant("acme").key("k"),
            new().delay(Duration::from_secs(5)).unique(Unique::by_kind().also_while_running()),
            new()
                .arguments(&json!({"a": 1}))?
                .unique(Unique::by(["a"]).within(Duration::from_secs(60))),
        ];
        let mut done = Vec::new();
        for job in &jobs {
            done.push(self.0.enqueue(transaction, job).await?);
        }
        done.extend(self.0.enqueue_many(transaction, &jobs).await?);
        assert!(self.0.enqueue_many(transaction, &[]).await?.is_empty());
        Ok(done)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_driver_enqueues_the_same_jobs() {
    let rows = "select concat_ws(' ', priority, extra_attempts, tenant, key, arguments,
        due_at > now()) from postrider.job order by id";
    let mut expected: Option<Vec<String>> = None;
    for driver in Driver::ALL {
        let fixture = Fixture::new().await;
        fixture.kinds(&["mail.receipt"]).await;
        let work = EnqueueAll(fixture.recorder.clone());
        let done = driver.run(&fixture.db.url(), End::Commit, work).await.unwrap();
        let is_new = |done: &Enqueued| matches!(done, Enqueued::Inserted(_));
        let new: Vec<bool> = done.iter().map(is_new).collect();
        let (t, f) = (true, false);
        assert_eq!(new, [t, t, t, t, t, t, f, t, f, f], "{driver:?}: {done:?}");
        let found = fixture.texts(rows).await;
        assert_eq!(found.len(), 7, "{driver:?}");
        assert_eq!(expected.get_or_insert_with(|| found.clone()), &found, "{driver:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_job_of_a_batch_is_named_by_its_place_and_nothing_of_the_batch_stays() {
    let mut fixture = Fixture::new().await;
    fixture.kinds(&["a"]).await;
    let batch = [NewJob::new("a").unwrap(), NewJob::new("b").unwrap()];
    let error = fixture.recorder.enqueue_many(&mut fixture.client, &batch).await.unwrap_err();
    assert_eq!(error.to_string(), "job 2 of the batch: kind: b is not declared");
    for (json, words) in [
        (r#"[{"kind": "a"}, 7]"#, "job 2 of the batch: is a JSON number"),
        (r#"[{"kind": "a", "when": 7}]"#, "job 1 of the batch: unknown field: when"),
        (r#"[{"kind": "a", "delay": 7}]"#, "job 1 of the batch: delay: is a JSON number"),
        (r#"{"kind": "a"}"#, "jobs: an array of objects is needed"),
    ] {
        let sql = "select * from postrider.enqueue_many(($1::text)::jsonb)";
        let error = fixture.client.query(sql, &[&json]).await.unwrap_err();
        let error = Error::from(postrider::TransactionError::from(error));
        assert!(error.to_string().starts_with(words), "{json}: {error}");
    }
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_only_enqueue_can_do_that_and_nothing_else() {
    let fixture = Fixture::new().await;
    fixture.kinds(&["a"]).await;
    let role = format!("app_{}", fixture.db.name());
    fixture
        .sql(&format!(
            "create role {role}; grant usage on schema postrider to {role};
             grant execute on function postrider.enqueue to {role}; set role {role};
             select postrider.enqueue('a', '{{\"n\": 1}}', unique_by => '{{n}}');"
        ))
        .await;
    for refused in ["select * from postrider.job", "select postrider.nearest_kinds('a')"] {
        let error = fixture.client.batch_execute(refused).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42501", "{refused}");
    }
    fixture.sql(&format!("reset role; drop owned by {role}; drop role {role}")).await;
    assert_eq!(fixture.count("select count(*) from postrider.job").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_a_kind_or_a_subscription_and_not_both() {
    let fixture = Fixture::new().await;
    fixture.declare(&["a.b"]).await;
    fixture.subscription("taken", &["a.b"]).await;
    let handled = async |_: Job<Value>| ();
    let refused = fixture.engine().handle(kind("taken"), handled).start().await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(
        refused.to_string(),
        "`taken` is a subscription to events, so it is no kind of jobs"
    );
}
