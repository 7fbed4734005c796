-- Deletes a periodic job; jobs that it enqueued stay. $1 name. No row: there is none.
delete from {schema}.periodic p where p.name = $1 returning p.id
