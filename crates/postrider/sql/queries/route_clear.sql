-- Takes the routes of changed types and subscriptions away. $1 types, $2 subscriptions.
-- Indexes: a_type_routes_once, route_of_subscription.
delete from {schema}.route r where r.type = any($1) or r.subscription_id = any($2)
