-- What the server says about itself and about this connection.
select current_setting('server_version') as version,
  current_setting('server_version_num')::integer as number, pg_is_in_recovery() as in_recovery,
  current_setting('default_transaction_read_only')::boolean as read_only,
  clock_timestamp() as now, inet_server_port() as port,
  pg_notification_queue_usage() as notification_queue_usage,
  current_user::text as role, pg_has_role('pg_read_all_stats', 'usage') as sees_all_sessions
