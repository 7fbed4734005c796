-- Shows the error of a filter on its subscription. $1 object from subscription id to error.
-- Index: subscription_pkey.
update {schema}.subscription s
set filter_error = e.value, filter_error_at = clock_timestamp()
from jsonb_each_text($1) e
where s.id = e.key::integer
