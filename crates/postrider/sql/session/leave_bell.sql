-- Awake again: writers may stay silent.
select pg_advisory_unlock({bell_key})
