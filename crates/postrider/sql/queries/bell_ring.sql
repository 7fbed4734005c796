-- Tells every process of this schema something short. $1 the word. The payload never holds data.
select pg_notify({channel}, $1)
