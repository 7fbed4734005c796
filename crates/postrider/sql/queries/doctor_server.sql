-- What the server says about itself.
select current_setting('server_version') as version, current_setting('server_version_num')::integer as number,
  pg_is_in_recovery() as in_recovery, clock_timestamp() as now, pg_backend_pid() as pid,
  pg_notification_queue_usage() as notification_queue_usage
