-- Counts a change of the routing, and limits a batch so that a fan-out transaction stays under
-- 10,000 jobs. Called last in the transaction of the change. Reads the whole of route.
update {schema}.routing
set version = version + 1,
  batch_max = greatest(1, 10000 / greatest(1, (
    select coalesce(max(c.routes), 1) from (
      select count(*) as routes from {schema}.route r group by r.type) c)))
returning version
