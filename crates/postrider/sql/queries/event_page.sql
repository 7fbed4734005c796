-- A page of events, second half: the filters. $1 below this seq, $2 regular expression over the
-- type, $3 tenant, $4 subject, $5 state, $6 not before, all null for any; $7 most rows.
select l.* from listed l
where ($1 is null or l.seq < $1) and ($2 is null or l.type ~ $2) and ($3 is null or l.tenant = $3)
  and ($4 is null or l.subject = $4) and ($5 is null or l.state = $5)
  and ($6 is null or l.occurred_at >= $6)
order by l.seq desc
limit $7
