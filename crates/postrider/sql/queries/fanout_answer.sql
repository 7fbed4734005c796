-- Fan-out, last part: always one row.
select * from answer
